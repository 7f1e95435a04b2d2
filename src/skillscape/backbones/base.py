"""The contract of a backbone: how an agent acts and learns, whatever is worth doing."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.objectives.base import Objective
from skillscape.types import EnvSpec, Metrics, RandomKey, Spec, View

Agent = TypeVar("Agent")
Batch = TypeVar("Batch")


class Backbone(ABC, Generic[Agent, Batch]):
    """Hyper-parameters in a frozen dataclass, pure functions over an agent; meets the objective in ``learn`` only."""

    view: ClassVar[View]
    """The shape of data that ``learn`` takes."""

    @abstractmethod
    def features(self, env_spec: EnvSpec) -> Spec:
        """What objectives see as a state."""

    @abstractmethod
    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> Agent:
        """A fresh agent; reads ``objective.skills`` and ``objective.critic_head``, nothing else."""

    @abstractmethod
    def start(self, rows: int) -> PyTree:
        """What ``act`` carries from step to step, for ``rows`` episodes at their start; () where nothing."""

    @abstractmethod
    def act(
        self,
        agent: Agent,
        carry: PyTree,
        obs: Shaped[Array, "n ..."],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], PyTree]:
        """Actions in [-1, 1] for n states under n skills; the mode where ``explore`` is off."""

    @abstractmethod
    def learn(
        self, agent: Agent, objective: Objective[Any], objective_state: PyTree, batch: Batch, key: RandomKey
    ) -> tuple[Agent, PyTree, Metrics]:
        """Fit the objective's model, reward the batch with it, improve the agent."""

    @abstractmethod
    def adapt(self, agent: Agent, key: RandomKey) -> Agent:
        """The agent that fine-tuning starts from: what survives pre-training, the rest fresh."""
