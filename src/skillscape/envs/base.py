"""Environment interfaces: ``JaxEnv`` for compiled loops, ``HostEnv`` for ordinary Python, ``EnvFamily`` to make them.

A family holds everything that is specific to one kind of environment; other layers reach it through this interface.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped, UInt8

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.types import Benchmark, EnvSpec, RandomKey

Kwargs: TypeAlias = Mapping[str, Any]
"""Keyword arguments of an environment's constructor, by name."""

NO_KWARGS: Kwargs = MappingProxyType({})

Definition: TypeAlias = Mapping[str, Any] | None
"""JSON that a run stores to rebuild its environment although files move; None where the ID is enough."""


class Timestep(NamedTuple):
    """Outcome of a ``JaxEnv`` step beside the new state: its observation, the reward, and 1 if the task terminated."""

    obs: Shaped[Array, "..."]
    reward: Float[Array, ""]
    terminated: Float[Array, ""]


class JaxEnv(ABC):
    """Pure functions on the state of one environment; callers ``vmap`` for batches. Hashable, so it compiles once.

    ``reset`` samples a training start, ``reset_for_evaluation`` returns the fixed start of measured trajectories.
    An episode lasts ``spec.horizon`` steps unless it terminates earlier; the training loop applies the time limit.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Observation shape, action dimension and episode length."""

    @abstractmethod
    def reset(self, key: RandomKey) -> PyTree:
        """The first state of a training episode."""

    @abstractmethod
    def reset_for_evaluation(self, key: RandomKey) -> PyTree:
        """The first state of an evaluation episode."""

    @abstractmethod
    def observe(self, state: PyTree) -> Shaped[Array, "..."]:
        """The observation of a state."""

    @abstractmethod
    def step(self, state: PyTree, action: Float[Array, " a"], key: RandomKey) -> tuple[PyTree, Timestep]:
        """Take one step with an action in [-1, 1]."""

    def position(self, state: PyTree) -> Float[Array, " p"] | None:
        """Coordinates of the body in a state, in the environment's unit of length; None where it does not tell them."""
        del state
        return None

    def with_position(self, obs: Shaped[Array, " d"], position: Float[Array, " p"]) -> Shaped[Array, " d"] | None:
        """An observation with the body at other coordinates; None where observations do not hold the position."""
        del obs, position
        return None


class HostStep(NamedTuple):
    """Outcome of a ``HostEnv`` step; ``obs`` is the state it led to, also at the end of an episode.

    ``terminated``: the task is over and no value follows; ``truncated``: the episode was cut, usually by a time limit.
    """

    obs: Shaped[np.ndarray, "..."]
    reward: float
    terminated: bool
    truncated: bool


class HostEnv(ABC):
    """An environment in ordinary Python, one episode at a time; observations are arrays of ``spec.obs_shape``.

    An episode is a bit-exact function of its seed and actions: a run that was killed in the middle of an episode
    resumes by resetting with the same seed and replaying the actions.
    """

    @property
    @abstractmethod
    def spec(self) -> EnvSpec:
        """Observation shape, action dimension and maximum episode length."""

    @abstractmethod
    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed in [0, 2³¹)."""

    @abstractmethod
    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Take an action in [-1, 1]; an episode that has ended must be reset first."""

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Coordinates of the body, in the environment's unit of length, without observation noise; always a new array.

        None where the environment does not tell them: then it is None at every moment, and otherwise at none, not even
        before the first reset.
        """
        return None

    def with_position(
        self, obs: Float[np.ndarray, " d"], position: Float[np.ndarray, " p"]
    ) -> Float[np.ndarray, " d"] | None:
        """An observation with the body at other coordinates; None where observations do not hold the position."""
        del obs, position
        return None

    @abstractmethod
    def close(self) -> None:
        """Free the resources of the environment."""


class RenderedEnv(NamedTuple):
    """An environment with a camera on it, for videos; its observations may be something else.

    ``render`` returns a frame of the current state; ``steps_per_second`` is in simulated time; ``task`` names the
    reward (None for none); ``renderer`` the graphics backend, such as egl; ``close`` frees environment and camera.
    """

    env: HostEnv
    render: Callable[[], UInt8[np.ndarray, "h w 3"]]
    steps_per_second: float
    task: str | None
    renderer: str
    close: Callable[[], None]


class EnvFamily(ABC):
    """All environments of one kind. ``env_id`` is an ID that the family owns, except in ``owns`` and ``hint``.

    ``task`` None means pre-training, where rewards are ignored; ``kwargs`` go to the environment's constructor;
    ``definition`` is the value that the method of this name returned when the run began.
    """

    name: ClassVar[str]

    @abstractmethod
    def owns(self, env_id: str) -> bool:
        """Whether an ID belongs to this family; ``make`` may still refuse it."""

    def hint(self, env_id: str) -> str | None:
        """A correction, as one sentence, for an ID that no family owns but that resembles one of this family."""
        del env_id
        return None

    @abstractmethod
    def describe(self) -> list[tuple[str, str]]:
        """IDs, or patterns of IDs, and a description of each: the rows of ``skillscape envs``."""

    @abstractmethod
    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> JaxEnv | HostEnv:
        """The environment, with the reward of a task."""

    @abstractmethod
    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The listed tasks, which benchmarks run through; ``task`` may accept others."""

    @abstractmethod
    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """The validated name of a task; None stands for the default task, or is refused where there is none."""

    @abstractmethod
    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """The benchmark whose presets apply."""

    def definition(self, env_id: str) -> dict[str, Any] | None:
        """What a run stores to rebuild the environment, see ``Definition``; by default None."""
        del env_id
        return None

    def layout(self, env_id: str, definition: Definition = None) -> Layout | None:
        """The maze geometry, where observations are positions to measure and plot; by default None."""
        del env_id, definition
        return None

    def goal_range(self, env_id: str) -> float | None:
        """R of zero-shot goals, which are uniform in [−R, R]^p around the start; by default None: the user says."""
        del env_id
        return None

    def source_folder(self, env_id: str) -> Path | None:
        """The run folder that the environment is built from, which no run in it may overwrite; by default None."""
        del env_id
        return None

    def folder_name(self, env_id: str) -> str:
        """The part of a run folder's name that stands for the environment: square_a, walker, Pendulum-v1."""
        return env_id.replace("/", "-")

    def rendered(
        self,
        env_id: str,
        task: str | None = None,
        *,
        size: int | None = None,
        shadows: bool = False,
        kwargs: Kwargs = NO_KWARGS,
        definition: Definition = None,
    ) -> RenderedEnv:
        """The environment with a camera on it; ``size``: width of a frame in pixels. Refused by default."""
        del task, size, shadows, kwargs, definition
        raise UserError(f"{env_id} cannot be rendered, so there are no videos of it: choose another environment.")


def refuse_kwargs(env_id: str, kwargs: Kwargs) -> None:
    """Refuse keyword arguments of an environment that takes none."""
    if kwargs:
        raise UserError(f"{env_id} takes no keyword arguments: leave {', '.join(kwargs)} out.")


def refuse_render_options(env_id: str, size: int | None, shadows: bool) -> None:
    """Refuse options of MuJoCo's renderer for an environment that renders itself."""
    for flag, given in (("--size", size is not None), ("--shadows", shadows)):
        if given:
            raise UserError(f"{env_id} renders itself, so its frames cannot be set up: leave {flag} out.")
