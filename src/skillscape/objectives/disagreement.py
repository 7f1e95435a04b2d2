"""Disagreement (Pathak et al., Self-Supervised Exploration via Disagreement, ICML 2019): go where your models differ.

In the form for state vectors of Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

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


class DisagreementState(NamedTuple):
    """The forward models (s, a) → s': one network whose leaves have a leading axis of members."""

    ensemble: Learner[MLP]


@dataclass(frozen=True)
class Disagreement(Objective[DisagreementState]):
    """Variance among forward models: high where data are few, and, unlike an error, low where they are merely noisy."""

    name: ClassVar[str] = "disagreement"

    ensemble_size: int = 5
    """Forward models, at least two. All learn from the same batches: they differ by their start alone."""
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

    def init(self, key: RandomKey, spec: Spec) -> DisagreementState:
        """Fresh models, each from a key of its own."""
        (inputs,) = spec.obs_shape

        def member(key: RandomKey) -> MLP:
            return MLP.create(key, inputs + spec.action_dim, self.hidden, inputs)

        return DisagreementState(learner(self._transform, jax.vmap(member)(jax.random.split(key, self.ensemble_size))))

    def update(self, state: DisagreementState, batch: Experience, key: RandomKey) -> tuple[DisagreementState, Metrics]:
        """One step on the mean over models and rows of ‖fᵢ(s, a) − s'‖, not squared."""
        del key

        def loss(ensemble: MLP) -> tuple[Float[Array, ""], Metrics]:
            misses = _predictions(ensemble, batch) - batch.next_obs[None]
            value = jnp.mean(safe_sqrt(jnp.sum(misses**2, axis=-1)))
            return value, {"model_loss": value}

        ensemble, metrics = descend(self._transform, loss, state.ensemble)
        return DisagreementState(ensemble), metrics

    def reward(
        self, state: DisagreementState, batch: Experience, key: RandomKey
    ) -> tuple[DisagreementState, Float[Array, " n"], Metrics]:
        """r = mean over the dimensions of s of the unbiased variance over i of fᵢ(s, a); where it led has no part."""
        del key
        predictions = _predictions(state.ensemble.params, batch)
        return state, jnp.mean(jnp.var(predictions, axis=0, ddof=1), axis=-1), {}


def _predictions(ensemble: MLP, batch: Experience) -> Float[Array, "members n d"]:
    """What each model expects of each row."""
    rows = jnp.concatenate([batch.obs, batch.action], axis=-1)
    predictions: Array = jax.vmap(lambda model: jax.vmap(model)(rows))(ensemble)
    return predictions
