"""CIC (Laskin et al., Contrastive Intrinsic Control, NeurIPS 2022): entropy in a contrastive representation."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import jax
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import (
    AdamTrained,
    Adaptation,
    Epsilon,
    Hidden,
    LearningRate,
    Objective,
    Scale,
    SkillCount,
    SkillSteps,
)
from skillscape.objectives.skill_contrast import ContrastNetworks, contrast_loss, skill_of_transition
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.skills import Box, Discrete, SkillSpace
from skillscape.stats import Moments, particle_entropy
from skillscape.types import Experience, Metrics, RandomKey, Spec


class CICState(NamedTuple):
    """Networks, and running moments of the neighbour distances."""

    networks: TrainState[ContrastNetworks]
    distances: Moments


@dataclass(frozen=True)
class CIC(AdamTrained, Objective[CICState]):
    """Particle entropy of states, in a representation trained by InfoNCE between transitions (s, s') and skills."""

    name: ClassVar[str] = "cic"
    label: ClassVar[str] = "CIC"
    reward_gradient: ClassVar[bool] = False
    reaches_goals: ClassVar[bool] = True

    number_of_skills: SkillCount = 10
    skill_dim: int = 0
    """Dimension d of skills uniform in [0, 1]^d, as in the paper (64); 0 for discrete skills, as in mazes."""
    sources: Literal["obs", "next_obs"] = "obs"
    """State whose distance to its nearest neighbours s' is rewarded: s (obs), or s' (next_obs), itself included."""
    hidden: Hidden = (128, 128)
    feature_dim: Annotated[int, POSITIVE] = 10
    """Dimension of the representations g(s) and h(z)."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """Temperature of the InfoNCE loss."""
    neighbours: Annotated[int, POSITIVE] = 16
    """Number of neighbours k of the particle entropy."""
    distance_floor: float = 5e-4
    """Constant subtracted from the scaled neighbour distances, which are then clipped below at zero."""
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes the settings of the authors' code: 64-dimensional skills, and distances between s'."""
        if scale.benchmark == "maze":
            return cls()
        return cls(
            number_of_skills=10,
            skill_dim=64,
            sources="next_obs",
            hidden=scale.hidden,
            feature_dim=64,
            learning_rate=scale.learning_rate,
            epsilon=scale.epsilon,
            resample_every=scale.resample_every,
        )

    @property
    def adaptation(self) -> Adaptation:
        """The centre of the box, as in the authors' code; the paper's search is ``--skill grid``."""
        return "constant" if self.skill_dim else "random"

    @property
    def skills(self) -> SkillSpace:
        """n one-hot skills, or the box [0, 1]^d."""
        return Box(self.skill_dim) if self.skill_dim else Discrete(self.number_of_skills)

    def init(self, key: RandomKey, spec: Spec) -> CICState:
        """Initial networks and empty moments."""
        networks = ContrastNetworks.create(key, spec.obs_shape, self.skills.width, self.hidden, self.feature_dim)
        return CICState(TrainState.create(self._transform, networks), Moments.create())

    def update(self, state: CICState, batch: Experience, key: RandomKey) -> tuple[CICState, Metrics]:
        """One InfoNCE step with queries h(zᵢ) and keys p(g(sᵢ), g(s'ᵢ)); the other rows are negatives."""
        del key

        def loss(networks: ContrastNetworks) -> tuple[Float[Array, ""], Metrics]:
            contrast = contrast_loss(networks, batch, self.temperature)
            return contrast, {"model_loss": contrast}

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return CICState(networks, state.distances), metrics

    def reward(
        self, state: CICState, batch: Experience, key: RandomKey
    ) -> tuple[CICState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean distance to the k nearest g(s') in the batch), distances over their running variance."""
        del key
        network = state.networks.params.state
        targets = jax.vmap(network)(batch.next_obs)
        sources = jax.vmap(network)(batch.obs) if self.sources == "obs" else targets
        moments, reward = particle_entropy(
            sources, targets, state.distances, self.neighbours, scale="variance", floor=self.distance_floor
        )
        return CICState(state.networks, moments), reward, {"distance_variance": moments.variance}

    def skill_for_goal(
        self, state: CICState, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The skill whose query h(z) is most similar to the key p(g(s), g(goal)) of a step from state to goal."""
        return skill_of_transition(state.networks.params, obs, goal, self.skills)
