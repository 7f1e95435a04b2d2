"""APT (Liu and Abbeel, Behavior From the Void: Unsupervised Active Pre-Training, NeurIPS 2021): spread out.

The paper learns its representation from pixels by contrast; for state vectors Laskin et al., URLB: Unsupervised
Reinforcement Learning Benchmark, NeurIPS 2021, learn it from forward and inverse models, and so do we.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP, LayerNorm, Linear
from skillscape.objectives.base import AdamTrained, Epsilon, Hidden, LearningRate, Objective, Scale
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
        """h(s) = tanh(layer norm(W s + b)), where s is what the eye gives."""
        return jnp.tanh(jax.vmap(lambda one: self.norm(self.trunk(self.obs_encoder(one))))(obs))


class APTState(NamedTuple):
    """Networks, and the running moments of the distances."""

    networks: TrainState[APTNetworks]
    distances: Moments


@dataclass(frozen=True)
class APT(AdamTrained, Objective[APTState]):
    """Particle entropy of the states of a batch, in a representation that knows what actions do."""

    name: ClassVar[str] = "apt"
    label: ClassVar[str] = "APT"
    reward_gradient: ClassVar[bool] = False

    hidden: Hidden = (128, 128)
    feature_dim: Annotated[int, POSITIVE] = 32
    """Width of the representation h(s)."""
    neighbours: Annotated[int, POSITIVE] = 12
    """k of the particle entropy; a state is its own first neighbour."""
    scale: Literal["none", "mean", "variance"] = "none"
    """What distances are measured in: themselves, their running mean, or their running variance."""
    distance_floor: float = 0.0
    """Subtracted from the scaled distances to the neighbours, which are then floored at zero."""
    reward_state: RewardState = "obs"
    """Which state of a transition is rewarded for being far from others."""
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As URLB outside mazes: one hidden layer, and a representation half as wide."""
        if scale.benchmark == "maze":
            return cls()
        return cls(
            hidden=(scale.width,),
            feature_dim=scale.width // 2,
            # An imagined step is paid for arriving: for the state that it leaves, its action would not matter.
            reward_state="next_obs" if scale.imagined else "obs",
            learning_rate=scale.learning_rate,
            epsilon=scale.epsilon,
        )

    def init(self, key: RandomKey, spec: Spec) -> APTState:
        """Fresh networks; no distances seen."""
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

        Gradients reach h(s) and h(s') alike; that they do not shrink h to a point is up to its layer norm and to g.
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
        """r = log(1 + mean distance from h(s) to its k nearest in the batch and itself); s as ``reward_state``."""
        del key
        states = state.networks.params.represent(batch.states(self.reward_state))
        moments, reward = particle_entropy(
            states, states, state.distances, self.neighbours, scale=self.scale, floor=self.distance_floor
        )
        return APTState(state.networks, moments), reward, {"distance_mean": moments.mean}
