"""Mazes with image observations, uint8 [64, 64, 3]."""

from typing import final

import numpy as np
from jaxtyping import Float, UInt8

from skillscape.envs import IMAGE_SHAPE
from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.host_adapter import HostJaxEnv
from skillscape.envs.mazes.layouts import Cell, Layout
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.render import MazeRenderer
from skillscape.types import EnvSpec

RENDER_SCALE = 6
"""How many times larger ``render`` shows the observation."""


@final
class MazePixels(HostEnv):
    """A maze from above: the dynamics and rewards of ``Maze``, rendered without a graphics library."""

    def __init__(self, layout: Layout, goal: Cell | None = None) -> None:
        self.layout = layout
        self._renderer = MazeRenderer(layout)
        self._inner = HostJaxEnv(Maze(layout, goal=goal))

    @property
    def spec(self) -> EnvSpec:
        """An image, two action components, and the layout's horizon."""
        return EnvSpec(IMAGE_SHAPE, 2, self.layout.horizon)

    @property
    def position(self) -> Float[np.ndarray, "2"] | None:
        """The agent's current position, which policies see in the image only."""
        return self._inner.position

    def reset(self, seed: int) -> UInt8[np.ndarray, "64 64 3"]:
        """Start the episode of a seed in the start cell."""
        return self._renderer.frame(self._inner.reset(seed))

    def step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        """Move by the layout's ``max_step`` times the action."""
        step = self._inner.step(action)
        return step._replace(obs=self._renderer.frame(step.obs))

    def render(self) -> UInt8[np.ndarray, "384 384 3"]:
        """The observation, enlarged."""
        return (
            self._renderer.frame(np.array(self._inner.state)).repeat(RENDER_SCALE, axis=0).repeat(RENDER_SCALE, axis=1)
        )

    def close(self) -> None:
        """End the episode; there is nothing else to free."""
        self._inner.close()
