"""The charts of the page as Plotly's figures, in plain values: Plotly itself is not needed to make them."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float

from skillscape.evaluation.aggregate import Estimate
from skillscape.evaluation.scoreboard import THRESHOLDS, Scoreboard
from skillscape.evaluation.summary import bootstrap_interval
from skillscape.plots.curves import Curve
from skillscape.plots.style import method_look

Figure = dict[str, Any]
"""What Plotly draws: {"data": traces, "layout": …}, plain values only."""

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


def chart_look(place: int) -> tuple[str, str]:
    """Colour and dash of the n-th method; a grey stands for black, which a dark page would swallow."""
    colour, line = method_look(place)
    return ("#8a8a8a" if colour == "#000000" else colour), DASHES[line]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _rounded(values: Sequence[float] | Float[np.ndarray, "..."]) -> list[float]:
    return [float(f"{value:.4g}") for value in np.asarray(values, np.float64)]


def _band(
    key: int,
    label: str,
    steps: Sequence[float],
    value: Float[np.ndarray, " m"],
    ends: tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]] | None,
) -> list[dict[str, Any]]:
    """A line, and the band around it where there is one; ``meta`` is the key of the method in the legend."""
    colour, dash = chart_look(key)
    line = {
        "type": "scatter",
        "x": list(steps),
        "y": _rounded(value),
        "mode": "lines" if len(steps) > 1 else "markers",
        "line": {"color": colour, "dash": dash, "width": 2},
        "name": escape(label),
        "meta": key,
    }
    if ends is None:
        return [line]
    low, high = ends
    band = {
        "type": "scatter",
        "x": [*steps, *steps[::-1]],
        "y": [*_rounded(high), *_rounded(low[::-1])],
        "fill": "toself",
        "fillcolor": _faint(colour),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "meta": key,
    }
    return [band, line]


def curve_figure(lines: Mapping[str, Curve], labels: Sequence[str], title: str) -> Figure:
    """Learning curves of one measure or task: a line per method, the 95 % bootstrap band of its mean over seeds.

    One seed is a line without a band.
    """
    traces = []
    for label, (steps, values) in lines.items():
        ends = bootstrap_interval(values, resamples=2000)
        traces += _band(labels.index(label), label, [int(step) for step in steps], np.mean(values, axis=0), ends)
    return {
        "data": traces,
        "layout": {
            "title": {"text": escape(title)},
            "xaxis": {"title": {"text": "environment steps"}, "rangemode": "tozero"},
            "yaxis": {"rangemode": "tozero"},
        },
    }


def interval_figure(found: Mapping[str, Estimate], labels: Sequence[str], title: str) -> Figure:
    """One statistic: a point per method with its interval, where it has one."""
    traces = [
        {
            "type": "scatter",
            "x": _rounded([estimate.value]),
            "y": [escape(label)],
            **_whiskers(estimate),
            "mode": "markers",
            "marker": {"color": chart_look(labels.index(label))[0], "size": 10},
            "name": escape(label),
            "meta": labels.index(label),
        }
        for label, estimate in found.items()
    ]
    return {
        "data": traces,
        "layout": {
            "title": {"text": escape(title)},
            "xaxis": {"title": {"text": "score, random 0 to expert 1"}},
            "yaxis": {"type": "category", "autorange": "reversed"},
        },
    }


def _whiskers(estimate: Estimate) -> dict[str, Any]:
    if estimate.interval is None:
        return {}
    low, high = estimate.interval
    return {
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": _rounded([high - estimate.value]),
            "arrayminus": _rounded([estimate.value - low]),
            "thickness": 2.5,
            "width": 6,
        }
    }


def profile_figure(board: Scoreboard, labels: Sequence[str]) -> Figure:
    """Performance profiles: the share of runs above each score."""
    traces = []
    for label, profile in board.profiles.items():
        ends = None if profile.low is None or profile.high is None else (profile.low, profile.high)
        traces += _band(labels.index(label), label, THRESHOLDS.tolist(), profile.value, ends)
    return {
        "data": traces,
        "layout": {
            "title": {"text": "performance profiles"},
            "xaxis": {"title": {"text": "score τ, random 0 to expert 1"}},
            "yaxis": {"title": {"text": "share of runs above τ"}, "range": [0, 1.02]},
        },
    }
