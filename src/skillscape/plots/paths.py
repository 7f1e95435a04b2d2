"""Where the skills of a body go: x–y paths, or x over the steps of an episode. Nothing here imports jax."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from skillscape.plots.mazes import LEGEND, LEGEND_SKILLS, skill_handles
from skillscape.plots.style import grid_shape, new_figure, save, skill_colours, styled

PANEL_INCHES = 3.0
PAGE_DOTS_PER_INCH = 200


class PathPanel(NamedTuple):
    """Episodes of one set of skills, [k, r, t + 1, p] with NaN after the end of an episode, and its texts."""

    title: str
    positions: Float[np.ndarray, "k r t p"]
    caption: str


def draw_paths(axes: Axes, positions: Float[np.ndarray, "k r t p"]) -> None:
    """Every episode as a thin line in the colour of its skill: y over x, or x over the steps for p = 1."""
    skills, episodes, times, coordinates = positions.shape
    if coordinates == 1:
        steps = np.broadcast_to(np.arange(times)[:, None], positions.shape)
        positions = np.concatenate([steps, positions], axis=-1)
    # Episodes outermost: the skills alternate, so that the last skill does not cover all others.
    lines = positions[..., :2].swapaxes(0, 1).reshape(episodes * skills, times, 2)
    colours = np.tile(skill_colours(skills), (episodes, 1))
    axes.add_collection(LineCollection(list(lines), colors=list(colours), linewidths=0.8, alpha=0.8))
    axes.autoscale_view()
    axes.set_xlabel("steps" if coordinates == 1 else "x")
    axes.set_ylabel("x" if coordinates == 1 else "y")
    if coordinates > 1:
        axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def paths_figure(panels: Sequence[PathPanel]) -> Figure:
    """Panels side by side in rows of at most four, captions below; one legend for skills of the same number."""
    rows, columns = grid_shape(len(panels), 4)
    counts = {len(panel.positions) for panel in panels}
    with styled():
        figure = new_figure(columns * PANEL_INCHES + 0.2, rows * (PANEL_INCHES + 0.5) + 0.4)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            draw_paths(axes, panel.positions)
            axes.set_title(panel.title, pad=4)
            lines = [axes.get_xlabel(), *(panel.caption.split(" · ") if panel.caption else [])]
            axes.set_xlabel("\n".join(lines), fontsize=8.5)
        for axes in grid[len(panels) :]:
            axes.remove()
        if len(counts) == 1 and 1 < (skills := max(counts)) <= LEGEND_SKILLS:
            _, across = grid_shape(skills, 10 * columns)
            # Matplotlib fills a legend column by column; numbers should be read along the rows.
            handles = [handle for column in range(across) for handle in skill_handles(skills)[column::across]]
            figure.legend(handles=handles, loc="outside lower center", ncols=across, columnspacing=0.9, **LEGEND)
    return figure


def paths_png(panels: Sequence[PathPanel]) -> bytes:
    """``paths_figure`` as a PNG of moderate size, for a page."""
    file = io.BytesIO()
    with styled():
        paths_figure(panels).savefig(file, format="png", dpi=PAGE_DOTS_PER_INCH, facecolor="white")
    return file.getvalue()


def save_paths(panels: Sequence[PathPanel], path: Path) -> None:
    """Save ``paths_figure`` as a PNG."""
    with styled():
        save(paths_figure(panels), path)
