"""Frames of rollouts in a maze: dots that move over the walls and draw their trails."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from skillscape.envs.mazes.layouts import Layout
from skillscape.plots.mazes import draw_walls

DEFAULT_SIZE = 480
STEPS_PER_SECOND = 10
FRAMES_PER_STEP = 3

_DOTS_PER_INCH = 128  # a power of two: inches times this gives whole pixels again, exactly


def maze_frames(
    positions: Float[np.ndarray, "r t 2"],
    layout: Layout,
    colour: Float[np.ndarray, "4"],
    size: int = DEFAULT_SIZE,
) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """All rollouts [r, t + 1, 2] of a skill at once, ``FRAMES_PER_STEP`` frames a step, straight between positions.

    ``size``: pixels of the maze's longer side, even.
    """
    positions = np.asarray(positions, dtype=np.float64)
    figure = Figure(figsize=_inches(layout, size), dpi=_DOTS_PER_INCH, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_walls(axes, layout)
    trails = LineCollection([], colors=[tuple(colour)], linewidths=1.0, alpha=0.5)
    axes.add_collection(trails)
    start_x, start_y = positions[0, 0]
    start = axes.scatter(start_x, start_y, s=40, c="black", edgecolors="white", linewidths=0.7)
    heads = axes.scatter([], [], s=34, color=[tuple(colour)], edgecolors="white", linewidths=0.7)
    moving = (trails, *axes.collections[:1], start, heads)  # in this order; the first collection is the walls
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    empty = canvas.copy_from_bbox(figure.bbox)
    for time in np.arange((positions.shape[1] - 1) * FRAMES_PER_STEP + 1) / FRAMES_PER_STEP:
        step, fraction = int(time), time % 1
        after = positions[:, min(step + 1, positions.shape[1] - 1)]
        here = (1 - fraction) * positions[:, step] + fraction * after
        trails.set_segments([*np.concatenate([positions[:, : step + 1], here[:, None]], axis=1)])
        heads.set_offsets(here)
        canvas.restore_region(empty)
        for artist in moving:
            axes.draw_artist(artist)
        yield np.array(canvas.buffer_rgba())[..., :3]


def _inches(layout: Layout, size: int) -> tuple[float, float]:
    """Width and height of a figure in which the maze's longer side has ``size`` pixels and both are even."""
    low, high = layout.bounds
    sides = np.asarray(high - low, float)
    pixels = 2 * np.ceil(size * sides / sides.max() / 2)
    return float(pixels[0]) / _DOTS_PER_INCH, float(pixels[1]) / _DOTS_PER_INCH
