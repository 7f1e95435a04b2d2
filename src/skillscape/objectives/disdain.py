"""DISDAIN (Strouse et al., Learning More Skills through Optimistic Exploration, ICLR 2022).

DIAYN with an ensemble of discriminators and a bonus for states where they disagree. A new state, which no discriminator
knows yet, costs DIAYN's reward; the bonus offsets that cost until the state has been learned.

Departures: one reward is the sum of both terms, where the authors keep a value function for each; a state is scored at
every step, where their tabular notebook scores the last one of a skill. The size of the ensemble and the weight of the
bonus are those of that notebook everywhere.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import AdamTrained, Adaptation, DiscreteSkills, Objective, Scale
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import NON_NEGATIVE, POSITIVE
from skillscape.types import Experience, Metrics, RandomKey, Spec


class DISDAINState(NamedTuple):
    """The discriminators qᵢ(z|s), their leaves stacked along the first axis."""

    ensemble: TrainState[StateNet]


@dataclass(frozen=True)
class DISDAIN(AdamTrained, DiscreteSkills, Objective[DISDAINState]):
    """log q̄(z|s') + log n + w (H[q̄(·|s')] − meanᵢ H[qᵢ(·|s')]) with the mean q̄ of an ensemble of discriminators qᵢ."""

    name: ClassVar[str] = "disdain"
    label: ClassVar[str] = "DISDAIN"
    reaches_goals: ClassVar[bool] = True
    imagined_entropy: ClassVar[float | None] = 0.1

    ensemble_size: Annotated[int, POSITIVE] = 2
    """Number N of discriminators, at least two. All learn from the same batches: they differ by their start alone."""
    bonus_weight: Annotated[float, NON_NEGATIVE] = 20.0
    """Weight of the discriminators' disagreement, which is in nats, in the reward; 0 leaves DIAYN."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The same in mazes and elsewhere, but for its sizes."""
        return cls.sized(scale).with_skills(scale)

    @property
    def adaptation(self) -> Adaptation:
        """Skills go on being drawn anew, as DIAYN's."""
        return "prior"

    def init(self, key: RandomKey, spec: Spec) -> DISDAINState:
        """Fresh discriminators, each from a key of its own."""

        def member(key: RandomKey) -> StateNet:
            return StateNet.create(key, spec.obs_shape, self.hidden, self.number_of_skills)

        members = jax.vmap(member)(jax.random.split(key, self.ensemble_size))
        return DISDAINState(TrainState.create(self._transform, members))

    def update(self, state: DISDAINState, batch: Experience, key: RandomKey) -> tuple[DISDAINState, Metrics]:
        """One step of every discriminator on its cross-entropy at (s', z); the metric is their mean."""
        del key

        def loss(ensemble: StateNet) -> tuple[Float[Array, ""], Metrics]:
            log_probability = _log_probabilities(ensemble, batch.next_obs)
            # The sum: with a mean, Adam's ε would slow the members of a large ensemble down.
            cross_entropy = -jnp.mean(jnp.sum(log_probability * batch.skill[None], axis=-1), axis=-1)
            right = jnp.argmax(log_probability, axis=-1) == jnp.argmax(batch.skill, axis=-1)[None]
            metrics = {"model_loss": jnp.mean(cross_entropy), "discriminator_accuracy": jnp.mean(right)}
            return jnp.sum(cross_entropy), metrics

        ensemble, metrics = gradient_step(self._transform, loss, state.ensemble)
        return DISDAINState(ensemble), metrics

    def disagreement(self, state: DISDAINState, obs: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """H[q̄(·|s)] − meanᵢ H[qᵢ(·|s)], in nats and not below zero: what learning s would tell about the skill."""
        return _disagreement(_log_probabilities(state.ensemble.params, obs))

    def reward(
        self, state: DISDAINState, batch: Experience, key: RandomKey
    ) -> tuple[DISDAINState, Float[Array, " n"], Metrics]:
        """r = log q̄(z|s') + log n + w (H[q̄] − meanᵢ H[qᵢ])."""
        del key
        log_probability = _log_probabilities(state.ensemble.params, batch.next_obs)
        own = jnp.sum(_log_mean(log_probability) * batch.skill, axis=-1)
        disagreement = _disagreement(log_probability)
        reward = own + jnp.log(float(self.number_of_skills)) + self.bonus_weight * disagreement
        return state, reward, {"log_discriminator": jnp.mean(own), "disagreement": jnp.mean(disagreement)}

    def score_skills(self, state: DISDAINState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log q̄(z|s)."""
        return _log_mean(_log_probabilities(state.ensemble.params, obs))


def _log_probabilities(ensemble: StateNet, obs: Shaped[Array, "n ..."]) -> Float[Array, "members n k"]:
    """log qᵢ(z|s)."""
    logits: Array = jax.vmap(lambda member: jax.vmap(member)(obs))(ensemble)
    return jax.nn.log_softmax(logits)


def _log_mean(log_probability: Float[Array, "members n k"]) -> Float[Array, "n k"]:
    """log q̄."""
    return jax.nn.logsumexp(log_probability, axis=0) - jnp.log(float(log_probability.shape[0]))


def _disagreement(log_probability: Float[Array, "members n k"]) -> Float[Array, " n"]:
    return _entropy(_log_mean(log_probability)) - jnp.mean(_entropy(log_probability), axis=0)


def _entropy(log_probability: Float[Array, "*n k"]) -> Float[Array, "*n"]:
    return -jnp.sum(jnp.exp(log_probability) * log_probability, axis=-1)
