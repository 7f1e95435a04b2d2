"""ICM (Pathak et al., Curiosity-driven Exploration by Self-supervised Prediction, ICML 2017): go where you are wrong.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import Learner, adam, descend, learner
from skillscape.skills import NoSkill
from skillscape.stats import safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, Spec


class ICMNetworks(eqx.Module):
    """Forward model f: (s, a) → s', and inverse model g: (s, s') → a before its tanh."""

    forward: MLP
    inverse: MLP

    def forward_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖f(s, a) − s'‖, not squared."""
        predicted = jax.vmap(self.forward)(jnp.concatenate([batch.obs, batch.action], axis=-1))
        return safe_sqrt(jnp.sum((predicted - batch.next_obs) ** 2, axis=-1))

    def inverse_errors(self, batch: Experience) -> Float[Array, " n"]:
        """‖tanh g(s, s') − a‖, not squared."""
        predicted = jnp.tanh(jax.vmap(self.inverse)(jnp.concatenate([batch.obs, batch.next_obs], axis=-1)))
        return safe_sqrt(jnp.sum((predicted - batch.action) ** 2, axis=-1))


class ICMState(NamedTuple):
    """The two models under one optimiser."""

    networks: Learner[ICMNetworks]


@dataclass(frozen=True)
class ICM(Objective[ICMState]):
    """Curiosity: the error of a learned forward model, in the space of the states themselves.

    The inverse model is there to shape a representation; with none between it and the states it has no say in the
    reward, and is kept because the method is forward and inverse model together.
    """

    name: ClassVar[str] = "icm"

    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    epsilon: float = 1e-3
    """Adam's ε."""

    @property
    def skills(self) -> NoSkill:
        """None."""
        return NoSkill()

    @property
    def resample_every(self) -> None:
        """Nothing to draw."""
        return None

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> ICMState:
        """Fresh models."""
        (inputs,) = spec.obs_shape
        forward_key, inverse_key = jax.random.split(key)
        networks = ICMNetworks(
            forward=MLP.create(forward_key, inputs + spec.action_dim, self.hidden, inputs),
            inverse=MLP.create(inverse_key, 2 * inputs, self.hidden, spec.action_dim),
        )
        return ICMState(learner(self._transform, networks))

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

        networks, metrics = descend(self._transform, loss, state.networks)
        return ICMState(networks), metrics

    def reward(
        self, state: ICMState, batch: Experience, key: RandomKey
    ) -> tuple[ICMState, Float[Array, " n"], Metrics]:
        """r = log(1 + ‖f(s, a) − s'‖)."""
        del key
        return state, jnp.log1p(state.networks.params.forward_errors(batch)), {}
