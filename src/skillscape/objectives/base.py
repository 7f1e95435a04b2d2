"""The contract of an objective: what is worth doing when there is no task."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeVar

from jaxtyping import Array, Float, Shaped

from skillscape.errors import UserError
from skillscape.skills import SkillSpace
from skillscape.types import Experience, Metrics, RandomKey, Spec

State = TypeVar("State")
Adaptation = Literal["prior", "random", "constant", "infer"]
Pairs = Literal["n-step", "one-step"]
"""Which two states a replayed transition joins: n steps apart, as its return is, or neighbours in time."""


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
    keeps_critic: ClassVar[bool] = False
    """Whether fine-tuning begins with the whole critic of pre-training, not with its trunk alone."""
    updates_per_step: ClassVar[int] = 1
    """Learning steps of the objective's own model for each one of the backbone's."""
    scores_other_skills: ClassVar[bool] = True
    """Whether ``reward`` can be asked of rows under another skill than the one that acted in them."""

    @property
    def adaptation(self) -> Adaptation:
        """Skills in fine-tuning unless told otherwise, see ``adaptation.Strategy``."""
        return "random"

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """The critic: one value, or "skill" for Q = ψ(s, a, z)·z (successor features)."""
        return "scalar"

    @property
    @abstractmethod
    def skills(self) -> SkillSpace:
        """Where skills come from."""

    @property
    @abstractmethod
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill; None keeps it for the whole episode."""

    @abstractmethod
    def init(self, key: RandomKey, spec: Spec) -> State:
        """Networks, optimisers, running moments and queues at the start."""

    @abstractmethod
    def update(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Metrics]:
        """One learning step of the objective's own model on a batch of n transitions."""

    @abstractmethod
    def reward(self, state: State, batch: Experience, key: RandomKey) -> tuple[State, Float[Array, " n"], Metrics]:
        """The reward of each of n transitions. The state may change: running moments, queues."""

    def infer_skill(self, state: State, obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]) -> Float[Array, " z"]:
        """The skill that explains task rewards seen at ``obs``, for methods that can tell."""
        del state, obs, reward
        raise UserError(f"{self.name} cannot infer a skill from rewards; choose --skill random, an index, or regress.")

    def score_skills(self, state: State, obs: Shaped[Array, "n ..."]) -> Float[Array, "n k"]:
        """How much each of k skills claims each state: a log density or log probability, for methods that have one."""
        del state, obs
        raise UserError(f"{self.name} keeps no score of states by skill; draw where its skills go instead.")
