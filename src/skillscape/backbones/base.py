"""The contract of a backbone: how an agent acts and learns, whatever is worth doing."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.objectives.base import Objective
from skillscape.types import EnvSpec, Metrics, RandomKey, Schedule, Spec, View

Agent = TypeVar("Agent")
Batch = TypeVar("Batch")


class Backbone(ABC, Generic[Agent, Batch]):
    """Hyper-parameters in a frozen dataclass, pure functions over an agent; meets the objective in ``learn`` only."""

    view: ClassVar[View]
    """The shape of data that ``learn`` takes."""

    @abstractmethod
    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """What objectives see as a state."""

    @abstractmethod
    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> Agent:
        """A fresh agent; reads ``objective.skills`` and ``objective.critic_head``, nothing else."""

    @abstractmethod
    def initial_carry(self, rows: int) -> PyTree:
        """What ``act`` carries from step to step, for ``rows`` episodes at their start; () where nothing."""

    @abstractmethod
    def policy_params(self, agent: Agent) -> PyTree:
        """The part of an agent that ``act`` reads: what has to be shared, or kept while the rest learns."""

    @abstractmethod
    def act(
        self,
        policy: PyTree,
        carry: PyTree,
        obs: Shaped[Array, "n ..."],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], PyTree]:
        """Actions in [-1, 1] for n states under n skills; the mode where ``explore`` is off. policy: see ``policy_params``."""

    @abstractmethod
    def learn(
        self, agent: Agent, objective: Objective[Any], objective_state: PyTree, batch: Batch, key: RandomKey
    ) -> tuple[Agent, PyTree, Metrics]:
        """Fit the objective's model, reward the batch with it, improve the agent."""

    @abstractmethod
    def adapt(self, agent: Agent, key: RandomKey, *, keep_critic: bool = False) -> Agent:
        """The agent that fine-tuning starts from: what survives pre-training, the rest fresh."""


class ReplayedBackbone(Backbone[Agent, Batch], Generic[Agent, Batch]):
    """A backbone that learns from a replay buffer while it acts: from transitions, or from sequences of them."""

    name: ClassVar[str]
    label: ClassVar[str]
    """What training from scratch with it is called in tables and figures."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """When learning begins, how often, and from how much."""

    @abstractmethod
    def for_task(self, *, pretrained: bool) -> "ReplayedBackbone[Agent, Batch]":
        """The settings to learn a task's own reward with, after pre-training or from scratch."""

    @abstractmethod
    def log_prob(
        self, agent: Agent, obs: Shaped[Array, "t ..."], skill: Float[Array, "t z"], action: Float[Array, "t a"]
    ) -> Float[Array, " t"]:
        """How likely the policy is to take these actions under these skills, in states that follow each other."""

    @abstractmethod
    def objective_obs(
        self, agent: Agent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Shaped[Array, "t ..."]:
        """What objectives see of states that follow each other, each with the action taken in it."""

    @abstractmethod
    def with_controller(self, agent: Agent, key: RandomKey, env_spec: EnvSpec, skills: int) -> Agent:
        """The agent with a fresh controller that mixes its skills state by state."""
