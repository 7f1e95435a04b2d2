"""Video frames of rollouts in a maze: moving dots with trails."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from skillscape.envs.mazes.layouts import Layout
from skillscape.plots.mazes import draw_walls
from skillscape.plots.style import EXACT_DOTS_PER_INCH

DEFAULT_SIZE = 480
STEPS_PER_SECOND = 10
FRAMES_PER_STEP = 3


def maze_frames(
    positions: Float[np.ndarray, "r t 2"], layout: Layout, colour: Float[np.ndarray, "4"], size: int = DEFAULT_SIZE
) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """All rollouts [r, t + 1, 2] of a skill in parallel, ``FRAMES_PER_STEP`` linearly interpolated frames per step.

    ``size``: pixels of the maze's longer side, even.
    """
    positions = np.asarray(positions, dtype=np.float64)
    sides = np.asarray(layout.bounds[1] - layout.bounds[0], float)
    width, height = 2 * np.ceil(size * sides / sides.max() / 2) / EXACT_DOTS_PER_INCH  # both even in pixels
    figure = Figure(figsize=(float(width), float(height)), dpi=EXACT_DOTS_PER_INCH, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_walls(axes, layout)
    trails = LineCollection([], colors=[tuple(colour)], linewidths=1.0, alpha=0.5)
    axes.add_collection(trails)
    start_x, start_y = positions[0, 0]
    start = axes.scatter(start_x, start_y, s=40, c="black", edgecolors="white", linewidths=0.7)
    heads = axes.scatter([], [], s=34, color=[tuple(colour)], edgecolors="white", linewidths=0.7)
    moving = (trails, *axes.collections[:1], start, heads)  # in drawing order; the first collection is the walls
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
