"""DADS in its maze form: forward mutual information with one Gaussian per skill.

Sharma et al., Dynamics-Aware Unsupervised Discovery of Skills, ICLR 2020. The variant of maze experiments predicts the
state from the skill alone (Campos et al., Explore, Discover and Learn, ICML 2020).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.base import AdamTrained, DiscreteSkills, Objective, Scale
from skillscape.objectives.encoders import coarse_target, coarse_target_size
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.types import Experience, Metrics, RandomKey, Spec


class DADSState(NamedTuple):
    """The model z → mean of q(s'|z); for images, of the coarse target of s'."""

    model: TrainState[MLP]


@dataclass(frozen=True)
class DADS(AdamTrained, DiscreteSkills, Objective[DADSState]):
    """Forward mutual information: r = log q(s'|z) − log (1/n) Σₖ q(s'|zₖ), with one Gaussian q per skill."""

    name: ClassVar[str] = "dads"
    label: ClassVar[str] = "DADS"
    reaches_goals: ClassVar[bool] = True

    variance: Annotated[float, POSITIVE] = 0.5
    """Variance σ² of q(s'|z); 0.5 gives the log density −‖s' − ŝ‖² of the reference code, up to a constant."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The same settings everywhere, at the sizes of the preset."""
        return cls.sized(scale).with_skills(scale)

    def init(self, key: RandomKey, spec: Spec) -> DADSState:
        """The initial model."""
        model = MLP.create(key, self.number_of_skills, self.hidden, coarse_target_size(spec.obs_shape))
        return DADSState(TrainState.create(self._transform, model))

    def update(self, state: DADSState, batch: Experience, key: RandomKey) -> tuple[DADSState, Metrics]:
        """One step of −log q(s'|z), up to constants."""
        del key

        def loss(model: MLP) -> tuple[Float[Array, ""], Metrics]:
            squared = jnp.sum((jax.vmap(coarse_target)(batch.next_obs) - jax.vmap(model)(batch.skill)) ** 2, axis=-1)
            value = jnp.mean(squared)
            return value, {"model_loss": value}

        model, metrics = gradient_step(self._transform, loss, state.model)
        return DADSState(model), metrics

    def reward(
        self, state: DADSState, batch: Experience, key: RandomKey
    ) -> tuple[DADSState, Float[Array, " n"], Metrics]:
        """r = log q(s'|z) + log n − log Σₖ q(s'|zₖ); at most log n."""
        del key
        scores = self.score_skills(state, batch.next_obs)
        own = jnp.sum(scores * batch.skill, axis=-1)
        reward = own + jnp.log(float(self.number_of_skills)) - jax.nn.logsumexp(scores, axis=-1)
        return state, reward, {}

    def score_skills(self, state: DADSState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """log q(s|z) for every skill, up to a constant common to all skills."""
        means = jax.vmap(state.model.params)(self.skills.all())
        squared = jnp.sum((jax.vmap(coarse_target)(obs)[:, None, :] - means[None, :, :]) ** 2, axis=-1)
        return -squared / (2 * self.variance)
