"""RND (Burda et al., Exploration by Random Network Distillation, ICLR 2019): reward distillation error.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.conv import preprocess
from skillscape.objectives.base import AdamTrained, Objective, Scale
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import Moments
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec


class RNDState(NamedTuple):
    """The predictor, the fixed random target network, and running moments of the errors."""

    predictor: TrainState[StateNet]
    target: StateNet
    errors: Moments


@dataclass(frozen=True)
class RND(AdamTrained, Objective[RNDState]):
    """Random network distillation: r = error of a learned predictor of a fixed random network, over its running std."""

    name: ClassVar[str] = "rnd"
    label: ClassVar[str] = "RND"
    own_unit: ClassVar[bool] = True

    feature_dim: Annotated[int, POSITIVE] = 64
    """Output dimension of the random network."""
    clip: Annotated[float, POSITIVE] = 5.0
    """Clipping range of the normalised input, in standard deviations."""
    reward_state: RewardState = "obs"
    """State of a transition that is rewarded: s (obs) or s' (next_obs)."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """URLB's settings everywhere: half as many outputs as hidden units."""
        return replace(cls.sized(scale), feature_dim=scale.width // 2, reward_state=scale.reward_state)

    def init(self, key: RandomKey, spec: Spec) -> RNDState:
        """Two random networks of the same shape, and empty moments."""
        predictor, target = (
            StateNet.create(net_key, spec.obs_shape, self.hidden, self.feature_dim) for net_key in jax.random.split(key)
        )
        return RNDState(TrainState.create(self._transform, predictor), target, Moments.create())

    def _errors(self, predictor: StateNet, target: StateNet, obs: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Mean squared error over the features, with inputs standardised by the moments of their own batch.

        For images each channel of each pixel is standardised separately.
        """
        states = preprocess(obs)
        std = jnp.sqrt(jnp.var(states, axis=0, keepdims=True) + 1e-5)
        normalised = (states - jnp.mean(states, axis=0, keepdims=True)) / std
        inputs = jnp.clip(normalised, -self.clip, self.clip)
        return jnp.mean((jax.vmap(predictor)(inputs) - jax.vmap(target)(inputs)) ** 2, axis=-1)

    def update(self, state: RNDState, batch: Experience, key: RandomKey) -> tuple[RNDState, Metrics]:
        """One step of the predictor on its mean error at s, or s' (``reward_state``)."""
        del key

        def loss(predictor: StateNet) -> tuple[Float[Array, ""], Metrics]:
            value = jnp.mean(self._errors(predictor, state.target, batch.states(self.reward_state)))
            return value, {"model_loss": value}

        predictor, metrics = gradient_step(self._transform, loss, state.predictor)
        return RNDState(predictor, state.target, state.errors), metrics

    def reward(
        self, state: RNDState, batch: Experience, key: RandomKey
    ) -> tuple[RNDState, Float[Array, " n"], Metrics]:
        """r = e(s) / (running std of e + 10⁻⁸), e not centred; s by ``reward_state``."""
        del key
        errors = self._errors(state.predictor.params, state.target, batch.states(self.reward_state))
        moments = state.errors.include(jax.lax.stop_gradient(errors))
        std = jnp.sqrt(moments.variance)
        metrics = {"novelty": jnp.mean(errors), "novelty_std": std}
        return RNDState(state.predictor, state.target, moments), errors / (std + 1e-8), metrics
