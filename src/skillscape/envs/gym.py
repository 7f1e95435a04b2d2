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

from skillscape.envs.layouts import Layout, builtin_layouts, load_layout
from skillscape.errors import UserError

NAMESPACE = "skillscape"
IMAGE_SIDE = 256

_SOLID, _FREE, _WALL, _PATH, _AGENT = (205, 205, 205), (255, 255, 255), (0, 0, 0), (90, 140, 220), (220, 60, 50)


class MazeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One maze under the Gymnasium interface; truncates at the maze's horizon and never terminates.

    ``maze``: a built-in name, the path of a ``.txt`` drawing, or a layout; ``back_off``: see ``Maze``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (the base's type)

    def __init__(
        self, maze: str | Layout = "square_a", render_mode: str | None = None, back_off: float | None = None
    ) -> None:
        from skillscape.envs.mazes import Maze, compiled

        self.layout = load_layout(maze) if isinstance(maze, str) else maze
        self.render_mode = render_mode
        low, high = self.layout.bounds.astype(np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
        self._reset, self._step, self._settle = compiled(Maze(self.layout, back_off))
        self._path: list[np.ndarray] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "2"], dict[str, Any]]:
        """Start an episode in the start cell, or at ``options["position"]`` if given."""
        super().reset(seed=seed)
        self._episode_seed = int(self.np_random.integers(2**31))
        if options and "position" in options:
            position = self._settle(self._check(options["position"]), self._episode_seed)
        else:
            position = self._reset(self._episode_seed)
        self._path = [np.array(position)]
        return self._path[-1].copy(), {}

    def step(self, action: Float[np.ndarray, "2"]) -> tuple[Float[np.ndarray, "2"], float, bool, bool, dict[str, Any]]:
        """Move by the layout's largest step times the action; the reward is always 0."""
        if not self._path:
            raise gymnasium.error.ResetNeeded("Call reset() before step().")
        steps = len(self._path)
        position = self._step(self._path[-1], np.asarray(action, dtype=np.float32), self._episode_seed, steps)
        self._path.append(np.array(position))
        return self._path[-1].copy(), 0.0, False, steps >= self.layout.horizon, {}

    def render(self) -> UInt8[np.ndarray, "256 256 3"] | None:
        """The maze from above, the path of this episode, and the agent; None without a render mode."""
        if self.render_mode is None:
            return None
        if not self._path:
            raise gymnasium.error.ResetNeeded("Call reset() before render().")
        return _draw(self.layout, np.array(self._path))

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


def _draw(layout: Layout, path: Float[np.ndarray, "t 2"]) -> UInt8[np.ndarray, "256 256 3"]:
    low, high = layout.bounds
    middle, scale = (low + high) / 2, (IMAGE_SIDE - 16) / (high - low).max()
    centres = (np.arange(IMAGE_SIDE) + 0.5 - IMAGE_SIDE / 2) / scale
    points = np.stack(np.meshgrid(middle[0] + centres, middle[1] - centres), axis=-1)
    image = np.where(layout.cell_index(points)[..., None] >= 0, _FREE, _SOLID).astype(np.uint8)
    strokes = [(np.array(wall), _WALL, 1.5) for wall in layout.walls] + [(path, _PATH, 1.0), (path[-1:], _AGENT, 4.0)]
    for line, colour, radius in strokes:
        column, row = ((_dense(line) - middle) * (scale, -scale) + IMAGE_SIDE / 2).astype(int).T
        for right, down in _disc(radius):
            image[row + down, column + right] = colour
    return image


def _dense(line: Float[np.ndarray, "t 2"]) -> Float[np.ndarray, "m 2"]:
    """Points along a line so near to each other that the pixels under them leave no gap."""
    lengths = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    along = np.linspace(0, lengths[-1], 1 + int(IMAGE_SIDE * lengths[-1]))
    return np.stack([np.interp(along, lengths, values) for values in line.T], axis=-1)


def _disc(radius: float) -> list[tuple[int, int]]:
    reach = range(-int(radius), int(radius) + 1)
    return [(right, down) for right in reach for down in reach if right**2 + down**2 <= radius**2]
