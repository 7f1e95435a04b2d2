"""What METRA, CSD, LSD and CSF share: skills as directions of steps in a representation φ, r = (φ(s') − φ(s))·z.

Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024, and Park et al.,
Controllability-Aware Unsupervised Skill Discovery, ICML 2023, maximise the same under a bound on the length of the
step, by dual gradient descent (``ConstrainedSteps``).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import AdamTrained, Objective, Pairs, Scale, SkillSteps
from skillscape.objectives.encoders import StateNet
from skillscape.optim import TrainState, adam, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.skills import Discrete, Sphere
from skillscape.stats import unit_rows
from skillscape.types import Experience, Metrics, RandomKey

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


def skill_towards(steps: Float[Array, "n d"], kind: Literal["discrete", "continuous"]) -> Float[Array, "n z"]:
    """The skill whose direction is closest to each step.

    The unit vector along it, equal entries where the step is zero; of one-hot skills the one on the largest entry,
    whose direction agrees most with the step.
    """
    number = steps.shape[-1]
    if kind == "discrete":
        return jax.nn.one_hot(jnp.argmax(steps, axis=-1), number)
    still = jnp.all(steps == 0, axis=-1, keepdims=True)
    return jnp.where(still, 1 / math.sqrt(number), unit_rows(steps))


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
    """Settings and reward of the methods whose skills are directions of latent steps; each defines how φ is learned."""

    pairs: ClassVar[Pairs] = "one-step"
    reaches_goals: ClassVar[bool] = True

    skill_kind: Literal["discrete", "continuous"] = "discrete"
    """Skill space: discrete (one-hot skills), or continuous (unit vectors)."""
    number_of_skills: Annotated[int, POSITIVE] = 10
    """Number of discrete skills n, and dimension of φ if skills are discrete."""
    dimension: Annotated[int, POSITIVE] = 2
    """Dimension of continuous skills, and of φ if skills are continuous."""
    reward_scale: float = 1.0
    """Factor on the intrinsic reward."""
    resample_every: SkillSteps = None

    @property
    def skills(self) -> Discrete | Sphere:
        """One-hot skills or unit vectors."""
        return Discrete(self.number_of_skills) if self.skill_kind == "discrete" else Sphere(self.dimension)

    @abstractmethod
    def represent(self, state: State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """φ(s)."""

    def reward(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Float[Array, " n"], Metrics]:
        """scale · (φ(s') − φ(s))·z, with z as ``directions`` has it."""
        del key
        steps = self.represent(state, batch.next_obs) - self.represent(state, batch.obs)
        return state, self.reward_scale * jnp.sum(steps * directions(batch.skill, self.skill_kind), axis=-1), {}

    def skill_for_goal(
        self, state: State, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The direction φ(g) − φ(s) as a unit vector, or the one-hot skill whose direction agrees most with it.

        Reference: Park et al., METRA, ICLR 2024, for zero-shot goal reaching.
        """
        return skill_towards(self.represent(state, goal) - self.represent(state, obs), self.skill_kind)


@dataclass(frozen=True)
class ConstrainedSteps(LatentSteps[State]):
    """The settings of an objective that bounds the length of a step by a Lagrange multiplier."""

    constraint: Measure = "sum"
    """Reduction over the entries of ‖Δφ‖² and its bound: sum (the papers) or mean (the authors' code)."""
    slack: Annotated[float, POSITIVE] = 1e-3
    """Slack ε, the upper bound of the constraint term min(ε, 1 − ‖Δφ‖²)."""
    initial_multiplier: Annotated[float, POSITIVE] = 30.0
    """Initial Lagrange multiplier λ of the constraint."""
    multiplier_learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's learning rate for log λ of the constraint."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """Outside mazes the papers' settings: one skill per episode, since the constraint is on single steps.

        On the ant, skills are directions with two entries, as in the papers of this line.
        """
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale),
            skill_kind="continuous" if scale.env_id == "ant" else "discrete",
            number_of_skills=scale.number_of_skills,
            multiplier_learning_rate=1e-4,
        )

    @property
    def _multiplier_transform(self) -> optax.GradientTransformation:
        # A satisfied constraint has the gradient ``slack``: with a larger ε of Adam, λ would hardly decrease.
        return adam(self.multiplier_learning_rate)
