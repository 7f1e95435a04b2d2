"""The task reward as an objective: fine-tuning and training from scratch use the same loop."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from jaxtyping import Array, Float

from skillscape.objectives.base import Objective, Scale
from skillscape.skills import SkillKind, SkillSpace, skill_space
from skillscape.types import Experience, Metrics, RandomKey, Spec


@dataclass(frozen=True)
class Extrinsic(Objective[None]):
    """The task reward of the environment; there is no model to learn.

    The skill space and the form of the critic are those of the pre-trained agent.
    """

    name: ClassVar[str] = "extrinsic"
    label: ClassVar[str] = "task reward"

    skill_kind: SkillKind = "none"
    """Skill space of the pre-trained policy."""
    skill_width: int = 0
    """Dimension of the skills of the pre-trained policy."""
    successor_features: bool = False
    """Whether the critic is Q = ψ(s, a, z)·z."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The same settings everywhere."""
        del scale
        return cls()

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """Form of the pre-trained critic."""
        return "skill" if self.successor_features else "scalar"

    @property
    def skills(self) -> SkillSpace:
        """The skill space of the pre-trained policy."""
        return skill_space(self.skill_kind, self.skill_width)

    def init(self, key: RandomKey, spec: Spec) -> None:
        """The empty state."""
        del key, spec

    def update(self, state: None, batch: Experience, key: RandomKey) -> tuple[None, Metrics]:
        """No update: there is no model."""
        del batch, key
        return state, {}

    def reward(self, state: None, batch: Experience, key: RandomKey) -> tuple[None, Float[Array, " n"], Metrics]:
        """The task rewards of the batch."""
        del key
        return state, batch.reward, {}
