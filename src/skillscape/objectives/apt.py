"""APT (Liu and Abbeel, Behavior From the Void: Unsupervised Active Pre-Training, NeurIPS 2021): particle entropy.

The paper learns its representation of pixels contrastively. For state vectors we follow URLB (Laskin et al., URLB:
Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021): forward and inverse dynamics models.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP, LayerNorm, Linear
from skillscape.objectives.base import AdamTrained, Objective, Scale
from skillscape.objectives.encoders import ObsEncoder
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import Moments, particle_entropy, safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec


class APTNetworks(eqx.Module):
    """Representation h, forward model f: (h(s), a) → h(s'), inverse model g: (h(s), h(s')) → a before its tanh."""

    obs_encoder: ObsEncoder
    trunk: Linear
    norm: LayerNorm
    forward: MLP
    inverse: MLP

    def represent(self, obs: Shaped[Array, "n ..."]) -> Float[Array, "n h"]:
        """h(s) = tanh(LayerNorm(W e(s) + b)), with the observation encoder e."""
        return jnp.tanh(jax.vmap(lambda state: self.norm(self.trunk(self.obs_encoder(state))))(obs))


class APTState(NamedTuple):
    """Networks, and running moments of the neighbour distances."""

    networks: TrainState[APTNetworks]
    distances: Moments


@dataclass(frozen=True)
class APT(AdamTrained, Objective[APTState]):
    """Particle entropy: r = log(1 + mean distance to the k nearest h(s)), h learned by forward and inverse dynamics."""

    name: ClassVar[str] = "apt"
    label: ClassVar[str] = "APT"
    reward_gradient: ClassVar[bool] = False

    feature_dim: Annotated[int, POSITIVE] = 32
    """Dimension of the representation h(s)."""
    neighbours: Annotated[int, POSITIVE] = 12
    """Number of neighbours k of the particle entropy, the state itself included."""
    scale: Literal["none", "mean", "variance"] = "none"
    """Divisor of the neighbour distances: none, their running mean, or their running variance."""
    distance_floor: float = 0.0
    """Constant subtracted from the scaled neighbour distances, which are then clipped below at zero."""
    reward_state: RewardState = "obs"
    """State of a transition that is rewarded: s (obs) or s' (next_obs)."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings: one hidden layer, and a representation half as wide."""
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale), hidden=(scale.width,), feature_dim=scale.width // 2, reward_state=scale.reward_state
        )

    def init(self, key: RandomKey, spec: Spec) -> APTState:
        """Initial networks and empty moments."""
        obs_encoder = ObsEncoder.create(key, spec.obs_shape)
        trunk_key, forward_key, inverse_key = jax.random.split(key, 3)
        networks = APTNetworks(
            obs_encoder=obs_encoder,
            trunk=Linear.create(trunk_key, obs_encoder.width, self.feature_dim),
            norm=LayerNorm.create(self.feature_dim),
            forward=MLP.create(forward_key, self.feature_dim + spec.action_dim, self.hidden, self.feature_dim),
            inverse=MLP.create(inverse_key, 2 * self.feature_dim, self.hidden, spec.action_dim),
        )
        return APTState(TrainState.create(self._transform, networks), Moments.create())

    def update(self, state: APTState, batch: Experience, key: RandomKey) -> tuple[APTState, Metrics]:
        """One step on mean ‖f(h(s), a) − h(s')‖ + mean ‖tanh g(h(s), h(s')) − a‖, neither squared.

        Gradients flow into h(s) and h(s') alike; the layer norm and the inverse model g prevent collapse of h.
        """
        del key

        def loss(networks: APTNetworks) -> tuple[Float[Array, ""], Metrics]:
            sources, targets = networks.represent(batch.obs), networks.represent(batch.next_obs)
            expected = jax.vmap(networks.forward)(jnp.concatenate([sources, batch.action], axis=-1))
            action = jnp.tanh(jax.vmap(networks.inverse)(jnp.concatenate([sources, targets], axis=-1)))
            forward = jnp.mean(safe_sqrt(jnp.sum((expected - targets) ** 2, axis=-1)))
            inverse = jnp.mean(safe_sqrt(jnp.sum((action - batch.action) ** 2, axis=-1)))
            return forward + inverse, {
                "model_loss": forward + inverse,
                "forward_error": forward,
                "inverse_error": inverse,
            }

        networks, metrics = gradient_step(self._transform, loss, state.networks)
        return APTState(networks, state.distances), metrics

    def reward(
        self, state: APTState, batch: Experience, key: RandomKey
    ) -> tuple[APTState, Float[Array, " n"], Metrics]:
        """r = log(1 + mean distance from h(s) to its k nearest neighbours in the batch), with s by ``reward_state``."""
        del key
        states = state.networks.params.represent(batch.states(self.reward_state))
        moments, reward = particle_entropy(
            states, states, state.distances, self.neighbours, scale=self.scale, floor=self.distance_floor
        )
        return APTState(state.networks, moments), reward, {"distance_mean": moments.mean}
