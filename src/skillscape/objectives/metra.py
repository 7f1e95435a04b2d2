"""METRA (Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024).

Maximise the Wasserstein dependency between states and skills under the temporal distance: move as far as possible along
the skill's direction in a representation whose steps are at most of length one.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from skillscape.objectives.base import Objective, Pairs
from skillscape.optim import Learner, adam, descend, learner
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Metrics, RandomKey, Spec
from skillscape.vision import StateNet


def directions(skill: Float[Array, "n z"], kind: Literal["discrete", "continuous"]) -> Float[Array, "n z"]:
    """Where a skill points in the representation: continuous skills where they are.

    One-hot skills point to the corners of a regular simplex around zero, 1 on the own axis and −1/(z − 1) on the
    others, so that no direction is common to all.
    """
    if kind == "continuous":
        return skill
    number = skill.shape[-1]
    return (number * skill - 1) / max(number - 1, 1)


def squared_length(steps: Float[Array, "n d"], measure: Literal["sum", "mean"]) -> Float[Array, " n"]:
    """Squared entries of each row, summed or averaged."""
    return jnp.sum(steps**2, axis=-1) if measure == "sum" else jnp.mean(steps**2, axis=-1)


class METRAState(NamedTuple):
    """The representation φ, and log λ of the multiplier on its constraint."""

    representation: Learner[StateNet]
    multiplier: Learner[Float[Array, ""]]


@dataclass(frozen=True)
class METRA(Objective[METRAState]):
    """(φ(s') − φ(s))·z, where φ maximises the same under ‖φ(s') − φ(s)‖² ≤ 1, by dual gradient descent.

    s and s' are one step apart: with states further apart, representation and reward shrink by as much.
    """

    name: ClassVar[str] = "metra"
    label: ClassVar[str] = "METRA"
    pairs: ClassVar[Pairs] = "one-step"

    skill_kind: Literal["discrete", "continuous"] = "discrete"
    """One-hot skills, or directions: unit vectors."""
    number_of_skills: int = 10
    """Of one-hot skills; also the dimension of φ then."""
    dimension: int = 2
    """Of directions, and of φ then."""
    constraint: Literal["sum", "mean"] = "sum"
    """‖Δφ‖² ≤ 1 (the paper), or the mean of its entries, which allows ‖Δφ‖² up to the dimension (the authors' code)."""
    slack: float = 1e-3
    """ε: what a step shorter than allowed counts for at most."""
    initial_multiplier: float = 30.0
    """λ at the start."""
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    multiplier_learning_rate: float = 1e-3
    """Of log λ."""
    epsilon: float = 1e-3
    """Adam's ε for φ."""
    reward_scale: float = 1.0
    resample_every: int | None = None
    """Environment steps between two draws of a skill; None keeps it for the whole episode."""

    @property
    def skills(self) -> Discrete | Sphere:
        """One-hot skills or unit vectors."""
        return Discrete(self.number_of_skills) if self.skill_kind == "discrete" else Sphere(self.dimension)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    @property
    def _multiplier_transform(self) -> optax.GradientTransformation:
        # A kept constraint has the gradient ``slack``: a larger ε of Adam would hardly ever let λ come down.
        return adam(self.multiplier_learning_rate)

    def init(self, key: RandomKey, spec: Spec) -> METRAState:
        """A fresh representation."""
        representation = StateNet.create(key, spec.obs_shape, self.hidden, self.skills.width)
        log_multiplier = jnp.asarray(math.log(self.initial_multiplier), jnp.float32)
        return METRAState(learner(self._transform, representation), learner(self._multiplier_transform, log_multiplier))

    def update(self, state: METRAState, batch: Experience, key: RandomKey) -> tuple[METRAState, Metrics]:
        """A step of φ on −mean(Δφ·z + λ c), then one of log λ on log λ · mean c, with c = min(ε, 1 − ‖Δφ‖²).

        Both see c of the representation before the step; λ grows where the constraint is broken (c < 0).
        """
        del key
        multiplier = jnp.exp(state.multiplier.params)

        def loss(representation: StateNet) -> tuple[Float[Array, ""], Metrics]:
            steps = _steps(representation, batch)
            length = squared_length(steps, self.constraint)
            kept = jnp.mean(jnp.minimum(self.slack, 1 - length))
            gain = jnp.mean(jnp.sum(steps * directions(batch.skill, self.skill_kind), axis=-1))
            value = -(gain + multiplier * kept)
            return value, {"model_loss": value, "constraint": kept, "squared_length": jnp.mean(length)}

        representation, metrics = descend(self._transform, loss, state.representation)
        log_multiplier, _ = descend(
            self._multiplier_transform, lambda log: (log * metrics["constraint"], {}), state.multiplier
        )
        return METRAState(representation, log_multiplier), {**metrics, "multiplier": multiplier}

    def reward(
        self, state: METRAState, batch: Experience, key: RandomKey
    ) -> tuple[METRAState, Float[Array, " n"], Metrics]:
        """scale · (φ(s') − φ(s))·z, with z as ``directions`` has it."""
        del key
        steps = _steps(state.representation.params, batch)
        return state, self.reward_scale * jnp.sum(steps * directions(batch.skill, self.skill_kind), axis=-1), {}


def _steps(representation: StateNet, batch: Experience) -> Float[Array, "n d"]:
    return jax.vmap(representation)(batch.next_obs) - jax.vmap(representation)(batch.obs)
