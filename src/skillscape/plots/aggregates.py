"""The aggregate figure: one panel per statistic, one row per method, with its interval."""

from collections.abc import Mapping
from pathlib import Path

from skillscape.evaluation.aggregate import Estimate
from skillscape.plots.style import method_style, new_figure, save, styled

PANEL_INCHES = 2.2
ROW_INCHES = 0.26


def aggregate_figure(estimates: Mapping[tuple[str, str], Estimate], path: Path, note: str) -> None:
    """Draw (method, statistic) → value and interval; ``note`` is the title: budget and seeds."""
    methods = list(dict.fromkeys(method for method, _ in estimates))
    statistics = list(dict.fromkeys(name for _, name in estimates))
    with styled():
        figure = new_figure(PANEL_INCHES * len(statistics) + 1.2, ROW_INCHES * len(methods) + 1.1)
        panels = figure.subplots(1, len(statistics), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, statistics, strict=True):
            # Otherwise the left end of a bar would touch the edge of the panel and look clipped.
            axes.use_sticky_edges = False
            for row, method in enumerate(methods):
                estimate = estimates[method, name]
                colour, _ = method_style(row)
                if estimate.interval is not None:
                    low, high = estimate.interval
                    axes.barh(row, high - low, left=low, height=0.6, color=colour, alpha=0.35)
                axes.plot([estimate.value, estimate.value], [row - 0.3, row + 0.3], color=colour, linewidth=2)
            axes.set_title(name + (", lower is better" if name == "optimality gap" else ""))
            axes.grid(axis="x", alpha=0.3, linewidth=0.6)
            axes.set_xlabel("fraction of the expert's score")
        panels[0].set_yticks(range(len(methods)), methods)
        panels[0].invert_yaxis()
        figure.suptitle(note, fontsize=9)
        save(figure, path)
