"""The task's own reward: fine-tuning and training from scratch are the same loop with this objective."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float

from skillscape.objectives.base import Objective
from skillscape.skills import Discrete, NoSkill, SkillSpace
from skillscape.types import Experience, Metrics, RandomKey, Spec


@dataclass(frozen=True)
class Extrinsic(Objective[None]):
    """Task reward as the environment gives it; learns nothing of its own."""

    name: ClassVar[str] = "extrinsic"

    number_of_skills: int = 0
    """Skills the policy carries over from pre-training; 0 for a policy without skills."""

    @property
    def skills(self) -> SkillSpace:
        """None, or as many as the policy was pre-trained with."""
        return Discrete(self.number_of_skills) if self.number_of_skills else NoSkill()

    @property
    def resample_every(self) -> None:
        """One skill per episode."""
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
