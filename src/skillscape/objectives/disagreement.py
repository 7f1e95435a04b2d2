"""Disagreement (Pathak et al., Self-Supervised Exploration via Disagreement, ICML 2019): go where your models differ.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.objectives.base import AdamTrained, Epsilon, Hidden, LearningRate, Objective, Scale
from skillscape.objectives.encoders import StateNet, coarse_target, coarse_target_size
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, Spec


class DisagreementState(NamedTuple):
    """The forward models (s, a) → s', or its outline where states are images.

    They are one network whose leaves have a leading axis of members: each has an eye of its own.
    """

    ensemble: TrainState[StateNet]


@dataclass(frozen=True)
class Disagreement(AdamTrained, Objective[DisagreementState]):
    """Variance among forward models: high where data are few, and, unlike an error, low where they are merely noisy."""

    name: ClassVar[str] = "disagreement"
    label: ClassVar[str] = "Disagreement"

    ensemble_size: Annotated[int, POSITIVE] = 5
    """Forward models, at least two. All learn from the same batches: they differ by their start alone."""
    hidden: Hidden = (128, 128)
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As URLB outside mazes: one hidden layer."""
        if scale.benchmark == "maze":
            return cls()
        return cls(hidden=(scale.width,), learning_rate=scale.learning_rate, epsilon=scale.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> DisagreementState:
        """Fresh models, each from a key of its own."""
        shape = spec.obs_shape

        def member(key: RandomKey) -> StateNet:
            return StateNet.create(key, shape, self.hidden, coarse_target_size(shape), extra=spec.action_dim)

        return DisagreementState(
            TrainState.create(self._transform, jax.vmap(member)(jax.random.split(key, self.ensemble_size)))
        )

    def update(self, state: DisagreementState, batch: Experience, key: RandomKey) -> tuple[DisagreementState, Metrics]:
        """One step on the mean over models and rows of ‖fᵢ(s, a) − s'‖, not squared."""
        del key

        def loss(ensemble: StateNet) -> tuple[Float[Array, ""], Metrics]:
            misses = _predictions(ensemble, batch) - jax.vmap(coarse_target)(batch.next_obs)[None]
            value = jnp.mean(safe_sqrt(jnp.sum(misses**2, axis=-1)))
            return value, {"model_loss": value}

        ensemble, metrics = gradient_step(self._transform, loss, state.ensemble)
        return DisagreementState(ensemble), metrics

    def reward(
        self, state: DisagreementState, batch: Experience, key: RandomKey
    ) -> tuple[DisagreementState, Float[Array, " n"], Metrics]:
        """r = mean over what is predicted of the unbiased variance over i of fᵢ(s, a); where it led has no part."""
        del key
        predictions = _predictions(state.ensemble.params, batch)
        return state, jnp.mean(jnp.var(predictions, axis=0, ddof=1), axis=-1), {}


def _predictions(ensemble: StateNet, batch: Experience) -> Float[Array, "members n d"]:
    """What each model expects of each row."""
    predictions: Array = jax.vmap(lambda model: jax.vmap(model)(batch.obs, batch.action))(ensemble)
    return predictions
