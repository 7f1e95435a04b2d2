"""RND (Burda et al., Exploration by Random Network Distillation, ICLR 2019): go where a fixed net is not yet learned.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.conv import preprocess
from skillscape.objectives.base import AdamTrained, Epsilon, Hidden, LearningRate, Objective, Scale
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import Moments
from skillscape.types import Experience, Metrics, RandomKey, RewardState, Spec


class RNDState(NamedTuple):
    """The predictor, the fixed random target that it learns, and the running moments of its errors."""

    predictor: TrainState[StateNet]
    target: StateNet
    errors: Moments


@dataclass(frozen=True)
class RND(AdamTrained, Objective[RNDState]):
    """Novelty: how badly a predictor, fitted on the states seen, matches a fixed random network."""

    name: ClassVar[str] = "rnd"
    label: ClassVar[str] = "RND"
    own_unit: ClassVar[bool] = True

    hidden: Hidden = (128, 128)
    feature_dim: Annotated[int, POSITIVE] = 64
    """Outputs of the random network."""
    clip: Annotated[float, POSITIVE] = 5.0
    """Largest absolute value of a normalised input."""
    reward_state: RewardState = "obs"
    """Which state of a transition is rewarded for being novel."""
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As URLB everywhere: half as many outputs as hidden units."""
        return cls(
            hidden=scale.hidden,
            feature_dim=scale.width // 2,
            # An imagined step is paid for arriving: for the state that it leaves, its action would not matter.
            reward_state="next_obs" if scale.imagined else "obs",
            learning_rate=scale.learning_rate,
            epsilon=scale.epsilon,
        )

    def init(self, key: RandomKey, spec: Spec) -> RNDState:
        """Two random networks of the same shape; no errors seen."""
        predictor, target = (
            StateNet.create(one, spec.obs_shape, self.hidden, self.feature_dim) for one in jax.random.split(key)
        )
        return RNDState(TrainState.create(self._transform, predictor), target, Moments.create())

    def _errors(self, predictor: StateNet, target: StateNet, obs: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Mean squared error over the features, at the states normalised by the moments of their own batch.

        Of images every entry of every pixel is normalised by itself.
        """
        states = preprocess(obs)
        std = jnp.sqrt(jnp.var(states, axis=0, keepdims=True) + 1e-5)
        normalised = (states - jnp.mean(states, axis=0, keepdims=True)) / std
        inputs = jnp.clip(normalised, -self.clip, self.clip)
        return jnp.mean((jax.vmap(predictor)(inputs) - jax.vmap(target)(inputs)) ** 2, axis=-1)

    def update(self, state: RNDState, batch: Experience, key: RandomKey) -> tuple[RNDState, Metrics]:
        """One step of the predictor on its mean error at s."""
        del key

        def loss(predictor: StateNet) -> tuple[Float[Array, ""], Metrics]:
            value = jnp.mean(self._errors(predictor, state.target, batch.states(self.reward_state)))
            return value, {"model_loss": value}

        predictor, metrics = gradient_step(self._transform, loss, state.predictor)
        return RNDState(predictor, state.target, state.errors), metrics

    def reward(
        self, state: RNDState, batch: Experience, key: RandomKey
    ) -> tuple[RNDState, Float[Array, " n"], Metrics]:
        """r = e(s) / (running deviation of e + 10⁻⁸), e not centred; s as ``reward_state``."""
        del key
        errors = self._errors(state.predictor.params, state.target, batch.states(self.reward_state))
        moments = state.errors.include(jax.lax.stop_gradient(errors))
        std = jnp.sqrt(moments.variance)
        metrics = {"novelty": jnp.mean(errors), "novelty_std": std}
        return RNDState(state.predictor, state.target, moments), errors / (std + 1e-8), metrics
