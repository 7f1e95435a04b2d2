"""Shared by the three domains: late import of dm_control, the record of a task, and dm_control's ``tolerance``."""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from skillscape.errors import UserError

BACKENDS = ("egl", "osmesa", "glfw")
"""MuJoCo's OpenGL backends: a graphics card without a screen, the processor, a window."""


class ControlTask(NamedTuple):
    """A dm_control environment, with direct access to its physics so that a step can bypass dm_control's Python layers.

    ``environment`` is used for resets; ``random`` is its only source of randomness; a control step is ``substeps`` of
    physics; ``observe`` returns the flat observation of the current state, a new array, and its reward; ``position``
    returns the coordinates of the body, a new array, None where it stays in its place.
    """

    environment: Any  # dm_control is untyped
    random: np.random.RandomState
    substeps: int
    observe: Callable[[], tuple[Float32[np.ndarray, " o"], float]]
    position: Callable[[], Float[np.ndarray, " p"]] | None = None


def load_module(name: str) -> Any:  # noqa: ANN401  (dm_control is untyped)
    """Import a module of dm_control, without its graphics unless ``MUJOCO_GL`` asks for them.

    dm_control and MuJoCo load an OpenGL library when they are first imported, even if nothing is rendered; on a machine
    without one that takes seconds or fails. Both read ``MUJOCO_GL`` at that moment only, so it is set for that moment.
    """
    choice = os.environ.get("MUJOCO_GL")
    try:
        # A module of dm_control puts its own filter in front of everyone's.
        with mujoco_gl("disable") if choice is None else contextlib.nullcontext(), warnings.catch_warnings():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).partition(".")[0]
        raise UserError(f'This environment needs {package}: run `pip install "skillscape[urlb]"`.') from error
    except Exception as error:
        if choice is None or "dm_control._render" in sys.modules:
            raise
        raise UserError(
            f"MuJoCo does not start with MUJOCO_GL={choice} ({error}): unset it to train from states, "
            f"or check the renderers with `skillscape doctor`."
        ) from error


@contextlib.contextmanager
def mujoco_gl(backend: str) -> Iterator[None]:
    """Set ``MUJOCO_GL``, and afterwards restore it and MuJoCo's ``PYOPENGL_PLATFORM`` for processes started later."""
    before = {name: os.environ.get(name) for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    os.environ["MUJOCO_GL"] = backend
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def with_reward(task_class: Any, reward: Callable[[], float]) -> Any:  # noqa: ANN401  (dm_control is untyped)
    """A class of dm_control tasks with another reward function."""
    return type(task_class.__name__, (task_class,), {"get_reward": lambda _self, _physics: reward()})


def sensor_indices(model: Any, sensors: Iterable[int]) -> Int[np.ndarray, " i"]:  # noqa: ANN401  (dm_control is untyped)
    """Indices into MuJoCo's ``sensordata`` of all readings of some sensors."""
    return np.concatenate([model.sensor_adr[sensor] + np.arange(model.sensor_dim[sensor]) for sensor in sensors])


def linear_tolerance(value: float, bound: float, margin: float, value_at_margin: float) -> float:
    """1 from ``bound`` on; below it linear through ``value_at_margin`` at ``bound - margin``, clipped at 0.

    The arithmetic of dm_control's ``tolerance`` with the linear sigmoid, in the same order, hence the same bits.
    """
    if value >= bound:
        return 1.0
    decrease = (bound - value) / margin * (1 - value_at_margin)
    return 1 - decrease if decrease < 1 else 0.0


_GAUSSIAN_SCALE = float(np.sqrt(-2 * np.log(0.1)))


def gaussian_tolerance(distance: float) -> float:
    """A Gaussian with value 1 at 0 and 0.1 at a distance of 1: dm_control's ``tolerance`` with the default sigmoid."""
    # NumPy's own exponential, which may differ from the C library's in the last bit.
    return float(np.exp(-0.5 * (distance * _GAUSSIAN_SCALE) ** 2))
