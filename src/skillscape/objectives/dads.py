"""DADS in its maze form: forward mutual information with one Gaussian per skill.

Sharma et al., Dynamics-Aware Unsupervised Discovery of Skills, ICLR 2020; the form that maze papers compare with
predicts where a skill leads from the skill alone (Campos et al., Explore, Discover and Learn, ICML 2020).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import Learner, adam, descend, learner
from skillscape.skills import Discrete
from skillscape.types import Experience, Metrics, RandomKey, Spec
from skillscape.vision import outline, outline_width


class DADSState(NamedTuple):
    """The model of where a skill leads: z → mean of s', or of its outline where states are images."""

    model: Learner[MLP]


@dataclass(frozen=True)
class DADS(Objective[DADSState]):
    """Forward mutual information: log q(s'|z) against the mean over all skills, q one Gaussian per skill."""

    name: ClassVar[str] = "dads"
    label: ClassVar[str] = "DADS"

    number_of_skills: int = 10
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    epsilon: float = 1e-3
    """Adam's ε."""
    variance: float = 0.5
    """σ² of q(s'|z); the reference scores with −‖s' − ŝ‖², which is σ² = ½."""
    resample_every: int | None = None
    """Environment steps between two draws of a skill; None keeps it for the whole episode."""

    @property
    def skills(self) -> Discrete:
        """n one-hot skills."""
        return Discrete(self.number_of_skills)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    def init(self, key: RandomKey, spec: Spec) -> DADSState:
        """A fresh model."""
        model = MLP.create(key, self.number_of_skills, self.hidden, outline_width(spec.obs_shape))
        return DADSState(learner(self._transform, model))

    def update(self, state: DADSState, batch: Experience, key: RandomKey) -> tuple[DADSState, Metrics]:
        """One step of −log q(s'|z), up to constants."""
        del key

        def loss(model: MLP) -> tuple[Float[Array, ""], Metrics]:
            squared = jnp.sum((jax.vmap(outline)(batch.next_obs) - jax.vmap(model)(batch.skill)) ** 2, axis=-1)
            value = jnp.mean(squared)
            return value, {"model_loss": value}

        model, metrics = descend(self._transform, loss, state.model)
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
        """log q(s|z) for every skill, without the constant that all share."""
        means = jax.vmap(state.model.params)(self.skills.all())
        squared = jnp.sum((jax.vmap(outline)(obs)[:, None, :] - means[None, :, :]) ** 2, axis=-1)
        return -squared / (2 * self.variance)
