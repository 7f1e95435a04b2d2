"""ICM (Pathak et al., Curiosity-driven Exploration by Self-supervised Prediction, ICML 2017): go where you are wrong.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.nets import MLP
from skillscape.objectives.base import AdamTrained, Epsilon, Hidden, LearningRate, Objective, Scale
from skillscape.objectives.encoders import ObsEncoder, coarse_target, coarse_target_size
from skillscape.optim import TrainState, gradient_step
from skillscape.stats import safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, Spec


class ICMNetworks(eqx.Module):
    """Forward model f: (s, a) → s', and inverse model g: (s, s') → a before its tanh.

    Images are read through one eye by both models, and of s' its outline is predicted.
    """

    obs_encoder: ObsEncoder
    forward: MLP
    inverse: MLP

    def forward_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖f(s, a) − s'‖, not squared."""
        seen = jax.vmap(self.obs_encoder)(batch.obs)
        predicted = jax.vmap(self.forward)(jnp.concatenate([seen, batch.action], axis=-1))
        return safe_sqrt(jnp.sum((predicted - jax.vmap(coarse_target)(batch.next_obs)) ** 2, axis=-1))

    def inverse_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖tanh g(s, s') − a‖, not squared."""
        seen = jax.vmap(self.obs_encoder)(batch.obs), jax.vmap(self.obs_encoder)(batch.next_obs)
        predicted = jnp.tanh(jax.vmap(self.inverse)(jnp.concatenate(seen, axis=-1)))
        return safe_sqrt(jnp.sum((predicted - batch.action) ** 2, axis=-1))


class ICMState(NamedTuple):
    """The two models under one optimiser."""

    networks: TrainState[ICMNetworks]


@dataclass(frozen=True)
class ICM(AdamTrained, Objective[ICMState]):
    """Curiosity: the error of a learned forward model, in the space of the states themselves, or of their outlines.

    The inverse model is there to shape a representation: of images, what the forward model reads. With none between it
    and vectors it has no say in their reward, and is kept because the method is forward and inverse model together.
    """

    name: ClassVar[str] = "icm"
    label: ClassVar[str] = "ICM"

    hidden: Hidden = (128, 128)
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As URLB outside mazes: one hidden layer."""
        if scale.benchmark == "maze":
            return cls()
        return cls(hidden=(scale.width,), learning_rate=scale.learning_rate, epsilon=scale.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> ICMState:
        """Fresh models."""
        forward_key, inverse_key = jax.random.split(key)
        obs_encoder, outputs = ObsEncoder.create(key, spec.obs_shape), coarse_target_size(spec.obs_shape)
        networks = ICMNetworks(
            obs_encoder=obs_encoder,
            forward=MLP.create(forward_key, obs_encoder.width + spec.action_dim, self.hidden, outputs),
            inverse=MLP.create(inverse_key, 2 * obs_encoder.width, self.hidden, spec.action_dim),
        )
        return ICMState(TrainState.create(self._transform, networks))

    def update(self, state: ICMState, batch: Experience, key: RandomKey) -> tuple[ICMState, Metrics]:
        """One step on the mean forward error plus the mean inverse error."""
        del key

        def loss(networks: ICMNetworks) -> tuple[Float[Array, ""], Metrics]:
            forward = jnp.mean(networks.forward_errors(batch))
            inverse = jnp.mean(networks.inverse_errors(batch))
            return forward + inverse, {
                "model_loss": forward + inverse,
                "forward_error": forward,
                "inverse_error": inverse,
            }

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return ICMState(networks), metrics

    def reward(
        self, state: ICMState, batch: Experience, key: RandomKey
    ) -> tuple[ICMState, Float[Array, " n"], Metrics]:
        """r = log(1 + ‖f(s, a) − s'‖)."""
        del key
        return state, jnp.log1p(state.networks.params.forward_errors(batch)), {}
