"""The mazes as Gymnasium environments, for training code that is not part of this library.

Importing this module registers ``skillscape/<name>-v0`` for every built-in maze, or Gymnasium does it by itself::

    gymnasium.make("skillscape.envs.gym:skillscape/square_a-v0")

JAX loads with the first maze that is made, not with the module, so that looking into the registry stays cheap.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import registry
from jaxtyping import Float, UInt8

from skillscape.envs.mazes.layouts import Layout, builtin_layouts, load_layout
from skillscape.envs.mazes.tasks import goal_of
from skillscape.errors import UserError

NAMESPACE = "skillscape"


class MazeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One maze under the Gymnasium interface; truncates at the maze's horizon and never terminates.

    ``maze``: a built-in name, the path of a ``.txt`` drawing, or a layout; ``back_off``: see ``Maze``; ``task``:
    "reach" or "reach:ROW,COL", see ``tasks.goal_of``; without one all rewards are 0.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (the base's type)

    def __init__(
        self,
        maze: str | Layout = "square_a",
        render_mode: str | None = None,
        back_off: float | None = None,
        task: str | None = None,
    ) -> None:
        from skillscape.envs.hosted import HostedJaxEnv
        from skillscape.envs.mazes.maze import Maze

        self.layout = load_layout(maze) if isinstance(maze, str) else maze
        self.render_mode = render_mode
        low, high = self.layout.bounds.astype(np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self._maze = Maze(self.layout, back_off, None if task is None else goal_of(self.layout, task))
        self._inner = HostedJaxEnv(self._maze)
        self._path: list[np.ndarray] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "2"], dict[str, Any]]:
        """Start an episode in the start cell, or at ``options["position"]`` if given."""
        from skillscape.envs.mazes.maze import settle

        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**31))
        if options and "position" in options:
            start = settle(self._maze, self._check(options["position"]), episode)
            self._path = [self._inner.reset_to(start, episode)]
        else:
            self._path = [self._inner.reset(episode)]
        return self._path[-1].copy(), {}

    def step(self, action: Float[np.ndarray, "2"]) -> tuple[Float[np.ndarray, "2"], float, bool, bool, dict[str, Any]]:
        """Move by the layout's largest step times the action."""
        if not 0 < len(self._path) <= self.layout.horizon:
            raise gymnasium.error.ResetNeeded("Call reset() before step().")
        step = self._inner.step(np.asarray(action, dtype=np.float32))
        self._path.append(step.obs)
        return step.obs.copy(), step.reward, step.terminated, step.truncated, {}

    def render(self) -> UInt8[np.ndarray, "256 256 3"] | None:
        """The maze from above, the path of this episode, and the agent; None without a render mode."""
        if self.render_mode is None:
            return None
        if not self._path:
            raise gymnasium.error.ResetNeeded("Call reset() before render().")
        from skillscape.envs.mazes.frames import draw_path

        return draw_path(self.layout, np.array(self._path))

    def _check(self, position: Any) -> Float[np.ndarray, "2"]:  # noqa: ANN401  (whatever the caller put there)
        try:
            point = np.asarray(position, dtype=np.float64)
        except (TypeError, ValueError):
            point = np.empty(0)
        if point.shape != (2,) or self.layout.cell_index(point) < 0:
            name = self.layout.name
            raise UserError(f"The position {position!r} is not in the maze {name}; give [x, y] in a free cell.")
        return point.astype(np.float32)


def register() -> None:
    """Register every built-in maze with Gymnasium as ``skillscape/<name>-v0``; doing so again changes nothing."""
    for name in builtin_layouts():
        identifier = f"{NAMESPACE}/{name}-v0"
        if identifier not in registry:
            # MazeEnv counts its steps itself, so max_episode_steps stays unset and no TimeLimit counts them again.
            gymnasium.register(identifier, entry_point="skillscape.envs.gym:MazeEnv", kwargs={"maze": name})
