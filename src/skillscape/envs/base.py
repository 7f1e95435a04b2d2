"""What an environment is: a pure one that lives inside a compiled loop."""

from abc import ABC, abstractmethod
from typing import NamedTuple

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
