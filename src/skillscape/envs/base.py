"""What an environment is: a pure one that lives inside a compiled loop, or one of ordinary Python on the host."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.types import EnvSpec, RandomKey


class Timestep(NamedTuple):
    """What a step of a ``JaxEnv`` returns beside the new state: its observation, the reward, whether the task ended."""

    obs: Shaped[Array, "..."]
    reward: Float[Array, ""]
    terminated: Float[Array, ""]


class JaxEnv(ABC):
    """An environment of pure functions on one state; batches are the caller's ``vmap``.

    ``reset`` draws a training start, ``reset_for_evaluation`` the fixed one that trajectories are measured from.
    An episode lasts ``spec.horizon`` steps unless ``terminated`` comes first; the time limit is the loop's business.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Sizes of observations and actions, and the episode length."""

    @abstractmethod
    def reset(self, key: RandomKey) -> PyTree:
        """A fresh state at the start of an episode."""

    @abstractmethod
    def reset_for_evaluation(self, key: RandomKey) -> PyTree:
        """The state evaluation episodes begin in."""

    @abstractmethod
    def observe(self, state: PyTree) -> Shaped[Array, "..."]:
        """The observation of a state."""

    @abstractmethod
    def step(self, state: PyTree, action: Float[Array, " a"], key: RandomKey) -> tuple[PyTree, Timestep]:
        """Move one step with an action in [-1, 1]."""


class HostStep(NamedTuple):
    """What a step of a ``HostEnv`` returns: the state it led to, also where the episode ends there.

    ``terminated``: the task is over, nothing follows; ``truncated``: the episode is merely cut, by time or by hand.
    """

    obs: Shaped[np.ndarray, "..."]
    reward: float
    terminated: bool
    truncated: bool


class HostEnv(ABC):
    """An environment in ordinary Python, one episode at a time; observations are arrays of ``spec.obs_shape``.

    An episode is a function of its seed and its actions, to the last bit: a run that was killed in the middle of one
    comes back by resetting with the same seed and taking the same actions again.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Sizes of observations and actions, and the longest an episode can be."""

    @abstractmethod
    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Begin the episode of this seed, in [0, 2³¹)."""

    @abstractmethod
    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take an action in [-1, 1]; after an end, only ``reset`` is allowed."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the environment holds."""
