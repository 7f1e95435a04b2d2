"""The aggregate figure: one panel per statistic, one row per method, with its interval."""

from collections.abc import Mapping
from pathlib import Path

from skillscape.evaluation.aggregate import Estimate
from skillscape.plots.style import method_look, new_figure, save, styled

PANEL_INCHES = 2.2
ROW_INCHES = 0.26


def aggregate_figure(found: Mapping[tuple[str, str], Estimate], path: Path, note: str) -> None:
    """Draw (method, statistic) → value and interval; ``note`` says what was spent on them."""
    methods = list(dict.fromkeys(method for method, _ in found))
    statistics = list(dict.fromkeys(name for _, name in found))
    with styled():
        figure = new_figure(PANEL_INCHES * len(statistics) + 1.2, ROW_INCHES * len(methods) + 1.1)
        panels = figure.subplots(1, len(statistics), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, statistics, strict=True):
            # A bar's left end would otherwise be the edge of the panel, as if it had been cut.
            axes.use_sticky_edges = False
            for row, method in enumerate(methods):
                one = found[method, name]
                colour, _ = method_look(row)
                if one.interval is not None:
                    low, high = one.interval
                    axes.barh(row, high - low, left=low, height=0.6, color=colour, alpha=0.35)
                axes.plot([one.value, one.value], [row - 0.3, row + 0.3], color=colour, linewidth=2)
            axes.set_title(name + (", less is better" if name == "optimality gap" else ""))
            axes.grid(axis="x", alpha=0.3, linewidth=0.6)
            axes.set_xlabel("share of the expert's score")
        panels[0].set_yticks(range(len(methods)), methods)
        panels[0].invert_yaxis()
        figure.suptitle(note, fontsize=9)
        save(figure, path)
