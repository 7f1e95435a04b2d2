"""The point mazes, observed by position (``maze/NAME``) and as images (``maze-pixels/NAME``)."""

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from skillscape.envs.base import (
    NO_KWARGS,
    Definition,
    EnvFamily,
    Kwargs,
    RenderedEnv,
    refuse_kwargs,
    refuse_render_options,
)
from skillscape.envs.host_adapter import HostJaxEnv
from skillscape.envs.mazes.layouts import Cell, Layout, builtin_layouts, load_layout
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.pixels import MazePixels
from skillscape.envs.mazes.render import draw_path
from skillscape.envs.mazes.tasks import REACH, goal_of
from skillscape.types import Benchmark

STEPS_PER_SECOND = 10.0


class _MazeFamily(EnvFamily):
    """Geometry, tasks and rendering, which do not depend on the observation."""

    name: ClassVar[Benchmark]

    @abstractmethod
    def _make(self, layout: Layout, goal: Cell | None) -> Maze | MazePixels:
        """A maze that rewards its goal cell."""

    def owns(self, env_id: str) -> bool:
        """Whether the ID begins with the name of the family."""
        return env_id.startswith(f"{self.name}/")

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> Maze | MazePixels:
        """The maze with the reward of a task, or without any."""
        refuse_kwargs(env_id, kwargs)
        layout = self.layout(env_id, definition)
        return self._make(layout, None if task is None else goal_of(layout, task))

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """Reaching the farthest cell; ``task`` also accepts ``reach:ROW,COL``."""
        del env_id
        return (REACH,)

    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """A task whose cell exists; by default, reaching the farthest cell."""
        task = REACH if task is None else task
        goal_of(self.layout(env_id, definition), task)
        return task

    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """The benchmark of the family's own name."""
        del env_id, kwargs
        return self.name

    def definition(self, env_id: str) -> dict[str, Any]:
        """The layout as JSON."""
        return self.layout(env_id).to_json()

    def layout(self, env_id: str, definition: Definition = None) -> Layout:
        """The layout that a run stored, or else the one that the ID names."""
        return load_layout(env_id.partition("/")[2]) if definition is None else Layout.from_json(definition)

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
        """The maze from above: its observation enlarged, or a drawing where it observes positions."""
        refuse_render_options(env_id, size, shadows)
        env = self.make(env_id, task, kwargs=kwargs, definition=definition)
        if isinstance(env, MazePixels):
            return RenderedEnv(env, env.render, STEPS_PER_SECOND, task, "NumPy", env.close)
        layout, host = env.layout, HostJaxEnv(env)
        return RenderedEnv(
            host, lambda: draw_path(layout, np.asarray(host.state)[None]), STEPS_PER_SECOND, task, "NumPy", host.close
        )


@final
class Mazes(_MazeFamily):
    """Mazes that observe the position."""

    name = "maze"

    def hint(self, env_id: str) -> str | None:
        """Adds the missing maze/ to the name of a maze."""
        named = env_id.endswith(".txt") or env_id in builtin_layouts()
        if env_id.startswith("maze-") or not (named or env_id.startswith("maze")):
            return None
        pattern = env_id if named else "NAME or maze/PATH.txt"
        return f"There is no environment {env_id!r}: write maze/{pattern}; `skillscape envs` lists them."

    def describe(self) -> list[tuple[str, str]]:
        """Every built-in maze, and the pattern for mazes of the user."""
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


@final
class MazesFromPixels(_MazeFamily):
    """Mazes that observe an image."""

    name = "maze-pixels"

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all mazes."""
        text = "Any maze, observed from above in images of 64 × 64; maze-pixels/PATH.txt for your own drawing."
        return [("maze-pixels/NAME", text)]

    def folder_name(self, env_id: str) -> str:
        """The name of the maze, or of its file, and a suffix."""
        return f"{Path(env_id).stem}-pixels"

    def _make(self, layout: Layout, goal: Cell | None) -> MazePixels:
        return MazePixels(layout, goal)
