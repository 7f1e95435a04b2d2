"""Environments of this library under Gymnasium's interface, for training code that is not part of it.

``skillscape.make`` exports any environment. The built-in mazes are also registered, as ``skillscape/<name>-v0``, when
``skillscape`` is imported, which Gymnasium does by itself for::

    gymnasium.make("skillscape.envs.gymnasium_export:skillscape/square_a-v0")

Importing this module does not import JAX; making an environment does.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

import gymnasium
import numpy as np
from gymnasium.envs.registration import registry
from jaxtyping import Float, Shaped, UInt8

from skillscape.envs.gymnasium_modules import trust
from skillscape.envs.mazes.layouts import Layout, builtin_layouts, load_layout
from skillscape.envs.mazes.tasks import goal_of
from skillscape.errors import UserError

if TYPE_CHECKING:
    from skillscape.envs.base import HostEnv


@final
class ExportedEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A ``HostEnv`` as a Gymnasium environment: actions in [-1, 1], observations as our policies take them."""

    def __init__(self, inner: "HostEnv") -> None:
        self._inner = inner
        spec = inner.spec
        low, high, dtype = (0, 255, np.uint8) if spec.is_image else (-np.inf, np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, spec.obs_shape, dtype)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Shaped[np.ndarray, "..."], dict[str, Any]]:
        """Start the episode of a seed; None draws a seed from the generator that the last one initialised."""
        super().reset(seed=seed, options=options)
        return self._inner.reset(int(self.np_random.integers(2**31)) if seed is None else seed), {}

    def step(
        self, action: Float[np.ndarray, " a"]
    ) -> tuple[Shaped[np.ndarray, "..."], float, bool, bool, dict[str, Any]]:
        """Take an action in [-1, 1]."""
        return *self._inner.step(np.asarray(action, np.float32)), {}

    def close(self) -> None:
        """Free the resources of the environment."""
        self._inner.close()


def make(
    env_id: str, task: str | None = None, *, noise: float = 0.0, kwargs: Mapping[str, Any] | None = None
) -> ExportedEnv:
    """The environment of an ID, such as "walker", with the reward of a task, as a Gymnasium environment."""
    from skillscape.envs.registry import host_env

    trust(env_id)
    return ExportedEnv(host_env(env_id, task, noise=noise, kwargs=kwargs or {}))


@final
class MazeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A maze as a Gymnasium environment; truncates at the maze's horizon and never terminates.

    ``maze``: a built-in name, the path of a ``.txt`` drawing, or a layout; ``back_off``: see ``Maze``; ``task``:
    "reach" or "reach:ROW,COL", see ``tasks.goal_of``; without a task all rewards are 0.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (the base's type)

    def __init__(
        self,
        maze: str | Layout = "square_a",
        render_mode: str | None = None,
        back_off: float | None = None,
        task: str | None = None,
    ) -> None:
        from skillscape.envs.host_adapter import HostJaxEnv
        from skillscape.envs.mazes.maze import Maze

        self.layout = load_layout(maze) if isinstance(maze, str) else maze
        self.render_mode = render_mode
        low, high = self.layout.bounds.astype(np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self._maze = Maze(self.layout, back_off, None if task is None else goal_of(self.layout, task))
        self._inner = HostJaxEnv(self._maze)
        self._path: list[np.ndarray] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "2"], dict[str, Any]]:
        """Start an episode in the start cell, or at ``options["position"]``."""
        from skillscape.envs.mazes.maze import settle

        super().reset(seed=seed)
        episode = int(self.np_random.integers(2**31))
        if options and "position" in options:
            start = settle(self._maze, self._free_position(options["position"]), episode)
            self._path = [self._inner.reset_to(start, episode)]
        else:
            self._path = [self._inner.reset(episode)]
        return self._path[-1].copy(), {}

    def step(self, action: Float[np.ndarray, "2"]) -> tuple[Float[np.ndarray, "2"], float, bool, bool, dict[str, Any]]:
        """Move by the layout's ``max_step`` times the action."""
        if not 0 < len(self._path) <= self.layout.horizon:
            raise gymnasium.error.ResetNeeded("Call reset() before step().")
        step = self._inner.step(np.asarray(action, dtype=np.float32))
        self._path.append(step.obs)
        return step.obs.copy(), step.reward, step.terminated, step.truncated, {}

    def render(self) -> UInt8[np.ndarray, "256 256 3"] | None:
        """The maze from above, with the agent and its path in this episode; None without a render mode."""
        if self.render_mode is None:
            return None
        if not self._path:
            raise gymnasium.error.ResetNeeded("Call reset() before render().")
        from skillscape.envs.mazes.render import draw_path

        return draw_path(self.layout, np.array(self._path))

    def _free_position(self, position: Any) -> Float[np.ndarray, "2"]:  # noqa: ANN401  (unchecked user input)
        try:
            point = np.asarray(position, dtype=np.float64)
        except (TypeError, ValueError):
            point = np.empty(0)
        if point.shape != (2,) or self.layout.cell_index(point) < 0:
            name = self.layout.name
            raise UserError(f"The position {position!r} is not in the maze {name}; give [x, y] in a free cell.")
        return point.astype(np.float32)


def register() -> None:
    """Register every built-in maze with Gymnasium as ``skillscape/<name>-v0``; repeated calls have no effect."""
    for name in builtin_layouts():
        identifier = f"skillscape/{name}-v0"
        if identifier not in registry:
            # MazeEnv truncates by itself, so max_episode_steps stays unset and no TimeLimit wrapper is added.
            gymnasium.register(
                identifier, entry_point="skillscape.envs.gymnasium_export:MazeEnv", kwargs={"maze": name}
            )
