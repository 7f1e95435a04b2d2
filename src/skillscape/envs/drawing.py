"""Host environments that can be looked at while they are played."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from skillscape.envs.base import HostEnv
from skillscape.envs.host import MAZE_PREFIX, OWN_PREFIX, make_host
from skillscape.errors import UserError

DEFAULT_WIDTH = 320
MAZE_STEPS_PER_SECOND = 10.0
_MAZE_SCALE = 6


class Drawn(NamedTuple):
    """An environment that is looked at, from outside: what it is shown may be something else.

    ``draw`` takes a picture of its present state; ``steps_per_second`` of its own time; ``task``: whose rewards it
    gives, None for none; ``drawn_by``: egl, osmesa, glfw, or what else takes the pictures; ``close`` ends all of it.
    """

    env: HostEnv
    draw: Callable[[], UInt8[np.ndarray, "h w 3"]]
    steps_per_second: float
    task: str | None
    drawn_by: str
    close: Callable[[], None]


def check_drawable(env: str, *, size: int | None, shadows: bool) -> None:
    """Refuse wishes about pictures that an environment does not take."""
    if not env.startswith((OWN_PREFIX, MAZE_PREFIX)):
        return
    if size is not None:
        raise UserError(f"{env} draws itself and decides how large; leave --size out.")
    if shadows:
        raise UserError(f"{env} draws itself; leave --shadows out.")


def make_drawn(env: str, task: str | None, *, size: int | None = None, shadows: bool = False) -> Drawn:
    """The environment of this name, set to a task, ready to be drawn; see ``make_host``.

    ``size``: width in pixels of a 4:3 picture of walker, quadruped or jaco; the others have their own size.
    """
    check_drawable(env, size=size, shadows=shadows)
    if env.startswith(OWN_PREFIX):
        return _draw_own(env)
    if env.startswith(MAZE_PREFIX):
        return _draw_maze(env)
    return _draw_control(env, task, DEFAULT_WIDTH if size is None else size, shadows)


def _draw_own(env: str) -> Drawn:
    from skillscape.envs.own import make_own

    own = make_own(env.removeprefix(OWN_PREFIX), drawn=True)
    return Drawn(own, own.draw, own.steps_per_second, env, "its own render()", own.close)


def _draw_maze(env: str) -> Drawn:
    from skillscape.envs.maze_frames import MazePainter
    from skillscape.envs.pixels import make_maze_pixels

    maze = make_maze_pixels(env.removeprefix(MAZE_PREFIX))
    painter = MazePainter(maze.layout)

    def draw() -> UInt8[np.ndarray, "h w 3"]:
        return painter.paint(maze.position).repeat(_MAZE_SCALE, axis=0).repeat(_MAZE_SCALE, axis=1)

    return Drawn(maze, draw, MAZE_STEPS_PER_SECOND, None, "NumPy", maze.close)


def _draw_control(env: str, task: str | None, width: int, shadows: bool) -> Drawn:
    from skillscape.envs.pixels import ACTION_REPEAT, CAMERAS, ControlPixels
    from skillscape.envs.urlb.camera import Camera, View, rendering_backend
    from skillscape.envs.urlb.suite import ControlEnv

    made = make_host(env, task)
    inner = made.inner if isinstance(made, ControlPixels) else made
    if not isinstance(inner, ControlEnv):
        raise TypeError(f"{env} is not drawn by MuJoCo.")
    # The benchmark's camera of jaco, close in front of the brick, loses the arm when it rises.
    whole_arm = View((0.0, 0.1, 0.55), 1.85, 120.0, -22.0)
    try:
        camera = Camera(
            inner.environment.physics,
            CAMERAS.get(inner.domain.name, whole_arm),
            "reference" if shadows else "fast",
            width=width,
            height=2 * round(3 * width / 8),
        )
    except BaseException:
        made.close()
        raise

    def close() -> None:
        camera.close()
        made.close()

    held = ACTION_REPEAT if isinstance(made, ControlPixels) else 1
    rate = 1 / (held * inner.environment.control_timestep())
    return Drawn(made, camera.frame, rate, task or inner.domain.primal_task, rendering_backend(), close)
