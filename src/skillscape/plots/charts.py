"""The page's charts as Plotly figures in plain Python values: creating them does not need Plotly."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float

from skillscape.evaluation.aggregate import Estimate
from skillscape.evaluation.scoreboard import THRESHOLDS, Scoreboard
from skillscape.evaluation.summary import bootstrap_interval
from skillscape.plots.curves import Curve
from skillscape.plots.style import method_style

Figure = dict[str, Any]
"""A Plotly figure, {"data": traces, "layout": …}, of plain values only."""

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


def chart_style(index: int) -> tuple[str, str]:
    """Colour and dash of the n-th method; grey replaces black, which would be invisible on a dark page."""
    colour, line = method_style(index)
    return ("#8a8a8a" if colour == "#000000" else colour), DASHES[line]


def _figure(traces: list[dict[str, Any]], title: str, xaxis: dict[str, Any], yaxis: dict[str, Any]) -> Figure:
    return {"data": traces, "layout": {"title": {"text": escape(title)}, "xaxis": xaxis, "yaxis": yaxis}}


def _rounded(values: Sequence[float] | Float[np.ndarray, "..."]) -> list[float]:
    return [float(f"{value:.4g}") for value in np.asarray(values, np.float64)]


def _line_and_band(
    key: int,
    label: str,
    x: Sequence[float],
    value: Float[np.ndarray, " m"],
    ends: tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]] | None,
) -> list[dict[str, Any]]:
    """Traces of a line and of the band around it, if there is one; ``meta`` is the key of the legend entry."""
    colour, dash = chart_style(key)
    line = {
        "type": "scatter",
        "x": list(x),
        "y": _rounded(value),
        "mode": "lines" if len(x) > 1 else "markers",
        "line": {"color": colour, "dash": dash, "width": 2},
        "name": escape(label),
        "meta": key,
    }
    if ends is None:
        return [line]
    low, high = ends
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    band = {
        "type": "scatter",
        "x": [*x, *x[::-1]],
        "y": [*_rounded(high), *_rounded(low[::-1])],
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.18)",
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "meta": key,
    }
    return [band, line]


def curve_figure(curves: Mapping[str, Curve], labels: Sequence[str], title: str) -> Figure:
    """Learning curves of one measure or task: each method's mean over seeds with its 95 % bootstrap band.

    A single seed has no band.
    """
    traces = []
    for label, (steps, values) in curves.items():
        ends = bootstrap_interval(values, resamples=2000)
        x = [int(step) for step in steps]
        traces += _line_and_band(labels.index(label), label, x, np.mean(values, axis=0), ends)
    xaxis = {"title": {"text": "environment steps"}, "rangemode": "tozero"}
    # Plotly would write 0.0003 as 300µ.
    return _figure(traces, title, xaxis, {"rangemode": "tozero", "exponentformat": "power"})


def interval_figure(estimates: Mapping[str, Estimate], labels: Sequence[str], title: str) -> Figure:
    """One statistic: a point per method with its interval, if it has one."""
    traces = []
    for label, estimate in estimates.items():
        error_bars = {}
        if estimate.interval is not None:
            low, high = estimate.interval
            error_bars["error_x"] = {
                "type": "data",
                "symmetric": False,
                "array": _rounded([high - estimate.value]),
                "arrayminus": _rounded([estimate.value - low]),
                "thickness": 2.5,
                "width": 6,
            }
        key = labels.index(label)
        trace = {
            "type": "scatter",
            "x": _rounded([estimate.value]),
            "y": [escape(label)],
            **error_bars,
            "mode": "markers",
            "marker": {"color": chart_style(key)[0], "size": 10},
            "name": escape(label),
            "meta": key,
        }
        traces.append(trace)
    xaxis = {"title": {"text": "normalised score"}}
    return _figure(traces, title, xaxis, {"type": "category", "autorange": "reversed"})


def profile_figure(board: Scoreboard, labels: Sequence[str]) -> Figure:
    """Performance profiles: the fraction of runs above each score."""
    traces = []
    for label, profile in board.profiles.items():
        ends = None if profile.low is None or profile.high is None else (profile.low, profile.high)
        traces += _line_and_band(labels.index(label), label, THRESHOLDS.tolist(), profile.value, ends)
    xaxis = {"title": {"text": "normalised score τ"}}
    yaxis = {"title": {"text": "fraction of runs above τ"}, "range": [0, 1.02]}
    return _figure(traces, "performance profiles", xaxis, yaxis)
