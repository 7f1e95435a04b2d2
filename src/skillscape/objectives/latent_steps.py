"""What METRA, CSD and their line share: skills as directions of steps in a representation, under a constraint.

Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024, and Park et al.,
Controllability-Aware Unsupervised Skill Discovery, ICML 2023: both maximise (φ(s') − φ(s))·z under a bound on the
length of the step, by dual gradient descent.
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
"""How the entries of a squared length are put together."""


def directions(skill: Float[Array, "n z"], kind: Literal["discrete", "continuous"]) -> Float[Array, "n z"]:
    """Where a skill points in the representation: continuous skills where they are.

    One-hot skills point to the corners of a regular simplex around zero, 1 on the own axis and −1/(z − 1) on the
    others, so that no direction is common to all.
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
    kept = jnp.mean(jnp.minimum(slack, bound - length))
    value = -(jnp.mean(jnp.sum(steps * direction, axis=-1)) + multiplier * kept)
    return value, {"model_loss": value, "constraint": kept, "squared_length": jnp.mean(length)}


def follow_constraint(
    transform: optax.GradientTransformation, log_multiplier: TrainState[Float[Array, ""]], constraint: Float[Array, ""]
) -> TrainState[Float[Array, ""]]:
    """One step of log λ on log λ · mean c: λ grows where the constraint is broken (c < 0)."""
    return gradient_step(transform, lambda log: (log * constraint, {}), log_multiplier)[0]


@dataclass(frozen=True)
class LatentSteps(AdamTrained, Objective[State]):
    """The settings of an objective of this line; a method says how long a step may be."""

    pairs: ClassVar[Pairs] = "one-step"

    skill_kind: Literal["discrete", "continuous"] = "discrete"
    """One-hot skills, or directions: unit vectors."""
    number_of_skills: Annotated[int, POSITIVE] = 10
    """Number of discrete skills, which is also the dimension of φ then."""
    dimension: Annotated[int, POSITIVE] = 2
    """Entries of a continuous skill, and of φ then."""
    constraint: Measure = "sum"
    """Squares summed in ‖Δφ‖² and its bound (as the papers write), or averaged in both (the authors' codes)."""
    slack: Annotated[float, POSITIVE] = 1e-3
    """Slack ε: what a step shorter than allowed counts for at most."""
    initial_multiplier: Annotated[float, POSITIVE] = 30.0
    """Lagrange multiplier λ of the constraint at the start."""
    hidden: Hidden = (128, 128)
    learning_rate: LearningRate = 1e-3
    multiplier_learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's learning rate for log λ."""
    epsilon: Epsilon = 1e-3
    reward_scale: float = 1.0
    """Factor on the reward."""
    resample_every: SkillSteps = None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As its paper outside mazes: a skill lasts an episode, since the constraint is about neighbours in time.

        The ant has directions of two entries, as in the papers of this line.
        """
        if scale.benchmark == "maze":
            return cls()
        return cls(
            skill_kind="continuous" if scale.env_id == "ant" else "discrete",
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
        # A kept constraint has the gradient ``slack``: a larger ε of Adam would hardly ever let λ come down.
        return adam(self.multiplier_learning_rate)
