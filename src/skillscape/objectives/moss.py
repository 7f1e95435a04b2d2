"""MOSS (Zhao et al., A Mixture of Surprises for Unsupervised Reinforcement Learning, NeurIPS 2022).

CIC in two modes: skills with positive entries seek states that are far from others, skills with negative entries seek
states that are close to others. Which of the two is useful depends on the environment; one policy learns both.

Departure: the authors explore in the first two thirds of an episode and control in the rest, with a new u every 50
steps. Here the mode comes with the skill, negative with probability 1/3, so that a skill is drawn and kept as
everywhere else.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import (
    AdamTrained,
    Adaptation,
    Epsilon,
    Hidden,
    LearningRate,
    Objective,
    Scale,
    SkillSteps,
)
from skillscape.objectives.skill_contrast import ContrastNetworks, contrast_loss, skill_of_transition
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.skills import SignedBox
from skillscape.stats import Moments, particle_entropy
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec


class MOSSState(NamedTuple):
    """Networks, and the running moments of the distances."""

    networks: TrainState[ContrastNetworks]
    distances: Moments


@dataclass(frozen=True)
class MOSS(AdamTrained, Objective[MOSSState]):
    """m times the particle entropy in the space of CIC, for skills z = m·u: sought if m = 1, avoided if m = −1."""

    name: ClassVar[str] = "moss"
    label: ClassVar[str] = "MOSS"
    reward_gradient: ClassVar[bool] = False
    reaches_goals: ClassVar[bool] = True

    skill_dim: Annotated[int, POSITIVE] = 10
    """Entries d of a skill z = m·u, u uniform in [0, 1]^d and m = ±1 (64 in the paper)."""
    reward_state: RewardState = "obs"
    """State of a transition whose distances to the nearest next states of the batch are rewarded."""
    hidden: Hidden = (128, 128)
    feature_dim: Annotated[int, POSITIVE] = 10
    """Width of the representations g(s) and h(z)."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """Temperature of the contrast between transitions and skills."""
    neighbours: Annotated[int, POSITIVE] = 16
    """k of the particle entropy: the nearest next states of the batch."""
    distance_floor: float = 5e-4
    """Subtracted from the standardised distances to the neighbours, which are then floored at zero."""
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As the authors' code outside mazes: skills and features of 64 numbers."""
        if scale.benchmark == "maze":
            return cls()
        return cls(
            skill_dim=64,
            # In imagination the reward of the state that is left would not depend on the action.
            reward_state="next_obs" if scale.imagined else "obs",
            hidden=scale.hidden,
            feature_dim=64,
            learning_rate=scale.learning_rate,
            epsilon=scale.epsilon,
            resample_every=scale.resample_every,
        )

    @property
    def adaptation(self) -> Adaptation:
        """0.5 in every entry, the middle of the exploring skills, as the authors' code."""
        return "constant"

    @property
    def skills(self) -> SignedBox:
        """m·u: exploring where m = 1, controlling where m = −1."""
        return SignedBox(self.skill_dim)

    def init(self, key: RandomKey, spec: Spec) -> MOSSState:
        """Fresh networks; no distances seen."""
        networks = ContrastNetworks.create(key, spec.obs_shape, self.skill_dim, self.hidden, self.feature_dim)
        return MOSSState(TrainState.create(self._transform, networks), Moments.create())

    def update(self, state: MOSSState, batch: Experience, key: RandomKey) -> tuple[MOSSState, Metrics]:
        """One InfoNCE step, as CIC's: row i's skill is to pick row i's transition out of the batch."""
        del key

        def loss(networks: ContrastNetworks) -> tuple[Float[Array, ""], Metrics]:
            contrast = contrast_loss(networks, batch, self.temperature)
            return contrast, {"model_loss": contrast}

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return MOSSState(networks, state.distances), metrics

    def reward(
        self, state: MOSSState, batch: Experience, key: RandomKey
    ) -> tuple[MOSSState, Float[Array, " n"], Metrics]:
        """r = m log(1 + meanₖ max((dₖ − M) / V − floor, 0)), dₖ from g(s) to its k nearest g(s') of the batch.

        M, V: running mean and variance of all distances, this batch's included; m: the sign of the skill.
        """
        del key
        network = state.networks.params.state
        targets = jax.vmap(network)(batch.next_obs)
        sources = jax.vmap(network)(batch.obs) if self.reward_state == "obs" else targets
        moments, entropy = particle_entropy(
            sources,
            targets,
            state.distances,
            self.neighbours,
            scale="variance",
            floor=self.distance_floor,
            centred=True,
        )
        mode = jnp.where(jnp.sum(batch.skill, axis=-1) < 0, -1.0, 1.0)
        metrics = {
            "particle_entropy": jnp.mean(entropy),
            "distance_mean": moments.mean,
            "distance_variance": moments.variance,
        }
        return MOSSState(state.networks, moments), mode * entropy, metrics

    def skill_for_goal(
        self, state: MOSSState, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The skill whose query h(z) is most similar to the key p(g(s), g(goal)) of a step from state to goal."""
        return skill_of_transition(state.networks.params, obs, goal, self.skills)
