"""Mazes from above: images of 64 × 64 to learn from, and larger ones with the path of an episode to look at.

Both show walls and free cells. The agent in an observation is a red disc with a soft edge, computed in whole numbers
from a position that is first rounded to 1/32 of a pixel, so that it is the same to the last bit on the host and on any
device.
"""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError

LARGEST_SIDE = 20
"""Cells along a side that 64 pixels can still show: a wall then is half as wide as a cell."""

SOLID, FREE, WALL, AGENT = (150, 150, 150), (255, 255, 255), (30, 30, 40), (225, 30, 35)
WALL_WIDTH = 1.5

_SUBPIXELS = 32
_SOLID_RADIUS, _RADIUS = 2 * _SUBPIXELS, 3 * _SUBPIXELS
"""The disc covers all of the inner radius and fades to nothing at the outer one."""
_EDGE = _RADIUS**2 - _SOLID_RADIUS**2
_PATCH = 2 * _RADIUS // _SUBPIXELS + 1
_BORDER = _RADIUS // _SUBPIXELS
_SAMPLES = 8
_COLOUR = np.array([[AGENT]], np.int32)
_CENTRES = _SUBPIXELS * np.arange(IMAGE_SIDE, dtype=np.int32) + _SUBPIXELS // 2


@final
class MazePainter:
    """Draws one position of a maze at a time, fast, without a device."""

    def __init__(self, layout: Layout) -> None:
        self._background = background(layout)
        self._middle, self._scale = _view(layout)
        self._copied = self._background.astype(np.uint8)

    def paint(self, position: Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "64 64 3"]:
        """The maze with the agent at ``position``."""
        x, y = np.rint((position - self._middle) * self._scale).astype(np.int32).tolist()
        column, row = _SUBPIXELS * IMAGE_SIDE // 2 + x, _SUBPIXELS * IMAGE_SIDE // 2 - y
        # The few pixels that the disc can touch.
        left, top = (min(max((at - _RADIUS) // _SUBPIXELS, 0), IMAGE_SIDE - _PATCH) for at in (column, row))
        columns, rows = slice(left, left + _PATCH), slice(top, top + _PATCH)
        squares = (_CENTRES[columns] - column) ** 2 + (_CENTRES[rows, None] - row) ** 2
        cover = np.clip(_RADIUS**2 - squares, 0, _EDGE)[:, :, None]
        frame = self._copied.copy()
        frame[rows, columns] = _blend(self._background[rows, columns], cover, _COLOUR)
        return frame


@partial(jax.jit, static_argnums=0)
def render_maze(layout: Layout, positions: Float[Array, "n 2"]) -> UInt8[Array, "n 64 64 3"]:
    """A frame for each position; the layout is fixed when the function is compiled."""
    middle, scale = _view(layout)
    offset = jnp.round((positions - middle[None]) * scale).astype(jnp.int32)
    column, row = _SUBPIXELS * IMAGE_SIDE // 2 + offset[:, 0], _SUBPIXELS * IMAGE_SIDE // 2 - offset[:, 1]
    across, down = (_CENTRES[None] - column[:, None]) ** 2, (_CENTRES[None] - row[:, None]) ** 2
    cover = jnp.clip(_RADIUS**2 - (across[:, None, :] + down[:, :, None]), 0, _EDGE)[..., None]
    frames: Int[Array, "n 64 64 3"] = _blend(jnp.asarray(background(layout))[None], cover, _COLOUR[None])
    return frames.astype(jnp.uint8)


def _blend(under: Any, cover: Any, over: Any) -> Any:  # noqa: ANN401  (arrays of NumPy or of JAX)
    """``cover`` of ``_EDGE`` parts of the one colour over the other, rounded."""
    return (under * (_EDGE - cover) + over * cover + _EDGE // 2) // _EDGE


def _view(layout: Layout) -> tuple[Float[np.ndarray, "2"], np.float32]:
    """The point in the middle of the image, and how many parts of a pixel a cell is wide."""
    low, high = layout.bounds
    pixels = (IMAGE_SIDE - 2 * _BORDER) / (high - low).max()
    return ((low + high) / 2).astype(np.float32), np.float32(_SUBPIXELS * pixels)


@cache
def background(layout: Layout) -> Int[np.ndarray, "64 64 3"]:
    """The maze without the agent, in whole numbers of [0, 255]; made once for each maze."""
    if max(layout.grid_shape) > LARGEST_SIDE:
        width, height = layout.grid_shape
        raise UserError(
            f"The maze {layout.name} has {width} × {height} cells, too many for an image of {IMAGE_SIDE} × "
            f"{IMAGE_SIDE} pixels: draw one of at most {LARGEST_SIDE} on a side, or use maze/ without pixels."
        )
    middle, parts = _view(layout)
    scale = float(parts) / _SUBPIXELS
    samples = (np.arange(IMAGE_SIDE * _SAMPLES) + 0.5) / _SAMPLES - IMAGE_SIDE / 2
    points = _points(middle, samples / scale)
    picture = np.where(layout.cell_index(points)[..., None] >= 0, FREE, SOLID)
    for wall in layout.walls:
        low, high = np.min(wall, axis=0), np.max(wall, axis=0)
        reach = WALL_WIDTH / 2 / scale
        picture[((points >= low - reach) & (points <= high + reach)).all(axis=-1)] = WALL
    blocks = picture.reshape(IMAGE_SIDE, _SAMPLES, IMAGE_SIDE, _SAMPLES, 3)
    found: Int[np.ndarray, "64 64 3"] = np.rint(blocks.mean(axis=(1, 3))).astype(np.int32)
    return found


def _points(middle: Float[np.ndarray, "2"], along: Float[np.ndarray, " side"]) -> Float[np.ndarray, "side side 2"]:
    """The points under the pixels of a square picture, the upper row first."""
    return np.stack(np.meshgrid(middle[0] + along, middle[1] - along), axis=-1)


@dataclass(frozen=True)
class Sight:
    """What is seen of positions in a maze: ``render_maze`` of one layout, equal where the layouts are."""

    layout: Layout

    def __call__(self, positions: Float[Array, "n 2"]) -> UInt8[Array, "n 64 64 3"]:
        """One image for each position."""
        frames: UInt8[Array, "n 64 64 3"] = render_maze(self.layout, positions)
        return frames


DRAWN_SIDE = 256
_LINE, _PATH = (0, 0, 0), (90, 140, 220)
_GROUND, _AGENT = (205, 205, 205), (220, 60, 50)


def draw_path(layout: Layout, path: Float[np.ndarray, "t 2"]) -> UInt8[np.ndarray, "256 256 3"]:
    """A maze of any size with a path of at least one position through it, and the agent at its end."""
    low, high = layout.bounds
    middle, scale = (low + high) / 2, (DRAWN_SIDE - 16) / (high - low).max()
    points = _points(middle, (np.arange(DRAWN_SIDE) + 0.5 - DRAWN_SIDE / 2) / scale)
    image = np.where(layout.cell_index(points)[..., None] >= 0, FREE, _GROUND).astype(np.uint8)
    strokes = [(np.array(wall), _LINE, 1.5) for wall in layout.walls] + [(path, _PATH, 1.0), (path[-1:], _AGENT, 4.0)]
    for line, colour, radius in strokes:
        column, row = ((_dense(line) - middle) * (scale, -scale) + DRAWN_SIDE / 2).astype(int).T
        for right, down in _disc(radius):
            image[row + down, column + right] = colour
    return image


def _dense(line: Float[np.ndarray, "t 2"]) -> Float[np.ndarray, "m 2"]:
    """Points along a line so near to each other that the pixels under them leave no gap."""
    lengths = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    along = np.linspace(0, lengths[-1], 1 + int(DRAWN_SIDE * lengths[-1]))
    return np.stack([np.interp(along, lengths, values) for values in line.T], axis=-1)


def _disc(radius: float) -> list[tuple[int, int]]:
    reach = range(-int(radius), int(radius) + 1)
    return [(right, down) for right in reach for down in reach if right**2 + down**2 <= radius**2]
