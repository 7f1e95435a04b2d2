"""The contract of a backbone: how an agent acts and learns, whatever is worth doing."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.replay import EpisodeIndex, Replay
from skillscape.types import EnvSpec, Metrics, RandomKey, Schedule, Spec

Agent = TypeVar("Agent")
Batch = TypeVar("Batch")


class TooShort(NamedTuple):
    """Why episodes are too short to learn from, and the setting that decides it."""

    needed: str
    """What is learned from, in words: "returns over 3 steps"."""
    setting: str
    """The field of the backbone to lower."""
    most: int
    """The largest value of that field with which these episodes are long enough."""


class Backbone(ABC, Generic[Agent, Batch]):
    """Hyper-parameters in a frozen dataclass, pure functions over an agent; meets the objective in ``learn`` only.

    There are two kinds. An on-policy backbone learns from rollouts of its newest policy, ``steps_per_iteration``
    environment steps at a time. Every other one learns from a replay buffer: ``schedule`` says when, and ``sample``
    draws what ``learn`` takes.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """What training from scratch with it is called in tables and figures."""
    on_policy: ClassVar[bool] = False
    """Whether ``learn`` takes a ``Rollout`` of the newest policy, and nothing from a replay buffer."""
    relabels: ClassVar[bool] = False
    """Whether ``learn`` can follow ``Objective.relabel``: learn a transition under a skill other than its own."""
    selects_skill_by_regress: ClassVar[bool] = False
    """Whether fine-tuning selects a discrete skill by ``regress`` unless told otherwise, not by the method's rule."""

    @abstractmethod
    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> Agent:
        """A fresh agent; reads ``objective.skills`` and ``objective.critic_head``, nothing else."""

    # Acting

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
        """Actions in [-1, 1] for n states under n skills; the mode where ``explore`` is off."""

    @abstractmethod
    def log_prob(
        self, agent: Agent, obs: Shaped[Array, "t ..."], skill: Float[Array, "t z"], action: Float[Array, "t a"]
    ) -> Float[Array, " t"]:
        """How likely the policy is to take these actions under these skills, in states that follow each other."""

    # What objectives see

    @abstractmethod
    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """What objectives see as a state."""

    @abstractmethod
    def objective_obs(
        self, agent: Agent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Shaped[Array, "t ..."]:
        """What objectives see of states that follow each other, each with the action taken in it."""

    # Learning

    @property
    def schedule(self) -> Schedule:
        """When learning from replay begins, how often, and from how much; on-policy backbones have none."""
        raise TypeError(f"{type(self).__name__} does not learn from replay and has no schedule.")

    def steps_per_iteration(self, env_spec: EnvSpec) -> int:
        """The fewest environment steps that training advances by: those of a rollout, or 1 with replay."""
        del env_spec
        return 1

    @property
    def unroll_steps(self) -> int | None:
        """Steps of each episode in an iteration of an on-policy backbone, after which the next iteration continues it.

        None: every iteration runs new episodes to their end.
        """
        return None

    def sample(
        self, replay: Replay, episode_index: EpisodeIndex, updates: int, skill: Float[np.ndarray, " z"] | None = None
    ) -> Batch | None:
        """What one call of ``learn`` takes, drawn from the visible episodes; None while nothing can be drawn.

        ``updates``: learning steps of the objective's own model, ``objective.updates_per_step``; ``skill``: the one
        that was chosen to go on with, whichever skills acted before.
        """
        del replay, episode_index, updates, skill
        raise TypeError(f"{type(self).__name__} does not learn from replay and draws nothing from it.")

    def too_short(self, steps: int) -> TooShort | None:
        """Why nothing can be drawn from truncated episodes of at most ``steps`` steps; None where something can."""
        del steps
        return None

    @abstractmethod
    def learn(
        self, agent: Agent, objective: Objective[Any], objective_state: PyTree, batch: Batch, key: RandomKey
    ) -> tuple[Agent, PyTree, Metrics]:
        """Fit the objective's model, reward the batch with it, improve the agent."""

    # Learning a task

    @abstractmethod
    def task_config(self, *, pretrained: bool) -> "Backbone[Agent, Batch]":
        """The settings to learn a task's own reward with, after pre-training or from scratch."""

    @abstractmethod
    def adapt(self, agent: Agent, key: RandomKey, *, keep_critic: bool = False) -> Agent:
        """The agent that fine-tuning starts from: what survives pre-training, the rest fresh."""

    @abstractmethod
    def with_controller(self, agent: Agent, key: RandomKey, env_spec: EnvSpec, skills: int) -> Agent:
        """The agent with a fresh controller that mixes its skills state by state, at first uniformly."""


class VectorBackbone(Backbone[Agent, Batch], Generic[Agent, Batch]):
    """A backbone whose policy reads one vector at a time: it carries nothing, and objectives see observations."""

    @final
    def initial_carry(self, rows: int) -> tuple[()]:
        """Nothing is carried."""
        del rows
        return ()

    @final
    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """The observations themselves."""
        return Spec(env_spec.obs_shape, env_spec.action_dim)

    def objective_obs(
        self, agent: Agent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Shaped[Array, "t ..."]:
        """The states themselves."""
        del agent, action
        return obs

    @final
    def observation_width(self, env_spec: EnvSpec) -> int:
        """Entries of an observation; images are refused."""
        if env_spec.is_image:
            raise UserError(
                f"This environment shows images, which {self.label} does not learn from: choose the backbone dreamer."
            )
        (width,) = env_spec.obs_shape
        return width
