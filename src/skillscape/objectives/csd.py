"""CSD (Park et al., Controllability-Aware Unsupervised Skill Discovery, ICML 2023).

Move along the skill direction in a latent space where a step may be as long as the transition is unlikely under a model
of the current skills' transitions: hard-to-reach changes give more reward than easy ones.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.encoders import ObsEncoder, StateNet, coarse_target, coarse_target_size
from skillscape.objectives.latent_steps import (
    ConstrainedSteps,
    constrained_loss,
    directions,
    follow_constraint,
    latent_steps,
    squared_length,
)
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.types import Experience, Metrics, RandomKey, Spec


class ChangeModel(eqx.Module):
    """N(μ(s), σ(s)²) of the change s' − s: networks for μ and log σ on a shared observation encoder.

    For images the change is that of their coarse targets.
    """

    obs_encoder: ObsEncoder
    mean: MLP
    log_std: MLP

    def __call__(self, obs: Shaped[Array, "..."]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """μ(s) and log σ(s), with σ within [10⁻⁶, 10⁶]."""
        bound = math.log(1e6)
        features = self.obs_encoder(obs)
        return self.mean(features), jnp.clip(self.log_std(features), -bound, bound)


class CSDState(NamedTuple):
    """The representation φ, log λ of the multiplier on its constraint, and the model of changes."""

    representation: TrainState[StateNet]
    multiplier: TrainState[Float[Array, ""]]
    changes: TrainState[ChangeModel]


@dataclass(frozen=True)
class CSD(ConstrainedSteps[CSDState]):
    """Controllability-aware: r = (φ(s') − φ(s))·z under ‖φ(s') − φ(s)‖² ≤ d(s, s'), d large for unlikely transitions.

    d(s, s') = Σ ρ (s' − s − μ(s))² with ρ ∝ σ(s)⁻², scaled so that its geometric mean over the entries of s is one.
    s and s' are one step apart. For images d is computed on their coarse targets.
    """

    name: ClassVar[str] = "csd"
    label: ClassVar[str] = "CSD"

    slack: Annotated[float, POSITIVE] = 1e-6
    """Slack ε, the upper bound of the constraint term min(ε, d(s, s') − ‖Δφ‖²)."""
    initial_multiplier: Annotated[float, POSITIVE] = 3000.0
    """Initial Lagrange multiplier λ of the constraint."""
    reward_scale: float = 10.0
    """Factor on the intrinsic reward."""

    def init(self, key: RandomKey, spec: Spec) -> CSDState:
        """Initial representation, multiplier and model of changes."""
        representation_key, mean_key, std_key = jax.random.split(key, 3)
        representation = StateNet.create(representation_key, spec.obs_shape, self.hidden, self.skills.width)
        obs_encoder, outputs = ObsEncoder.create(mean_key, spec.obs_shape), coarse_target_size(spec.obs_shape)
        changes = ChangeModel(
            obs_encoder=obs_encoder,
            mean=MLP.create(mean_key, obs_encoder.width, self.hidden, outputs),
            log_std=MLP.create(std_key, obs_encoder.width, self.hidden, outputs),
        )
        log_multiplier = jnp.asarray(math.log(self.initial_multiplier), jnp.float32)
        return CSDState(
            TrainState.create(self._transform, representation),
            TrainState.create(self._multiplier_transform, log_multiplier),
            TrainState.create(self._transform, changes),
        )

    def distance(self, state: CSDState, batch: Experience) -> Float[Array, " n"]:
        """d(s, s'): the squared error of the model's mean, weighted by its relative precision."""
        mean, log_std = jax.vmap(state.changes.params)(batch.obs)
        # σ⁻¹ over its geometric mean: relative precision of the entries, whatever the overall confidence.
        relative = jnp.exp(jnp.mean(log_std, axis=-1, keepdims=True) - log_std)
        return squared_length((_changes(batch) - mean) * relative, self.constraint)

    def update(self, state: CSDState, batch: Experience, key: RandomKey) -> tuple[CSDState, Metrics]:
        """A step of φ on −mean(Δφ·z + λ c), of log λ on log λ · mean c, and of the model on −log N(s' − s; μ, σ²).

        c = min(ε, d(s, s') − ‖Δφ‖²). All use the networks before the steps; λ grows where the constraint is violated.
        """
        del key
        multiplier = jnp.exp(state.multiplier.params)
        distance, direction = self.distance(state, batch), directions(batch.skill, self.skill_kind)

        def loss(representation: StateNet) -> tuple[Float[Array, ""], Metrics]:
            steps = latent_steps(representation, batch)
            return constrained_loss(steps, direction, distance, multiplier, self.slack, self.constraint)

        def change_loss(changes: ChangeModel) -> tuple[Float[Array, ""], Metrics]:
            mean, log_std = jax.vmap(changes)(batch.obs)
            scaled = (_changes(batch) - mean) * jnp.exp(-log_std)
            value = jnp.mean(jnp.sum(0.5 * scaled**2 + log_std + 0.5 * math.log(2 * math.pi), axis=-1))
            return value, {"change_loss": value}

        representation, metrics = gradient_step(self._transform, loss, state.representation)
        log_multiplier = follow_constraint(self._multiplier_transform, state.multiplier, metrics["constraint"])
        changes, more = gradient_step(self._transform, change_loss, state.changes)
        metrics = {**metrics, **more, "multiplier": multiplier, "distance": jnp.mean(distance)}
        return CSDState(representation, log_multiplier, changes), metrics

    def represent(self, state: CSDState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """φ(s)."""
        return jax.vmap(state.representation.params)(obs)


def _changes(batch: Experience) -> Float[Array, "n d"]:
    return jax.vmap(coarse_target)(batch.next_obs) - jax.vmap(coarse_target)(batch.obs)
