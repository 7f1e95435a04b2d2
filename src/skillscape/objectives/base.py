"""The contract of an objective: what is worth doing when there is no task."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped
from typing_extensions import Doc

from skillscape.errors import UserError
from skillscape.optim import adam
from skillscape.ranges import POSITIVE
from skillscape.skills import Discrete, NoSkill, SkillSpace
from skillscape.types import Benchmark, Experience, Metrics, RandomKey, Spec

State = TypeVar("State")
Adaptation = Literal["prior", "random", "constant", "infer"]
Pairs = Literal["n-step", "one-step"]
"""Which two states a replayed transition joins: n steps apart, as its return is, or neighbours in time."""

# Fields that most methods have, with their range and the sentence that the command line shows for them.
SkillCount = Annotated[int, POSITIVE, Doc("Number of discrete skills n.")]
Hidden = Annotated[tuple[int, ...], POSITIVE, Doc("Widths of the hidden layers of the method's networks.")]
LearningRate = Annotated[float, POSITIVE, Doc("Adam's learning rate for the method's networks.")]
Epsilon = Annotated[float, POSITIVE, Doc("Adam's ε for the method's networks.")]
SkillSteps = Annotated[
    int | None,
    POSITIVE,
    Doc("Environment steps between two draws of a skill; None keeps a skill for the whole episode."),
]


@dataclass(frozen=True)
class Scale:
    """Where a method is to be trained, and how large: what a preset tells ``Objective.at``."""

    benchmark: Benchmark
    preset: str
    width: int
    """Width of the hidden layers."""
    density_width: int
    """Width of the layers of SD3's density model."""
    module_width: int
    """Width of each module of that model."""
    number_of_skills: int
    resample_every: int | None
    """Environment steps between two draws of a skill; None keeps it for the whole episode."""
    learning_rate: float
    epsilon: float
    """Adam's ε."""
    env_id: str = ""
    replayed: bool = True
    """Whether batches come from a replay buffer."""

    @property
    def hidden(self) -> tuple[int, int]:
        """Two hidden layers."""
        return (self.width, self.width)

    @property
    def imagined(self) -> bool:
        """Whether states are a world model's features of mean zero and variance one, mostly of imagined states."""
        return self.benchmark in ("maze-pixels", "urlb-pixels")


@dataclass(frozen=True)
class Objective(ABC, Generic[State]):
    """A frozen dataclass whose fields are the hyper-parameters, and pure functions over an explicit state.

    One objective is one file; its class is final and its ``name`` is the file's. Rewards are over a whole batch because
    some methods couple its rows (nearest neighbours, contrast).
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """The method's name in tables and figures."""
    pairs: ClassVar[Pairs] = "n-step"
    """Which pairs of states the method learns from and rewards; "one-step" where it constrains single steps."""
    own_unit: ClassVar[bool] = False
    """Whether rewards have a unit of their own, so that backbones do not normalise them."""
    reward_gradient: ClassVar[bool] = True
    """Whether the gradient of the reward is useful to a world model's actor; otherwise it learns from values alone."""
    imagined_entropy: ClassVar[float | None] = None
    """Weight of the policy's entropy where the policy learns in a world model's imagination; the backbone's if None."""
    infers_skill: ClassVar[bool] = False
    """Whether ``infer_skill`` can be called."""
    reaches_goals: ClassVar[bool] = False
    """Whether ``skill_for_goal`` can be called."""
    keeps_critic: ClassVar[bool] = False
    """Whether fine-tuning begins with the whole critic of pre-training, not with its trunk alone."""
    updates_per_step: ClassVar[int] = 1
    """Learning steps of the objective's own model for each one of the backbone's."""
    scores_other_skills: ClassVar[bool] = True
    """Whether ``reward`` can be asked of rows under another skill than the one that acted in them."""

    @property
    def adaptation(self) -> Adaptation:
        """Skills in fine-tuning unless told otherwise, see ``skill_selection.Strategy``."""
        return "random"

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """The critic: one value, or "skill" for Q = ψ(s, a, z)·z (successor features)."""
        return "scalar"

    @property
    def critic_width(self) -> int:
        """Outputs of a critic: one value, or successor features as long as a skill."""
        return self.skills.width if self.critic_head == "skill" else 1

    @property
    def relabels(self) -> bool:
        """Whether ``relabel`` changes skills; only backbones that learn from replayed transitions can follow it."""
        return False

    @property
    def skills(self) -> SkillSpace:
        """The space that skills come from; unless a method says otherwise it has none."""
        return NoSkill()

    @property
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill; None keeps it for the whole episode."""
        return None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The method's settings at a scale."""
        raise UserError(
            f"{cls.name} has no settings for {scale.benchmark} at the preset {scale.preset}; define the class method "
            f"`at` in {cls.__name__}, or pass an objective such as {cls.__name__}()."
        )

    @abstractmethod
    def init(self, key: RandomKey, spec: Spec) -> State:
        """Networks, optimisers, running moments and queues at the start."""

    @abstractmethod
    def update(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Metrics]:
        """One learning step of the objective's own model on a batch of n transitions."""

    @abstractmethod
    def reward(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Float[Array, " n"], Metrics]:
        """The reward of each of n transitions. The state may change: running moments, queues."""

    def relabel(self, state: State, batch: Experience, key: RandomKey) -> Float[Array, "n z"]:
        """The skill under which each row is learned by actor and critic; the one that acted unless ``relabels``.

        Called after ``reward`` with the same batch and key, so that both can make the same random choices.
        """
        del state, key
        return batch.skill

    def infer_skill(self, state: State, obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]) -> Float[Array, " z"]:
        """The skill that explains task rewards seen at ``obs``, for methods that can tell."""
        del state, obs, reward
        raise UserError(f"{self.name} cannot infer a skill from rewards; choose --skill random, an index, or regress.")

    def score_skills(self, state: State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """How much each of k skills claims each state: a log density or log probability, for methods that have one."""
        del state, obs
        raise UserError(f"{self.name} keeps no score of states by skill; draw where its skills go instead.")

    def skill_for_goal(
        self, state: State, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."]
    ) -> Float[Array, "n z"]:
        """The skill that leads from each state to its goal without further training, where ``reaches_goals``.

        obs, goal: current states and goal states, as objectives see them. Unless a method knows better, the skill of
        the highest ``score_skills`` at the goal, wherever it starts.
        """
        del obs
        if not self.reaches_goals:
            raise UserError(
                f"{self.name} cannot tell which skill leads to a goal; choose a method that can, such as METRA."
            )
        return self.skills.all()[jnp.argmax(self.score_skills(state, goal), axis=-1)]


class AdamTrained:
    """Mixed into objectives whose networks are trained by Adam with the fields ``learning_rate`` and ``epsilon``."""

    learning_rate: float
    epsilon: float

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)


class DiscreteSkills:
    """Mixed into objectives of ``number_of_skills`` one-hot skills."""

    number_of_skills: int

    @property
    def skills(self) -> Discrete:
        """n one-hot skills."""
        return Discrete(self.number_of_skills)
