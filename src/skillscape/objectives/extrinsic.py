"""The task's own reward: fine-tuning and training from scratch are the same loop with this objective."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from jaxtyping import Array, Float

from skillscape.objectives.base import Objective, Scale
from skillscape.skills import SkillKind, SkillSpace, skill_space
from skillscape.types import Experience, Metrics, RandomKey, Spec


@dataclass(frozen=True)
class Extrinsic(Objective[None]):
    """Task reward as the environment gives it; learns nothing of its own.

    The skills and the form of the critic are those that the policy was pre-trained with.
    """

    name: ClassVar[str] = "extrinsic"
    label: ClassVar[str] = "task reward"

    skill_kind: SkillKind = "none"
    """Skill space of the pre-trained policy."""
    skill_width: int = 0
    """Length of the skill vectors of the pre-trained policy."""
    successor_features: bool = False
    """Whether the critic is Q = ψ(s, a, z)·z."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The same everywhere."""
        del scale
        return cls()

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """The critic that was pre-trained."""
        return "skill" if self.successor_features else "scalar"

    @property
    def skills(self) -> SkillSpace:
        """The skills that were pre-trained."""
        return skill_space(self.skill_kind, self.skill_width)

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
