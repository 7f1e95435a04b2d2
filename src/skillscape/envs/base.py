"""What an environment is: a pure one that lives inside a compiled loop, or one of ordinary Python on the host.

An ``EnvFamily`` makes environments of one kind by their names, and knows everything that is true of that kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped, UInt8

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.types import EnvSpec, RandomKey

Benchmark: TypeAlias = Literal["maze", "maze-pixels", "urlb", "urlb-pixels"]
"""Whose presets an environment is trained with."""

Arguments: TypeAlias = Mapping[str, Any]
"""Keyword arguments of an environment's constructor, by name."""

NO_ARGUMENTS: Arguments = MappingProxyType({})


class Timestep(NamedTuple):
    """What a step of a ``JaxEnv`` returns beside the new state: its observation, the reward, whether the task ended."""

    obs: Shaped[Array, "..."]
    reward: Float[Array, ""]
    terminated: Float[Array, ""]


class JaxEnv(ABC):
    """An environment of pure functions on one state; batches are the caller's ``vmap``. Hashable: it is compiled once.

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


class Drawn(NamedTuple):
    """An environment that is looked at, from outside: its observations may be something else.

    ``draw`` takes a picture of its present state; ``steps_per_second`` of its own time; ``task``: whose rewards it
    gives, None for none; ``drawn_by``: egl, osmesa, glfw, or what else takes the pictures; ``close`` ends all of it.
    """

    env: HostEnv
    draw: Callable[[], UInt8[np.ndarray, "h w 3"]]
    steps_per_second: float
    task: str | None
    drawn_by: str
    close: Callable[[], None]


class EnvFamily(ABC):
    """Environments of one kind, by their names: ``env_id`` is always one that the family owns, unless said otherwise.

    ``task`` None is pre-training: rewards, if there are any, are not learned from. ``kwargs`` go to the constructor of
    an environment that takes some. ``definition`` is what ``definition`` gave when a run began.
    """

    name: ClassVar[str]

    @abstractmethod
    def owns(self, env_id: str) -> bool:
        """Whether a name, of whatever family, is of this one; ``make`` may still refuse it."""

    def hint(self, env_id: str) -> str | None:
        """A sentence for the user if a name that no family owns looks like one of this family, written wrongly."""
        del env_id
        return None

    @abstractmethod
    def describe(self) -> list[tuple[str, str]]:
        """Names, or patterns of names, with a description each, for listing."""

    @abstractmethod
    def make(
        self,
        env_id: str,
        task: str | None = None,
        *,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> JaxEnv | HostEnv:
        """The environment, set to a task."""

    @abstractmethod
    def tasks(self, env_id: str) -> tuple[str, ...]:
        """Names of tasks, for listing and for trying them all; others may exist."""

    @abstractmethod
    def task(self, env_id: str, task: str | None, *, definition: Mapping[str, Any] | None = None) -> str:
        """The task that is to be learned, checked; the default of the family for None, or a refusal if it has none."""

    @abstractmethod
    def benchmark(self, env_id: str, *, kwargs: Arguments = NO_ARGUMENTS) -> Benchmark:
        """Whose presets apply."""

    @abstractmethod
    def definition(self, env_id: str) -> dict[str, Any] | None:
        """What a run stores, as JSON, to rebuild its environment although files move; None where the name is enough."""

    @abstractmethod
    def layout(self, env_id: str, definition: Mapping[str, Any] | None = None) -> Layout | None:
        """The geometry, where states are places that can be measured and drawn."""

    @abstractmethod
    def folder_name(self, env_id: str) -> str:
        """What stands for the environment in the name of a run: square_a, walker, Pendulum-v1."""

    @abstractmethod
    def drawn(
        self,
        env_id: str,
        task: str | None = None,
        *,
        size: int | None = None,
        shadows: bool = False,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> Drawn:
        """The environment with a camera on it; ``size``: pixels of a picture's width. Refuses wishes it cannot meet."""


def refuse_arguments(env_id: str, kwargs: Arguments) -> None:
    """Refuse keyword arguments of an environment that takes none."""
    if kwargs:
        raise UserError(f"{env_id} takes no keyword arguments: leave {', '.join(kwargs)} out.")


def refuse_wishes(env_id: str, size: int | None, shadows: bool) -> None:
    """Refuse wishes about the pictures of an environment that draws itself."""
    if size is not None:
        raise UserError(f"{env_id} draws itself and decides how large; leave --size out.")
    if shadows:
        raise UserError(f"{env_id} draws itself; leave --shadows out.")
