"""Shared by METRA and CSD: skills as directions of latent steps Δφ, under a constraint on their length.

Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024, and Park et al.,
Controllability-Aware Unsupervised Skill Discovery, ICML 2023: both maximise (φ(s') − φ(s))·z under a bound on the
length of the latent step, by dual gradient descent.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from skillscape.objectives.base import AdamTrained, Epsilon, Hidden, LearningRate, Objective, Pairs, Scale, SkillSteps
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Metrics

State = TypeVar("State")
Measure = Literal["sum", "mean"]
"""Whether squared entries are summed or averaged in a squared length."""


def directions(skill: Float[Array, "n z"], kind: Literal["discrete", "continuous"]) -> Float[Array, "n z"]:
    """The latent direction of each skill: continuous skills are directions already.

    One-hot skills are the vertices of a regular simplex around zero, 1 on their own axis and −1/(z − 1) on the others,
    so that the directions have mean zero.
    """
    if kind == "continuous":
        return skill
    number = skill.shape[-1]
    return (number * skill - 1) / max(number - 1, 1)


def latent_steps(representation: StateNet, batch: Experience) -> Float[Array, "n d"]:
    """Δφ = φ(s') − φ(s)."""
    return jax.vmap(representation)(batch.next_obs) - jax.vmap(representation)(batch.obs)


def squared_length(steps: Float[Array, "n d"], measure: Measure) -> Float[Array, " n"]:
    """Squared entries of each row, summed or averaged."""
    return jnp.sum(steps**2, axis=-1) if measure == "sum" else jnp.mean(steps**2, axis=-1)


def constrained_loss(
    steps: Float[Array, "n d"],
    direction: Float[Array, "n d"],
    bound: Float[Array, " n"] | float,
    multiplier: Float[Array, ""],
    slack: float,
    measure: Measure,
) -> tuple[Float[Array, ""], Metrics]:
    """−mean(Δφ·z + λ c) with c = min(ε, bound − ‖Δφ‖²), λ the multiplier and ε the slack."""
    length = squared_length(steps, measure)
    constraint = jnp.mean(jnp.minimum(slack, bound - length))
    value = -(jnp.mean(jnp.sum(steps * direction, axis=-1)) + multiplier * constraint)
    return value, {"model_loss": value, "constraint": constraint, "squared_length": jnp.mean(length)}


def follow_constraint(
    transform: optax.GradientTransformation, log_multiplier: TrainState[Float[Array, ""]], constraint: Float[Array, ""]
) -> TrainState[Float[Array, ""]]:
    """One step of log λ on log λ · mean c: λ grows where the constraint is violated (c < 0)."""
    return gradient_step(transform, lambda log: (log * constraint, {}), log_multiplier)[0]


@dataclass(frozen=True)
class LatentSteps(AdamTrained, Objective[State]):
    """Settings shared by METRA and CSD; each method defines the bound on ‖Δφ‖²."""

    pairs: ClassVar[Pairs] = "one-step"

    skill_kind: Literal["discrete", "continuous"] = "discrete"
    """Skill space: discrete (one-hot skills), or continuous (unit vectors)."""
    number_of_skills: Annotated[int, POSITIVE] = 10
    """Number of discrete skills n, and dimension of φ if skills are discrete."""
    dimension: Annotated[int, POSITIVE] = 2
    """Dimension of continuous skills, and of φ if skills are continuous."""
    constraint: Measure = "sum"
    """Reduction over the entries of ‖Δφ‖² and its bound: sum (the papers) or mean (the authors' code)."""
    slack: Annotated[float, POSITIVE] = 1e-3
    """Slack ε, the upper bound of the constraint term min(ε, 1 − ‖Δφ‖²)."""
    initial_multiplier: Annotated[float, POSITIVE] = 30.0
    """Initial Lagrange multiplier λ of the constraint."""
    hidden: Hidden = (128, 128)
    learning_rate: LearningRate = 1e-3
    multiplier_learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's learning rate for log λ of the constraint."""
    epsilon: Epsilon = 1e-3
    reward_scale: float = 1.0
    """Factor on the intrinsic reward."""
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes the paper's settings: one skill per episode, since the constraint is on single steps."""
        if scale.benchmark == "maze":
            return cls()
        return cls(
            number_of_skills=scale.number_of_skills,
            hidden=scale.hidden,
            learning_rate=scale.learning_rate,
            multiplier_learning_rate=1e-4,
            epsilon=scale.epsilon,
        )

    @property
    def skills(self) -> Discrete | Sphere:
        """One-hot skills or unit vectors."""
        return Discrete(self.number_of_skills) if self.skill_kind == "discrete" else Sphere(self.dimension)

    @property
    def _multiplier_transform(self) -> optax.GradientTransformation:
        # A satisfied constraint has the gradient ``slack``: with a larger ε of Adam, λ would hardly decrease.
        return adam(self.multiplier_learning_rate)
