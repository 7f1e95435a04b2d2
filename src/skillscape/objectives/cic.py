"""CIC (Laskin et al., Contrastive Intrinsic Control, NeurIPS 2022): entropy in a contrastive representation."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from jaxtyping import Array, Float

from skillscape.objectives.base import Adaptation, Scale, SkillCount
from skillscape.objectives.skill_contrast import ContrastiveEntropy, ContrastState
from skillscape.skills import Box, Discrete, SkillSpace
from skillscape.types import Experience, Metrics, RandomKey, RewardState


@dataclass(frozen=True)
class CIC(ContrastiveEntropy):
    """Particle entropy of states, in a representation trained by InfoNCE between transitions (s, s') and skills."""

    name: ClassVar[str] = "cic"
    label: ClassVar[str] = "CIC"

    number_of_skills: SkillCount = 10
    skill_dim: int = 0
    """Dimension d of skills uniform in [0, 1]^d, as in the paper (64); 0 for discrete skills, as in mazes."""
    sources: RewardState = "obs"
    """State whose distance to its nearest neighbours s' is rewarded: s (obs), or s' (next_obs), itself included."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes the settings of the authors' code: 64-dimensional skills, and distances between s'."""
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale), skill_dim=64, sources="next_obs", feature_dim=64, resample_every=scale.resample_every
        )

    @property
    def adaptation(self) -> Adaptation:
        """The centre of the box, as in the authors' code; the paper's search is ``--skill grid``."""
        return "constant" if self.skill_dim else "random"

    @property
    def skills(self) -> SkillSpace:
        """n one-hot skills, or the box [0, 1]^d."""
        return Box(self.skill_dim) if self.skill_dim else Discrete(self.number_of_skills)

    def reward(
        self, state: ContrastState, batch: Experience, key: RandomKey
    ) -> tuple[ContrastState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean distance to the k nearest g(s') in the batch), distances over their running variance."""
        del key
        state, reward = self.entropy(state, batch, self.sources)
        return state, reward, {"distance_variance": state.distances.variance}
