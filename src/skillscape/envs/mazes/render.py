"""Mazes from above: 64 × 64 image observations, and larger drawings with the path of an episode.

The agent in an observation is a red disc with a soft edge. It is computed in integers from a position that is first
rounded to 1/32 of a pixel, so that NumPy and any JAX device give the same bits.
"""

from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError

MAX_CELLS_PER_SIDE = 20
"""Largest maze that 64 pixels can show: its walls are half as wide as a cell."""

SOLID, FREE, WALL, AGENT = (150, 150, 150), (255, 255, 255), (30, 30, 40), (225, 30, 35)
WALL_WIDTH = 1.5
"""Width of a wall in an observation, in pixels."""

_SUBPIXELS = 32
# In subpixels: the disc is opaque within the inner radius and fades to transparent at the outer one.
_OPAQUE_RADIUS, _RADIUS = 2 * _SUBPIXELS, 3 * _SUBPIXELS
_OPAQUE = _RADIUS**2 - _OPAQUE_RADIUS**2
"""The ``alpha`` of an opaque pixel; 0 is transparent."""
_PATCH = 2 * _RADIUS // _SUBPIXELS + 1
_BORDER = _RADIUS // _SUBPIXELS
_SAMPLES = 8
_COLOUR = np.array([[AGENT]], np.int32)
_CENTRES = _SUBPIXELS * np.arange(IMAGE_SIDE, dtype=np.int32) + _SUBPIXELS // 2


@final
@dataclass(frozen=True)
class MazeRenderer:
    """Renders positions in a maze as image observations: batches with JAX, or one at a time with NumPy, bit for bit."""

    layout: Layout

    def __post_init__(self) -> None:
        background(self.layout)  # refuses a maze that is too large

    def __call__(self, positions: Float[Array, "n 2"]) -> UInt8[Array, "n 64 64 3"]:
        """One image for each position, also inside compiled code."""
        frames: UInt8[Array, "n 64 64 3"] = render_maze(self.layout, positions)
        return frames

    def frame(self, position: Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "64 64 3"]:
        """The image of one position, in NumPy, which is the fastest way to render a single one."""
        empty, image, centre, scale = self._constants
        x, y = np.rint((position - centre) * scale).astype(np.int32).tolist()
        column, row = _SUBPIXELS * IMAGE_SIDE // 2 + x, _SUBPIXELS * IMAGE_SIDE // 2 - y
        # Only the few pixels that the disc can touch are computed.
        left, top = (min(max((at - _RADIUS) // _SUBPIXELS, 0), IMAGE_SIDE - _PATCH) for at in (column, row))
        columns, rows = slice(left, left + _PATCH), slice(top, top + _PATCH)
        squares = (_CENTRES[columns] - column) ** 2 + (_CENTRES[rows, None] - row) ** 2
        alpha = np.clip(_RADIUS**2 - squares, 0, _OPAQUE)[:, :, None]
        frame = image.copy()
        frame[rows, columns] = _blend(empty[rows, columns], alpha, _COLOUR)
        return frame

    @cached_property
    def _constants(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.float32]:
        empty = background(self.layout)
        return empty, empty.astype(np.uint8), *_viewport(self.layout)


@partial(jax.jit, static_argnums=0)
def render_maze(layout: Layout, positions: Float[Array, "n 2"]) -> UInt8[Array, "n 64 64 3"]:
    """One image for each position; compiled once per layout."""
    centre, scale = _viewport(layout)
    offset = jnp.round((positions - centre[None]) * scale).astype(jnp.int32)
    column, row = _SUBPIXELS * IMAGE_SIDE // 2 + offset[:, 0], _SUBPIXELS * IMAGE_SIDE // 2 - offset[:, 1]
    across, down = (_CENTRES[None] - column[:, None]) ** 2, (_CENTRES[None] - row[:, None]) ** 2
    alpha = jnp.clip(_RADIUS**2 - (across[:, None, :] + down[:, :, None]), 0, _OPAQUE)[..., None]
    frames: Int[Array, "n 64 64 3"] = _blend(jnp.asarray(background(layout))[None], alpha, _COLOUR[None])
    return frames.astype(jnp.uint8)


def _blend(under: Any, alpha: Any, over: Any) -> Any:  # noqa: ANN401  (arrays of NumPy or of JAX)
    """Alpha compositing in integers, rounded; ``alpha`` is in [0, ``_OPAQUE``]."""
    return (under * (_OPAQUE - alpha) + over * alpha + _OPAQUE // 2) // _OPAQUE


def _viewport(layout: Layout) -> tuple[Float[np.ndarray, "2"], np.float32]:
    """The position at the centre of the image, and the subpixels per cell."""
    low, high = layout.bounds
    pixels = (IMAGE_SIDE - 2 * _BORDER) / (high - low).max()
    return ((low + high) / 2).astype(np.float32), np.float32(_SUBPIXELS * pixels)


@cache
def background(layout: Layout) -> Int[np.ndarray, "64 64 3"]:
    """The image of a maze without the agent, in integers of [0, 255]."""
    if max(layout.grid_shape) > MAX_CELLS_PER_SIDE:
        width, height = layout.grid_shape
        raise UserError(
            f"The maze {layout.name} has {width} × {height} cells, too many for an image of {IMAGE_SIDE} × "
            f"{IMAGE_SIDE} pixels: draw one of at most {MAX_CELLS_PER_SIDE} on a side, or use maze/ without pixels."
        )
    centre, subpixels = _viewport(layout)
    scale = float(subpixels) / _SUBPIXELS
    samples = (np.arange(IMAGE_SIDE * _SAMPLES) + 0.5) / _SAMPLES - IMAGE_SIDE / 2
    points = _grid(centre, samples / scale)
    picture = np.where(layout.cell_index(points)[..., None] >= 0, FREE, SOLID)
    for wall in layout.walls:
        low, high = np.min(wall, axis=0), np.max(wall, axis=0)
        reach = WALL_WIDTH / 2 / scale
        picture[((points >= low - reach) & (points <= high + reach)).all(axis=-1)] = WALL
    blocks = picture.reshape(IMAGE_SIDE, _SAMPLES, IMAGE_SIDE, _SAMPLES, 3)
    image: Int[np.ndarray, "64 64 3"] = np.rint(blocks.mean(axis=(1, 3))).astype(np.int32)
    return image


def _grid(centre: Float[np.ndarray, "2"], offsets: Float[np.ndarray, " side"]) -> Float[np.ndarray, "side side 2"]:
    """The positions under the pixels of a square image, top row first."""
    return np.stack(np.meshgrid(centre[0] + offsets, centre[1] - offsets), axis=-1)


DRAWING_SIDE = 256
_LINE, _PATH = (0, 0, 0), (90, 140, 220)
_GROUND, _AGENT = (205, 205, 205), (220, 60, 50)


def draw_path(layout: Layout, path: Float[np.ndarray, "t 2"]) -> UInt8[np.ndarray, "256 256 3"]:
    """A maze of any size with a path of at least one position, and the agent at its end."""
    low, high = layout.bounds
    centre, scale = (low + high) / 2, (DRAWING_SIDE - 16) / (high - low).max()
    points = _grid(centre, (np.arange(DRAWING_SIDE) + 0.5 - DRAWING_SIDE / 2) / scale)
    image = np.where(layout.cell_index(points)[..., None] >= 0, FREE, _GROUND).astype(np.uint8)
    strokes = [(np.array(wall), _LINE, 1.5) for wall in layout.walls] + [(path, _PATH, 1.0), (path[-1:], _AGENT, 4.0)]
    for line, colour, radius in strokes:
        column, row = ((_interpolated(line) - centre) * (scale, -scale) + DRAWING_SIDE / 2).astype(int).T
        reach = range(-int(radius), int(radius) + 1)
        for right, down in ((right, down) for right in reach for down in reach if right**2 + down**2 <= radius**2):
            image[row + down, column + right] = colour
    return image


def _interpolated(line: Float[np.ndarray, "t 2"]) -> Float[np.ndarray, "m 2"]:
    """Points along a line, dense enough to leave no gap between their pixels."""
    lengths = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    along = np.linspace(0, lengths[-1], 1 + int(DRAWING_SIDE * lengths[-1]))
    return np.stack([np.interp(along, lengths, values) for values in line.T], axis=-1)
