"""The point mazes, by position (``maze/NAME``) and from images (``maze-pixels/NAME``)."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import UInt8

from skillscape.envs.base import NO_ARGUMENTS, Arguments, Benchmark, Drawn, EnvFamily, refuse_arguments, refuse_wishes
from skillscape.envs.hosted import HostedJaxEnv
from skillscape.envs.mazes.frames import MazePainter, draw_path
from skillscape.envs.mazes.layouts import Cell, Layout, builtin_layouts, load_layout
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.pixels import MazePixels
from skillscape.envs.mazes.tasks import REACH, goal_of

STEPS_PER_SECOND = 10.0
SCALE = 6
"""How much larger than the observation a maze from images is drawn."""


class _MazeFamily(EnvFamily):
    """What both have in common: geometry and tasks."""

    name: ClassVar[Benchmark]

    @abstractmethod
    def _make(self, layout: Layout, goal: Cell | None) -> Maze | MazePixels:
        """A maze whose goal is rewarded."""

    @abstractmethod
    def _draw(self, layout: Layout, goal: Cell | None) -> Drawn:
        """The same, to be looked at."""

    def owns(self, env_id: str) -> bool:
        """Whether the name begins with that of the family."""
        return env_id.startswith(f"{self.name}/")

    def make(
        self,
        env_id: str,
        task: str | None = None,
        *,
        kwargs: Arguments = NO_ARGUMENTS,
        definition: Mapping[str, Any] | None = None,
    ) -> Maze | MazePixels:
        """A maze with the reward of a task, or with none."""
        refuse_arguments(env_id, kwargs)
        layout = self.layout(env_id, definition)
        return self._make(layout, None if task is None else goal_of(layout, task))

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The farthest cell; ``reach:ROW,COL`` stands for any other."""
        del env_id
        return (REACH,)

    def task(self, env_id: str, task: str | None, *, definition: Mapping[str, Any] | None = None) -> str:
        """The farthest cell if nothing else is said."""
        task = REACH if task is None else task
        goal_of(self.layout(env_id, definition), task)
        return task

    def benchmark(self, env_id: str, *, kwargs: Arguments = NO_ARGUMENTS) -> Benchmark:
        """The family's own."""
        del env_id, kwargs
        return self.name

    def definition(self, env_id: str) -> dict[str, Any]:
        """The layout."""
        return self.layout(env_id).to_json()

    def layout(self, env_id: str, definition: Mapping[str, Any] | None = None) -> Layout:
        """The layout that a run stored, or that of the name."""
        return load_layout(env_id.partition("/")[2]) if definition is None else Layout.from_json(definition)

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
        """The maze from above."""
        refuse_wishes(env_id, size, shadows)
        refuse_arguments(env_id, kwargs)
        layout = self.layout(env_id, definition)
        return self._draw(layout, None if task is None else goal_of(layout, task))._replace(task=task)


@final
class Mazes(_MazeFamily):
    """Mazes whose observation is the position."""

    name = "maze"

    def hint(self, env_id: str) -> str | None:
        """How to write a maze that lacks its prefix."""
        named = env_id.endswith(".txt") or env_id in builtin_layouts()
        if env_id.startswith("maze-") or not (named or env_id.startswith("maze")):
            return None
        pattern = env_id if named else "NAME or maze/PATH.txt"
        return f"There is no environment {env_id!r}: write maze/{pattern}; `skillscape envs` lists them."

    def describe(self) -> list[tuple[str, str]]:
        """Every built-in maze, and the user's own."""
        rows = []
        for name in builtin_layouts():
            layout = load_layout(name)
            size = f"{len(layout.cells)} cells, farthest {layout.farthest_distance} moves away"
            rows.append((f"maze/{name}", f"{layout.note} ({size})"))
        own = "Your own maze, drawn in characters: # solid cell, . free cell, S start."
        tasks = "Tasks of every maze: reach (the cell farthest from the start), reach:ROW,COL (counted from 0)."
        return [*rows, ("maze/PATH.txt", f"{own} {tasks}")]

    def folder_name(self, env_id: str) -> str:
        """The name of the maze, or of its file."""
        return Path(env_id).stem

    def _make(self, layout: Layout, goal: Cell | None) -> Maze:
        return Maze(layout, goal=goal)

    def _draw(self, layout: Layout, goal: Cell | None) -> Drawn:
        env = HostedJaxEnv(self._make(layout, goal))

        def draw() -> UInt8[np.ndarray, "256 256 3"]:
            return draw_path(layout, np.asarray(env.state)[None])

        return Drawn(env, draw, STEPS_PER_SECOND, None, "NumPy", env.close)


@final
class MazesFromPixels(_MazeFamily):
    """Mazes whose observation is an image."""

    name = "maze-pixels"

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all mazes."""
        text = "Any maze from above in images of 64 × 64, or maze-pixels/PATH.txt for your own drawing."
        return [("maze-pixels/NAME", text)]

    def folder_name(self, env_id: str) -> str:
        """The name of the maze, and that it is seen."""
        return f"{Path(env_id).stem}-pixels"

    def _make(self, layout: Layout, goal: Cell | None) -> MazePixels:
        return MazePixels(layout, goal)

    def _draw(self, layout: Layout, goal: Cell | None) -> Drawn:
        env, painter = self._make(layout, goal), MazePainter(layout)

        def draw() -> UInt8[np.ndarray, "384 384 3"]:
            return painter.paint(env.position).repeat(SCALE, axis=0).repeat(SCALE, axis=1)

        return Drawn(env, draw, STEPS_PER_SECOND, None, "NumPy", env.close)
