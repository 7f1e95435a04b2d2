"""Disagreement (Pathak et al., Self-Supervised Exploration via Disagreement, ICML 2019): reward ensemble variance.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.objectives.base import AdamTrained, Objective, Scale
from skillscape.objectives.encoders import StateNet, coarse_target, coarse_target_size
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.stats import safe_sqrt
from skillscape.types import Experience, Metrics, RandomKey, Spec


class DisagreementState(NamedTuple):
    """The ensemble of forward models (s, a) → s', or its coarse target for images.

    One network whose leaves have a leading axis of members; each member has its own observation encoder.
    """

    ensemble: TrainState[StateNet]


@dataclass(frozen=True)
class Disagreement(AdamTrained, Objective[DisagreementState]):
    """Ensemble disagreement: the variance of forward models fᵢ(s, a), low where transitions are merely noisy."""

    name: ClassVar[str] = "disagreement"
    label: ClassVar[str] = "Disagreement"

    ensemble_size: Annotated[int, POSITIVE] = 5
    """Number of forward models, at least 2; they differ by their initialisation only."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes URLB's settings: one hidden layer."""
        if scale.benchmark == "maze":
            return cls()
        return replace(cls.sized(scale), hidden=(scale.width,))

    def init(self, key: RandomKey, spec: Spec) -> DisagreementState:
        """Initial models, each from its own key."""
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
            errors = _predictions(ensemble, batch) - jax.vmap(coarse_target)(batch.next_obs)[None]
            value = jnp.mean(safe_sqrt(jnp.sum(errors**2, axis=-1)))
            return value, {"model_loss": value}

        ensemble, metrics = gradient_step(self._transform, loss, state.ensemble)
        return DisagreementState(ensemble), metrics

    def reward(
        self, state: DisagreementState, batch: Experience, key: RandomKey
    ) -> tuple[DisagreementState, Float[Array, " n"], Metrics]:
        """r = unbiased variance over i of fᵢ(s, a), averaged over the entries of the prediction; s' is not used."""
        del key
        predictions = _predictions(state.ensemble.params, batch)
        return state, jnp.mean(jnp.var(predictions, axis=0, ddof=1), axis=-1), {}


def _predictions(ensemble: StateNet, batch: Experience) -> Float[Array, "members n d"]:
    """fᵢ(s, a) of each model and row."""
    predictions: Array = jax.vmap(lambda model: jax.vmap(model)(batch.obs, batch.action))(ensemble)
    return predictions
