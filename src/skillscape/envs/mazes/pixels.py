"""Mazes from images: observations are uint8 [64, 64, 3]."""

from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from skillscape.envs import IMAGE_SHAPE
from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.hosted import HostedJaxEnv
from skillscape.envs.mazes.frames import MazePainter
from skillscape.envs.mazes.layouts import Cell, Layout
from skillscape.envs.mazes.maze import Maze
from skillscape.types import EnvSpec


@final
class MazePixels(HostEnv):
    """A maze from above: the steps and rewards of ``Maze``, drawn without a graphics library."""

    def __init__(self, layout: Layout, goal: Cell | None = None) -> None:
        self.layout = layout
        self._painter = MazePainter(layout)
        self._inner = HostedJaxEnv(Maze(layout, goal=goal))

    @property
    def spec(self) -> EnvSpec:
        """An image, two components of the step, and the layout's horizon."""
        return EnvSpec(IMAGE_SHAPE, 2, self.layout.horizon)

    @property
    def position(self) -> Float[np.ndarray, "2"]:
        """Where the agent is, which the image only shows: for measuring, not for learning."""
        return np.array(self._inner.state)

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed in the start cell."""
        return self._painter.paint(self._inner.reset(seed))

    def reset_for_evaluation(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Begin the episode of this seed at the fixed point that trajectories are measured from."""
        return self._painter.paint(self._inner.reset_for_evaluation(seed))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Move by the layout's largest step times the action."""
        step = self._inner.step(action)
        return step._replace(obs=self._painter.paint(step.obs))

    def close(self) -> None:
        """End the episode; nothing else is held."""
        self._inner.close()
