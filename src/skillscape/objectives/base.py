"""The contract of an objective: an intrinsic reward, and the model it is computed from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped
from typing_extensions import Doc

from skillscape.errors import UserError
from skillscape.optim import adam
from skillscape.ranges import POSITIVE
from skillscape.skills import Discrete, NoSkill, SkillSpace
from skillscape.types import Benchmark, Experience, Metrics, RandomKey, RewardState, Spec

State = TypeVar("State")
Adaptation = Literal["prior", "random", "constant", "infer"]
Pairs = Literal["n-step", "one-step"]
"""Distance in time between s and s' of a replayed transition: the n steps of its return, or one step."""

# Fields that most methods share, with their range and help text.
SkillCount = Annotated[int, POSITIVE, Doc("Number of discrete skills n.")]
LearningRate = Annotated[float, POSITIVE, Doc("Adam's learning rate for the method's networks.")]
Epsilon = Annotated[float, POSITIVE, Doc("Adam's ε for the method's networks.")]
SkillSteps = Annotated[
    int | None,
    POSITIVE,
    Doc("Environment steps between two draws of the skill z; None draws one skill per episode."),
]


@dataclass(frozen=True)
class Scale:
    """Benchmark and network sizes of a preset, from which ``Objective.at`` chooses a method's settings."""

    benchmark: Benchmark
    preset: str
    width: int
    """Width of the hidden layers."""
    density_width: int
    """Layer width of SD3's density model."""
    module_width: int
    """Width of each soft module of SD3's density model."""
    number_of_skills: int
    resample_every: int | None
    """Environment steps between two draws of a skill; None draws one skill per episode."""
    learning_rate: float
    epsilon: float
    """Adam's ε."""
    env_id: str = ""
    replayed: bool = True
    """Whether batches come from a replay buffer."""

    @property
    def hidden(self) -> tuple[int, int]:
        """Widths of two hidden layers."""
        return (self.width, self.width)

    @property
    def imagined(self) -> bool:
        """Whether states are standardised world-model features, mostly of imagined states."""
        return self.benchmark in ("maze-pixels", "urlb-pixels")

    @property
    def reward_state(self) -> RewardState:
        """The state that novelty methods reward: s' in imagination, where s does not depend on the action; else s."""
        return "next_obs" if self.imagined else "obs"


@dataclass(frozen=True)
class Objective(ABC, Generic[State]):
    """A frozen dataclass whose fields are the hyper-parameters, and pure functions over an explicit state.

    One objective is one file; its class is final and its ``name`` is the file's. Rewards are computed for a whole batch
    because some methods couple its rows (nearest neighbours, contrastive losses).
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """The method's name in tables and figures."""
    pairs: ClassVar[Pairs] = "n-step"
    """Distance in time between s and s'; "one-step" for methods that constrain single steps."""
    own_unit: ClassVar[bool] = False
    """Whether rewards have a fixed scale, so that backbones do not normalise them."""
    reward_gradient: ClassVar[bool] = True
    """Whether a world model's actor backpropagates through the reward; otherwise through values only."""
    imagined_entropy: ClassVar[float | None] = None
    """Entropy coefficient of a policy trained in imagination; the backbone's if None."""
    infers_skill: ClassVar[bool] = False
    """Whether the method implements ``infer_skill``."""
    reaches_goals: ClassVar[bool] = False
    """Whether the method implements ``skill_for_goal``."""
    keeps_critic: ClassVar[bool] = False
    """Whether fine-tuning starts from the whole pre-trained critic, not from its trunk alone."""
    updates_per_step: ClassVar[int] = 1
    """Updates of the objective's model per update of the backbone."""
    scores_other_skills: ClassVar[bool] = True
    """Whether ``reward`` is defined for transitions relabelled with another skill."""

    @property
    def adaptation(self) -> Adaptation:
        """Default skill selection in fine-tuning, see ``skill_selection.Strategy``."""
        return "random"

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """Form of the critic: a scalar Q, or "skill" for Q = ψ(s, a, z)·z (successor features)."""
        return "scalar"

    @property
    def critic_width(self) -> int:
        """Number of critic outputs: 1, or the skill dimension for successor features."""
        return self.skills.width if self.critic_head == "skill" else 1

    @property
    def relabels(self) -> bool:
        """Whether ``relabel`` changes skills; only backbones that learn from replayed transitions can follow it."""
        return False

    @property
    def skills(self) -> SkillSpace:
        """The skill space; by default there are no skills."""
        return NoSkill()

    @property
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill; None draws one skill per episode."""
        return None

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """The method's settings for a benchmark and network size."""
        raise UserError(
            f"{cls.name} has no settings for {scale.benchmark} at the preset {scale.preset}; define the class method "
            f"`at` in {cls.__name__}, or pass an objective such as {cls.__name__}()."
        )

    @abstractmethod
    def init(self, key: RandomKey, spec: Spec) -> State:
        """The initial state: networks, optimisers, running moments and queues."""

    @abstractmethod
    def update(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Metrics]:
        """One update of the objective's model on a batch of n transitions."""

    @abstractmethod
    def reward(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Float[Array, " n"], Metrics]:
        """The intrinsic reward of each of n transitions, and the state with updated running moments and queues."""

    def relabel(self, state: State, batch: Experience, key: RandomKey) -> Float[Array, "n z"]:
        """The skill under which each row is learned by actor and critic; the one that acted unless ``relabels``.

        Called after ``reward`` with the same batch and key, so that both can make the same random choices.
        """
        del state, key
        return batch.skill

    def infer_skill(self, state: State, obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]) -> Float[Array, " z"]:
        """The skill inferred from task rewards at ``obs``, for methods with ``infers_skill``."""
        del state, obs, reward
        raise UserError(f"{self.name} cannot infer a skill from rewards; choose --skill random, an index, or regress.")

    def score_skills(self, state: State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """Score of each state under each of k skills: a log density log d_z(s) or log probability log q(z|s)."""
        del state, obs
        raise UserError(f"{self.name} has no density or discriminator to score states with; plot trajectories instead.")

    @property
    def scores_skills(self) -> bool:
        """Whether the method implements ``score_skills``."""
        return type(self).score_skills is not Objective.score_skills

    def diagnose(
        self, state: State, obs: Shaped[Array, "n ..."], skill: Float[Array, "n z"], random: Shaped[Array, "m ..."]
    ) -> Metrics:
        """Measures of the method's own model at an evaluation; none unless a method with ``score_skills`` has some.

        obs, skill: states that the policy visited and the skills that led there; random: states of episodes with
        uniformly random actions; all as objectives see them.
        """
        del state, obs, skill, random
        return {}

    @property
    def diagnoses(self) -> bool:
        """Whether the method implements ``diagnose``."""
        return type(self).diagnose is not Objective.diagnose

    def routing_weights(self, state: State) -> dict[str, Float[Array, "layers m k"]]:
        """Network → weight of each of m modules per layer under each of k skills; empty for methods without modules."""
        del state
        return {}

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


@dataclass(frozen=True, kw_only=True)
class AdamTrained:
    """Settings of objectives that train all of their networks by one Adam."""

    hidden: Annotated[tuple[int, ...], POSITIVE] = (128, 128)
    """Hidden layer widths of the method's networks."""
    learning_rate: LearningRate = 1e-3
    epsilon: Epsilon = 1e-3

    @classmethod
    def sized(cls, scale: Scale) -> Self:
        """The defaults, but for networks and Adam: those are the preset's."""
        return cls(hidden=scale.hidden, learning_rate=scale.learning_rate, epsilon=scale.epsilon)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)


@dataclass(frozen=True)
class DiscreteSkills:
    """Settings of objectives with ``number_of_skills`` one-hot skills."""

    number_of_skills: SkillCount = 10
    resample_every: SkillSteps = field(default=None, kw_only=True)

    def with_skills(self, scale: Scale) -> Self:
        """The same settings with the number of skills, and the steps that one lasts, of the preset."""
        return replace(self, number_of_skills=scale.number_of_skills, resample_every=scale.resample_every)

    @property
    def skills(self) -> Discrete:
        """n one-hot skills."""
        return Discrete(self.number_of_skills)
