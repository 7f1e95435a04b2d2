"""The task's own reward: fine-tuning and training from scratch are the same loop with this objective."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Array, Float

from skillscape.objectives.base import Objective
from skillscape.skills import SkillSpace, skill_space
from skillscape.types import Experience, Metrics, RandomKey, Spec


@dataclass(frozen=True)
class Extrinsic(Objective[None]):
    """Task reward as the environment gives it; learns nothing of its own.

    The skills and the form of the critic are those that the policy was pre-trained with.
    """

    name: ClassVar[str] = "extrinsic"
    label: ClassVar[str] = "task reward"

    skill_kind: Literal["discrete", "sphere", "box", "none"] = "none"
    skill_width: int = 0
    successor_features: bool = False
    """Whether the critic is Q = ψ(s, a, z)·z."""

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """As pre-trained."""
        return "skill" if self.successor_features else "scalar"

    @property
    def skills(self) -> SkillSpace:
        """As pre-trained."""
        return skill_space(self.skill_kind, self.skill_width)

    @property
    def resample_every(self) -> None:
        """Which skill acts is the business of ``adaptation``."""
        return None

    def init(self, key: RandomKey, spec: Spec) -> None:
        """Nothing to keep."""
        del key, spec

    def update(self, state: None, batch: Experience, key: RandomKey) -> tuple[None, Metrics]:
        """Nothing to learn."""
        del batch, key
        return state, {}

    def reward(self, state: None, batch: Experience, key: RandomKey) -> tuple[None, Float[Array, " n"], Metrics]:
        """The reward that came with the batch."""
        del key
        return state, batch.reward, {}
