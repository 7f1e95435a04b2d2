"""ICM (Pathak et al., Curiosity-driven Exploration by Self-supervised Prediction, ICML 2017): reward prediction error.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.nets import MLP
from skillscape.objectives.base import AdamTrained, Objective, Scale
from skillscape.objectives.encoders import ObsEncoder, coarse_target, coarse_target_size
from skillscape.optim import TrainState, gradient_step
from skillscape.stats import safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, Spec


class ICMNetworks(eqx.Module):
    """Forward model f: (s, a) → s', and inverse model g: (s, s') → a before its tanh.

    For images both models share an observation encoder, and f predicts the coarse target of s'.
    """

    obs_encoder: ObsEncoder
    forward: MLP
    inverse: MLP

    def forward_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖f(s, a) − s'‖, not squared."""
        features = jax.vmap(self.obs_encoder)(batch.obs)
        predicted = jax.vmap(self.forward)(jnp.concatenate([features, batch.action], axis=-1))
        return safe_sqrt(jnp.sum((predicted - jax.vmap(coarse_target)(batch.next_obs)) ** 2, axis=-1))

    def inverse_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖tanh g(s, s') − a‖, not squared."""
        features = jax.vmap(self.obs_encoder)(batch.obs), jax.vmap(self.obs_encoder)(batch.next_obs)
        predicted = jnp.tanh(jax.vmap(self.inverse)(jnp.concatenate(features, axis=-1)))
        return safe_sqrt(jnp.sum((predicted - batch.action) ** 2, axis=-1))


class ICMState(NamedTuple):
    """Forward and inverse model, with one optimiser."""

    networks: TrainState[ICMNetworks]


@dataclass(frozen=True)
class ICM(AdamTrained, Objective[ICMState]):
    """Curiosity: r = log(1 + ‖f(s, a) − s'‖), the prediction error of a learned forward model f.

    The inverse model shapes the representation of images that the forward model reads. For state vectors there is no
    representation, so it does not affect the reward; it is kept for fidelity to the method.
    """

    name: ClassVar[str] = "icm"
    label: ClassVar[str] = "ICM"

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings: one hidden layer."""
        if scale.benchmark == "maze":
            return cls()
        return replace(cls.sized(scale), hidden=(scale.width,))

    def init(self, key: RandomKey, spec: Spec) -> ICMState:
        """Initial models."""
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
