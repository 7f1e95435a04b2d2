"""METRA (Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024).

Maximise the Wasserstein dependency between states and skills under the temporal distance: move along the skill
direction in a latent space where one environment step has length ≤ 1.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.encoders import StateNet
from skillscape.objectives.latent_steps import (
    ConstrainedSteps,
    constrained_loss,
    directions,
    follow_constraint,
    latent_steps,
)
from skillscape.optim import TrainState, gradient_step
from skillscape.types import Experience, Metrics, RandomKey, Spec


class METRAState(NamedTuple):
    """The representation φ, and log λ of the multiplier on its constraint."""

    representation: TrainState[StateNet]
    multiplier: TrainState[Float[Array, ""]]


@dataclass(frozen=True)
class METRA(ConstrainedSteps[METRAState]):
    """Wasserstein dependency: r = (φ(s') − φ(s))·z under ‖φ(s') − φ(s)‖² ≤ 1, by dual gradient descent.

    s and s' are one step apart: a distance of n steps would scale φ and the reward by 1/n.
    """

    name: ClassVar[str] = "metra"
    label: ClassVar[str] = "METRA"

    def init(self, key: RandomKey, spec: Spec) -> METRAState:
        """Initial representation and multiplier."""
        representation = StateNet.create(key, spec.obs_shape, self.hidden, self.skills.width)
        log_multiplier = jnp.asarray(math.log(self.initial_multiplier), jnp.float32)
        return METRAState(
            TrainState.create(self._transform, representation),
            TrainState.create(self._multiplier_transform, log_multiplier),
        )

    def update(self, state: METRAState, batch: Experience, key: RandomKey) -> tuple[METRAState, Metrics]:
        """A step of φ on −mean(Δφ·z + λ c), then one of log λ on log λ · mean c, with c = min(ε, 1 − ‖Δφ‖²).

        Both use c of the representation before the step; λ grows where the constraint is violated (c < 0).
        """
        del key
        multiplier = jnp.exp(state.multiplier.params)
        direction = directions(batch.skill, self.skill_kind)

        def loss(representation: StateNet) -> tuple[Float[Array, ""], Metrics]:
            steps = latent_steps(representation, batch)
            return constrained_loss(steps, direction, 1.0, multiplier, self.slack, self.constraint)

        representation, metrics = gradient_step(self._transform, loss, state.representation)
        log_multiplier = follow_constraint(self._multiplier_transform, state.multiplier, metrics["constraint"])
        return METRAState(representation, log_multiplier), {**metrics, "multiplier": multiplier}

    def represent(self, state: METRAState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """φ(s)."""
        return jax.vmap(state.representation.params)(obs)
