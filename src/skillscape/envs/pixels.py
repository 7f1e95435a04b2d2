"""Environments that are seen: observations are images, uint8 [64, 64, 3]."""

from typing import final

import numpy as np
from jaxtyping import Array, Float, UInt8

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.frames import IMAGE_SIDE
from skillscape.envs.layouts import Layout, load_layout
from skillscape.envs.maze_frames import MazePainter
from skillscape.envs.mazes import Maze, compiled
from skillscape.envs.urlb.camera import Camera, Look
from skillscape.envs.urlb.suite import ControlEnv, load_task
from skillscape.envs.urlb.tasks import domain_of
from skillscape.types import EnvSpec

IMAGE_SHAPE = (IMAGE_SIDE, IMAGE_SIDE, 3)
ACTION_REPEAT = 2
"""Control steps for which an action is held; the environment's own steps, and its horizon, count actions."""

CAMERAS: dict[str, int] = {"walker": 0, "quadruped": 2}
"""Which of the model's cameras looks on, by domain: from the side, moving with the body."""


@final
class MazePixels(HostEnv):
    """A maze seen from above: the steps of ``Maze``, drawn. No reward, no end but the time limit, no graphics card."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._painter = MazePainter(layout)
        self._functions = compiled(Maze(layout))
        self._position: Array | Float[np.ndarray, "2"] = np.zeros(2, np.float32)
        self._seed = 0
        self._steps = layout.horizon

    @property
    def spec(self) -> EnvSpec:
        """An image, two components of the step, and the layout's horizon."""
        return EnvSpec(IMAGE_SHAPE, 2, self.layout.horizon)

    @property
    def position(self) -> Float[np.ndarray, "2"]:
        """Where the agent is, which the image only shows: for measuring, not for learning."""
        return np.array(self._position)

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed in the start cell."""
        return self._begin(seed, self._functions.reset(seed))

    def reset_for_evaluation(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed at the fixed point that trajectories are measured from."""
        return self._begin(seed, np.array(self.layout.evaluation_start, np.float32))

    def _begin(self, seed: int, position: Array | Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "64 64 3"]:
        self._seed, self._steps, self._position = seed, 0, position
        return self._painter.paint(np.asarray(position))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Move by the layout's largest step times the action."""
        if self._steps >= self.layout.horizon:
            raise RuntimeError("The episode is over; call reset() first.")
        self._steps += 1
        self._position = self._functions.step(self._position, action, self._seed, self._steps)
        frame = self._painter.paint(np.asarray(self._position))
        return HostStep(frame, 0.0, terminated=False, truncated=self._steps == self.layout.horizon)

    def close(self) -> None:
        """Nothing is held."""
        self._steps = self.layout.horizon


@final
class ControlPixels(HostEnv):
    """A task of dm_control that is seen: every action is held for two control steps, their rewards are summed.

    ``look``: "fast", or "reference" for dm_control's own; both draw the same scene. A run keeps to one of them.
    """

    def __init__(self, inner: ControlEnv, camera: int, look: Look = "fast") -> None:
        self._inner = inner
        self._camera = Camera(inner.environment.physics, camera, look)
        self._frame = np.zeros(IMAGE_SHAPE, np.uint8)

    @property
    def inner(self) -> ControlEnv:
        """The task itself, for other cameras to look at."""
        return self._inner

    @property
    def spec(self) -> EnvSpec:
        """An image, the actions of the domain, and half its horizon."""
        inner = self._inner.spec
        return EnvSpec(IMAGE_SHAPE, inner.action_dim, inner.horizon // ACTION_REPEAT)

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed."""
        self._inner.reset(seed)
        self._frame = self._camera.frame()
        return self._frame.copy()

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Hold the action, then look."""
        reward = 0.0
        for _ in range(ACTION_REPEAT):
            step = self._inner.step(action)
            reward += step.reward
            if step.terminated or step.truncated:
                break
        # Physics that diverged cannot be drawn: what was seen last stands, as the state does without pixels.
        if not step.terminated:
            self._frame = self._camera.frame()
        return HostStep(self._frame.copy(), reward, step.terminated, step.truncated)

    def close(self) -> None:
        """Free the pictures and the physics."""
        self._camera.close()
        self._inner.close()


def make_control_pixels(task: str, look: Look = "fast") -> ControlPixels:
    """The task, such as "walker_walk", seen by its domain's camera."""
    inner = load_task(task)
    try:
        return ControlPixels(inner, CAMERAS[domain_of(task).name], look)
    except BaseException:
        inner.close()
        raise


def make_maze_pixels(name: str) -> MazePixels:
    """The maze that ``maze-pixels/<name>`` stands for: a built-in name or the path of a ``.txt`` file."""
    return MazePixels(load_layout(name))
