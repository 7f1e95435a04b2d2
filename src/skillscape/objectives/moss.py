"""MOSS (Zhao et al., A Mixture of Surprises for Unsupervised Reinforcement Learning, NeurIPS 2022).

CIC in two modes: skills with positive entries seek states that are far from others, skills with negative entries seek
states that are close to others. Which of the two is useful depends on the environment; one policy learns both.

Departure: the authors explore in the first two thirds of an episode and control in the rest, with a new u every 50
steps. Here the mode comes with the skill, negative with probability 1/3, so that a skill is drawn and kept as
everywhere else.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.objectives.base import Adaptation, Scale
from skillscape.objectives.skill_contrast import ContrastiveEntropy, ContrastState
from skillscape.ranges import POSITIVE
from skillscape.skills import SignedBox
from skillscape.types import Experience, Metrics, RandomKey, RewardState


@dataclass(frozen=True)
class MOSS(ContrastiveEntropy):
    """m times the particle entropy in the space of CIC, for skills z = m·u: sought if m = 1, avoided if m = −1."""

    name: ClassVar[str] = "moss"
    label: ClassVar[str] = "MOSS"

    skill_dim: Annotated[int, POSITIVE] = 10
    """Entries d of a skill z = m·u, u uniform in [0, 1]^d and m = ±1 (64 in the paper)."""
    reward_state: RewardState = "obs"
    """State of a transition whose distances to the nearest next states of the batch are rewarded."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As the authors' code outside mazes: skills and features of 64 numbers."""
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale),
            skill_dim=64,
            reward_state=scale.reward_state,
            feature_dim=64,
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

    def reward(
        self, state: ContrastState, batch: Experience, key: RandomKey
    ) -> tuple[ContrastState, Float[Array, " n"], Metrics]:
        """r = m log(1 + meanₖ max((dₖ − M) / V − floor, 0)), dₖ from g(s) to its k nearest g(s') of the batch.

        M, V: running mean and variance of all distances, this batch's included; m: the sign of the skill.
        """
        del key
        state, entropy = self.entropy(state, batch, self.reward_state, centred=True)
        mode = jnp.where(jnp.sum(batch.skill, axis=-1) < 0, -1.0, 1.0)
        metrics = {
            "particle_entropy": jnp.mean(entropy),
            "distance_mean": state.distances.mean,
            "distance_variance": state.distances.variance,
        }
        return state, mode * entropy, metrics
