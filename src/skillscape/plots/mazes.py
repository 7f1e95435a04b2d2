"""Figures of skills in a maze: trajectories, and maps of visitation or density.

Functions that take ``axes`` draw into them; functions named ``*_figure`` save a PNG at ``path``. Nothing here imports
jax: a figure can be redrawn from saved arrays on any machine.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from skillscape.envs.mazes.layouts import Layout
from skillscape.plots.curves import MEASURES
from skillscape.plots.style import DOTS_PER_INCH, grid_shape, new_figure, save, skill_colours, styled

LEGEND_SKILLS = 20
PANELS_IN_A_ROW = 4
PANEL_INCHES = 2.7
LEGEND: dict[str, Any] = {"handlelength": 0.8, "handletextpad": 0.3, "title": "skill"}


class Panel(NamedTuple):
    """One panel of a figure: title, rollouts [k, r, t + 1, 2], and a caption."""

    title: str
    positions: Float[np.ndarray, "k r t 2"]
    caption: str = ""


def caption(measures: Mapping[str, float | None]) -> str:
    """Coverage, reach and I(S;Z), as far as they are defined, on one line."""
    values = {name: measures.get(name) for name in ("coverage", "reach", "mutual_information")}
    return " · ".join(
        f"{MEASURES[name].column.partition(',')[0]} {value:.2f}" for name, value in values.items() if value is not None
    )


def draw_walls(axes: Axes, layout: Layout) -> None:
    """Draw the walls in black, fit the view to the maze with equal axes, and remove frame and ticks."""
    axes.add_collection(
        LineCollection(list(layout.walls), colors="black", linewidths=1.4, capstyle="projecting", zorder=4)
    )
    left, right, bottom, top = _extent(layout)
    margin = 0.12  # room for half the width of the outer walls
    axes.set_xlim(left - margin, right + margin)
    axes.set_ylim(bottom - margin, top + margin)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def plot_trajectories(
    axes: Axes, positions: Float[np.ndarray, "k r t 2"], layout: Layout, title: str, *, legend: bool = True
) -> None:
    """Draw every rollout [k, r, t + 1, 2] as a thin line in the colour of its skill, with a dot at its end.

    A black dot marks the start. A legend beside the axes is drawn for 2 to 20 skills.
    """
    positions = np.asarray(positions, dtype=np.float64)
    skills, rollouts = positions.shape[:2]
    # Rollouts outermost: the skills alternate, so that the last skill does not cover all others.
    lines = positions.swapaxes(0, 1).reshape(rollouts * skills, -1, 2)
    colours = np.tile(skill_colours(skills), (rollouts, 1))
    axes.add_collection(LineCollection(list(lines), colors=list(colours), linewidths=0.6, alpha=0.55, zorder=2))
    axes.scatter(lines[:, -1, 0], lines[:, -1, 1], s=8, c=colours, edgecolors="white", linewidths=0.25, zorder=5)
    start_x, start_y = positions[0, 0, 0]
    axes.scatter(start_x, start_y, s=26, c="black", edgecolors="white", linewidths=0.6, zorder=6)
    draw_walls(axes, layout)
    axes.set_title(title, pad=4)
    if legend and 1 < skills <= LEGEND_SKILLS:
        handles, columns = skill_handles(skills), 1 if skills <= 10 else 2
        axes.legend(
            handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=columns, columnspacing=0.8, **LEGEND
        )


def trajectory_figure(panels: Sequence[Panel], layout: Layout, path: Path) -> None:
    """Save panels of trajectories side by side, captions below, in rows of at most ``PANELS_IN_A_ROW``.

    Several panels share one legend under the figure if a skill has the same colour in all of them; otherwise each has
    its own. A panel with a single policy has no legend.
    """
    counts = {np.shape(panel.positions)[0] for panel in panels} - {1}
    most = skill_colours(max(counts, default=1))
    shared = len(panels) > 1 and all((skill_colours(count) == most[:count]).all() for count in counts)
    rows, columns = grid_shape(len(panels), PANELS_IN_A_ROW)
    width, height = _panel_size(layout)
    legend_inches = 0.0 if shared or not counts or max(counts) > LEGEND_SKILLS else 0.9  # beside each panel
    with styled():
        figure = new_figure(columns * (width + legend_inches), rows * (height + 0.55) + 0.4, layout="compressed")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            plot_trajectories(axes, panel.positions, layout, panel.title, legend=not shared)
            axes.set_xlabel(_wrapped(panel.caption, int(width * 17)), labelpad=3, fontsize=8.5)
        for axes in grid[len(panels) :]:
            axes.remove()
        if shared and 1 < (skills := len(most)) <= LEGEND_SKILLS:
            _, across = grid_shape(skills, int(columns * width / 0.4))
            # Matplotlib fills a legend column by column; numbers should be read along the rows.
            handles = [handle for column in range(across) for handle in skill_handles(skills)[column::across]]
            figure.legend(
                handles=handles, loc="outside lower center", ncols=across, columnspacing=0.9, borderpad=0.1, **LEGEND
            )
        # Many panels are an overview: at full resolution they are megabytes that no page shows.
        save(figure, path, DOTS_PER_INCH if rows <= 2 else DOTS_PER_INCH // 2, colours=256)


def density_figure(
    maps: Float[np.ndarray, "k h w"],
    layout: Layout,
    path: Path,
    title: str,
    colour_label: str,
    *,
    shared_scale: bool = True,
    titles: Sequence[str] | None = None,
) -> None:
    """Save one map per skill, [k, h, w] with row 0 at the bottom and NaN outside the maze, walls on top.

    The maps cover the bounding rectangle of the maze; titles: of the panels, by default "skill 0", ….
    With ``shared_scale`` all panels have one colour scale; without, each runs from its own minimum to its own maximum.
    """
    maps, extent = np.asarray(maps, dtype=np.float64), _extent(layout)
    width, height = (0.62 * side for side in _panel_size(layout))
    # Corridors are stacked rather than set side by side, so that the colour bar has a height.
    rows, columns = grid_shape(len(maps), 5 if height > 0.3 * width else 2)
    with styled():
        figure = new_figure(columns * width + 0.7, rows * (height + 0.28) + 0.35, layout="compressed")
        grid = figure.subplots(rows, columns, squeeze=False)
        shared = Normalize(np.nanmin(maps), np.nanmax(maps))
        for skill, axes in enumerate(grid.ravel()):
            if skill >= len(maps):
                axes.remove()
                continue
            scale = shared if shared_scale else Normalize(np.nanmin(maps[skill]), np.nanmax(maps[skill]))
            axes.imshow(maps[skill], origin="lower", extent=extent, cmap="magma_r", norm=scale, interpolation="nearest")
            draw_walls(axes, layout)
            axes.set_title(f"skill {skill}" if titles is None else titles[skill], fontsize=8.5, pad=2)
        mappable = ScalarMappable(shared if shared_scale else Normalize(0.0, 1.0), "magma_r")
        bar = figure.colorbar(mappable, ax=list(figure.axes), label=colour_label, shrink=0.85, aspect=28, pad=0.02)
        bar.outline.set_visible(False)
        if not shared_scale:
            bar.set_ticks([0.0, 1.0], labels=["lowest\nof panel", "highest\nof panel"])
        figure.suptitle(title, fontsize=10.5)
        save(figure, path)


def visitation_maps(
    positions: Float[np.ndarray, "k r t 2"], layout: Layout, resolution: int = 4
) -> Float[np.ndarray, "k h w"]:
    """Fraction of time that each skill spends in each square of side 1/resolution.

    positions: [k, r, t + 1, 2], the start included. Maps are [k, h, w] with row 0 at the bottom and NaN outside the
    maze, and sum to one; the default squares are the quarter-cells of the measures.
    """
    positions = np.asarray(positions, dtype=np.float64)
    cell = layout.cell_index(positions)
    if (cell < 0).any():
        raise ValueError(f"{np.sum(cell < 0)} positions lie outside of {layout.name}.")
    # Squares are counted from the cell of a point, so that a point on a wall stays on its own side.
    corner = np.asarray(layout.cells)[cell] - layout.origin
    within = np.floor(resolution * (positions - layout.bounds[0] - corner)).astype(int)
    column, row = np.moveaxis(resolution * corner + np.clip(within, 0, resolution - 1), -1, 0)
    width, height = (resolution * side for side in layout.grid_shape)
    visits = np.zeros((len(positions), height, width))
    skill = np.arange(len(positions))[:, None, None]
    np.add.at(visits, (skill, row, column), 1.0 / np.prod(positions.shape[1:3]))
    free = (layout.cell_grid >= 0).T.repeat(resolution, axis=0).repeat(resolution, axis=1)
    return np.where(free, visits, np.nan)


def _extent(layout: Layout) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the maze, as imshow expects them."""
    (left, bottom), (right, top) = layout.bounds.tolist()
    return left, right, bottom, top


def _panel_size(layout: Layout) -> tuple[float, float]:
    """Width and height of a panel in inches, undistorted; wide mazes get more width, so that cells stay readable."""
    left, right, bottom, top = _extent(layout)
    aspect = (top - bottom) / (right - left)
    width = PANEL_INCHES * min(1.5, max(1.0, aspect**-0.5))
    return width, width * aspect


def _wrapped(caption: str, characters: int) -> str:
    """The caption in lines of at most ``characters``, broken only between its "·" items."""
    lines = [""]
    for item in caption.split(" · "):
        longer = f"{lines[-1]} · {item}" if lines[-1] else item
        if lines[-1] and len(longer) > characters:
            lines.append(item)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def skill_handles(skills: int) -> list[Line2D]:
    """Legend handles: a coloured square with the number of each skill."""
    return [
        Line2D([], [], linestyle="none", marker="s", markersize=5.5, color=tuple(colour), label=str(skill))
        for skill, colour in enumerate(skill_colours(skills))
    ]
