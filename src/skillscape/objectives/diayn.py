"""DIAYN (Eysenbach et al., Diversity is All You Need, ICLR 2019): reward states that identify the skill."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import AdamTrained, Adaptation, DiscreteSkills, Objective, Scale
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, gradient_step
from skillscape.types import Experience, Metrics, RandomKey, Spec


class DIAYNState(NamedTuple):
    """The discriminator q(z|s)."""

    discriminator: TrainState[StateNet]


@dataclass(frozen=True)
class DIAYN(AdamTrained, DiscreteSkills, Objective[DIAYNState]):
    """Reverse mutual information: r = log q(z|s') + log n, with a learned discriminator q."""

    name: ClassVar[str] = "diayn"
    label: ClassVar[str] = "DIAYN"
    reaches_goals: ClassVar[bool] = True
    imagined_entropy: ClassVar[float | None] = 0.1

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The same settings everywhere, at the sizes of the preset."""
        return cls.sized(scale).with_skills(scale)

    @property
    def adaptation(self) -> Adaptation:
        """prior: skills are resampled in fine-tuning, as in URLB."""
        return "prior"

    def init(self, key: RandomKey, spec: Spec) -> DIAYNState:
        """The initial discriminator."""
        discriminator = StateNet.create(key, spec.obs_shape, self.hidden, self.number_of_skills)
        return DIAYNState(TrainState.create(self._transform, discriminator))

    def update(self, state: DIAYNState, batch: Experience, key: RandomKey) -> tuple[DIAYNState, Metrics]:
        """One step of cross-entropy on (s', z)."""
        del key

        def loss(discriminator: StateNet) -> tuple[Float[Array, ""], Metrics]:
            log_probability = jax.nn.log_softmax(jax.vmap(discriminator)(batch.next_obs))
            cross_entropy = -jnp.mean(jnp.sum(log_probability * batch.skill, axis=-1))
            accuracy = jnp.mean(jnp.argmax(log_probability, axis=-1) == jnp.argmax(batch.skill, axis=-1))
            return cross_entropy, {"model_loss": cross_entropy, "discriminator_accuracy": accuracy}

        discriminator, metrics = gradient_step(self._transform, loss, state.discriminator)
        return DIAYNState(discriminator), metrics

    def reward(
        self, state: DIAYNState, batch: Experience, key: RandomKey
    ) -> tuple[DIAYNState, Float[Array, " n"], Metrics]:
        """r = log q(z|s') − log p(z); at most log n."""
        del key
        scores = self.score_skills(state, batch.next_obs)
        reward = jnp.sum(scores * batch.skill, axis=-1) + jnp.log(float(self.number_of_skills))
        return state, reward, {}

    def score_skills(self, state: DIAYNState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log q(z|s)."""
        return jax.nn.log_softmax(jax.vmap(state.discriminator.params)(obs))
