"""Zero-shot goal reaching: goals, whether they were reached, and where the episodes ended. Nothing here imports jax."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from skillscape.envs.mazes.layouts import Layout
from skillscape.plots.mazes import draw_walls
from skillscape.plots.style import METHOD_COLOURS, grid_shape, new_figure, save, styled

PANEL_INCHES = 3.2
REACHED, MISSED = METHOD_COLOURS[2], METHOD_COLOURS[1]


class GoalPanel(NamedTuple):
    """The episodes of one mode: start, goal and last position of each, and whether it came near enough to its goal."""

    title: str
    starts: Float[np.ndarray, "n p"]
    goals: Float[np.ndarray, "n p"]
    final: Float[np.ndarray, "n p"]
    reached: Bool[np.ndarray, " n"]
    caption: str


def goals_figure(panels: Sequence[GoalPanel], layout: Layout | None, path: Path) -> None:
    """Save panels side by side, two in a row, captions below; with the walls of a maze if there is a layout."""
    rows, columns = grid_shape(len(panels), 2)
    with styled():
        figure = new_figure(columns * PANEL_INCHES + 0.2, rows * (PANEL_INCHES + 0.5) + 0.3)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _draw(axes, panel)
            if layout is None:
                _frame(axes, panel.goals.shape[1])
            else:
                draw_walls(axes, layout)
            axes.set_title(panel.title, pad=4)
            axes.set_xlabel("\n".join([*filter(None, [axes.get_xlabel()]), panel.caption]), fontsize=8.5)
        for axes in grid[len(panels) :]:
            axes.remove()
        marks = [
            Line2D([], [], color=REACHED, marker="o", linestyle="", label="goal, reached"),
            Line2D([], [], color=MISSED, marker="o", linestyle="", label="goal, missed"),
            Line2D([], [], color="0.3", marker="x", linestyle="", label="end of the episode"),
            Line2D([], [], color="black", marker="s", linestyle="", label="start"),
        ]
        figure.legend(handles=marks, loc="outside lower center", ncols=4, handletextpad=0.2, columnspacing=1.0)
        save(figure, path)


def _draw(axes: Axes, panel: GoalPanel) -> None:
    """Goals with a line to where the episode ended: y over x, or x over the number of the goal for p = 1."""
    starts, goals, final = (_on_the_plane(points) for points in (panel.starts, panel.goals, panel.final))
    axes.add_collection(LineCollection(list(np.stack([goals, final], axis=1)), colors="0.8", linewidths=0.7, zorder=1))
    axes.scatter(final[:, 0], final[:, 1], s=14, c="0.3", marker="x", linewidths=0.8, zorder=5)
    axes.scatter(starts[:, 0], starts[:, 1], s=14, c="black", marker="s", zorder=5)
    colours = np.where(panel.reached, REACHED, MISSED)
    axes.scatter(goals[:, 0], goals[:, 1], s=18, c=colours, zorder=6)


def _frame(axes: Axes, coordinates: int) -> None:
    """Axes around places that are not in a maze."""
    axes.autoscale_view()
    if coordinates == 1:
        axes.set_xlabel("goal")
        axes.set_ylabel("x")
    else:
        axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def _on_the_plane(points: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n 2"]:
    """The first two coordinates; one coordinate over the number of its row."""
    if points.shape[1] == 1:
        return np.concatenate([np.arange(len(points), dtype=float)[:, None], points], axis=1)
    return points[:, :2]
