"""Learning curves, and the labels of the maze measures. Nothing here imports jax."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from skillscape.evaluation.summary import bootstrap_interval
from skillscape.plots.style import LineStyle, grid_shape, method_style, new_figure, save, styled

Curve: TypeAlias = tuple[Int[np.ndarray, " m"], Float[np.ndarray, "s m"]]
"""Steps [m] and the values of s seeds at them [s, m]."""


class MeasureLabel(NamedTuple):
    """Label of a measure in the head of a table column and on an axis, and a sentence under tables that have it."""

    column: str
    axis: str
    note: str = ""


MEASURES = {
    "reach": MeasureLabel("reach", "reach (fraction of farthest distance)"),
    "coverage": MeasureLabel("coverage", "coverage (fraction of quarter-cells)"),
    "mutual_information": MeasureLabel("I(S;Z), nats", "I(S;Z) (nats)"),
    "skill_accuracy": MeasureLabel("accuracy", "skill accuracy (fraction of states)"),
}
"""The measures of skills in a maze by their names in files, in the order of tables."""

OPTIONAL_MEASURES = {
    "goals": MeasureLabel(
        "goals reached",
        "goals reached zero-shot (fraction of cells)",
        "goals reached: fraction of the cells whose centre the skill that is chosen for it reaches within half a cell, "
        "without further training.",
    ),
}
"""Measures of skills in a maze that a run may lack; a table without any of them has no such column."""

POSITION_MEASURES = {
    "policy_coverage": MeasureLabel("policy coverage", "policy coverage (bins)"),
    "total_coverage": MeasureLabel("total coverage", "total coverage of training (bins)"),
    "queue_coverage": MeasureLabel("queue coverage", "queue coverage of training (bins)"),
    "distance": MeasureLabel("distance", "distance (net displacement)"),
    "speed": MeasureLabel("speed", "speed (path length per step)"),
    "spread_within": MeasureLabel("spread within", "spread of end points within a skill"),
    "spread_between": MeasureLabel("spread between", "spread of end points between skills"),
    "skill_accuracy": MEASURES["skill_accuracy"],
}
"""The measures of the skills of a body whose position is told, likewise."""

MODEL_MEASURES = {
    "model_accuracy": MeasureLabel("model accuracy", "model accuracy (fraction of states)"),
    "model_information": MeasureLabel(
        "model I(S;Z), nats",
        "model's bound on I(S;Z) (nats)",
        "model accuracy and model I(S;Z): how often the method's own model identifies the skill of a state, and its "
        "lower bound log n + E log p(z|s) on I(S;Z), which is negative if the model is overconfident.",
    ),
}
"""The measures of a method's own model, which methods without one lack."""
_LABELS = {**MEASURES, **OPTIONAL_MEASURES, **POSITION_MEASURES, **MODEL_MEASURES}


def curves_figure(curves: Mapping[str, Mapping[str, Curve]], path: Path, note: str = "") -> None:
    """Save learning curves: one axis per measure, one line per method, the 95 % bootstrap band of its mean over seeds.

    curves: measure → method → (steps [m], values [s, m]); a single seed has no band. Measures of skills get their label
    with unit; any other key is its own label. A method has the same style in all axes. ``note`` is the title: budget
    and seeds.
    """
    methods = list(dict.fromkeys(method for lines in curves.values() for method in lines))
    styles = {method: method_style(index) for index, method in enumerate(methods)}
    rows, columns = grid_shape(len(curves), 4)
    across = min(len(methods), 2 * columns + 1)
    legend_rows = -(-len(methods) // max(across, 1))
    with styled():
        figure = new_figure(columns * 3.0 + 0.2, rows * 2.5 + 0.5 + 0.2 * max(legend_rows, 1))
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (measure, lines) in zip(grid, curves.items(), strict=False):
            for method, curve in lines.items():
                _draw_curve(axes, curve, styles[method])
            axes.set_ylabel(_LABELS[measure].axis if measure in _LABELS else measure)
            axes.set_xlabel("environment steps")
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.grid(axis="y", color="0.9", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.margins(x=0.02)
            if measure in _LABELS and all(np.min(values) >= 0 for _, values in lines.values()):
                axes.set_ylim(bottom=0.0)  # a truncated axis would exaggerate small differences
        for axes in grid[len(curves) :]:
            axes.remove()
        handles = [
            Line2D([], [], color=colour, linestyle=line, linewidth=1.8, label=method)
            for method, (colour, line) in styles.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=across)
        if note:
            figure.suptitle(note, fontsize=10)
        save(figure, path)


def _draw_curve(axes: Axes, curve: Curve, style: tuple[str, LineStyle]) -> None:
    steps, values = curve
    colour, line = style
    marker = "o" if len(steps) == 1 else None  # a line through one point would be invisible
    axes.plot(steps, values.mean(axis=0), color=colour, linestyle=line, linewidth=1.5, marker=marker, markersize=4)
    ends = bootstrap_interval(values, resamples=2000)
    if ends is not None:
        axes.fill_between(steps, *ends, color=colour, alpha=0.16, linewidth=0)
        if marker:
            axes.vlines(steps, *ends, color=colour, alpha=0.4)
