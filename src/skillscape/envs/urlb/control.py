"""What the three domains share: bringing in dm_control late, the record they build, and the slope of their rewards."""

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float32

from skillscape.errors import UserError

BACKENDS = ("egl", "osmesa", "glfw")
"""What MuJoCo can draw with: a graphics card without a screen, the processor, a window."""

Read: TypeAlias = Callable[[], tuple[Float32[np.ndarray, " o"], float]]
"""The flat observation of the present physics state, a new array each time, and the reward for being there."""


class Simulation(NamedTuple):
    """A dm_control environment taken apart, so that a step need not go through its Python layers.

    ``environment`` resets itself; ``random`` is what it draws from, nothing else; a step of the agent is ``substeps``
    of physics; ``read`` looks at the state they led to. dm_control is untyped, hence the ``Any``.
    """

    environment: Any
    random: np.random.RandomState
    substeps: int
    read: Read


def load_module(name: str) -> Any:  # noqa: ANN401  (dm_control is untyped)
    """Import a module of dm_control, without its graphics unless ``MUJOCO_GL`` asks for them.

    dm_control and MuJoCo load an OpenGL library when they are first imported, whether or not anything is drawn; on a
    machine without one that takes seconds or fails. Both read ``MUJOCO_GL`` at that moment only, so it is set for that
    moment: processes started later, and other libraries that look at it, find what the user left there.
    """
    try:
        # A module of dm_control puts its own filter in front of everyone's.
        with _graphics_off_by_default(), warnings.catch_warnings():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).partition(".")[0]
        raise UserError(f'This environment needs {package}: run `pip install "skillscape[urlb]"`.') from error
    except Exception as error:
        wish = os.environ.get("MUJOCO_GL")
        if wish is None or "dm_control._render" in sys.modules:
            raise
        raise UserError(
            f"MuJoCo does not start with MUJOCO_GL={wish} ({error}): unset it to train from states, "
            f"or see with `skillscape doctor` what drawing needs."
        ) from error


@contextlib.contextmanager
def _graphics_off_by_default() -> Iterator[None]:
    if "MUJOCO_GL" in os.environ:
        yield
        return
    os.environ["MUJOCO_GL"] = "disable"
    try:
        yield
    finally:
        del os.environ["MUJOCO_GL"]


def rising(value: float, target: float, margin: float, at_margin: float) -> float:
    """1 from ``target`` on, below it a straight line through ``at_margin`` at ``target - margin``, never under 0.

    The same arithmetic, in the same order, as the linear ``tolerance`` of dm_control, hence the same bits.
    """
    if value >= target:
        return 1.0
    fall = (target - value) / margin * (1 - at_margin)
    return 1 - fall if fall < 1 else 0.0


_BELL = float(np.sqrt(-2 * np.log(0.1)))


def bell(distance: float) -> float:
    """1 at 0, 0.1 at a distance of 1, Gaussian in between and beyond; the default ``tolerance`` of dm_control."""
    # NumPy's own exponential, which may differ from the C library's in the last bit.
    return float(np.exp(-0.5 * (distance * _BELL) ** 2))
