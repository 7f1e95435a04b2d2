"""Scores of runs as long-form rows, made comparable across tasks by what an expert earns. Pure NumPy."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from skillscape.errors import UserError


class Row(NamedTuple):
    """What one run of a method earned in a task: the long form that every statistic starts from."""

    method: str
    task: str
    seed: int
    score: float


PUBLISHED_BUDGETS = {
    "state": "2,000,000 + 100,000 steps, 10 seeds",
    "pixel": "2,000,000 + 100,000 steps, seeds not told",
}
"""What the paper spent on a number of each of its tables: without reward, then with."""


class Published(NamedTuple):
    """A cell of a table of the paper: mean and spread (read as a standard error over 10 seeds)."""

    mean: float
    spread: float


@cache
def expert_scores() -> Mapping[str, float]:
    """Return of an expert in each of the twelve URLB tasks, as told by the benchmark's author."""
    found: dict[str, float] = json.loads(_data("expert_scores.json"))
    return found


@cache
def published_scores(table: str = "state") -> Mapping[tuple[str, str], Published]:
    """The paper's table "state" or "pixel" of URLB: (method, task) → mean and spread."""
    rows = csv.DictReader(_data(f"paper_{table}_urlb.csv").splitlines())
    return {(row["method"], row["task"]): Published(float(row["mean"]), float(row["spread"])) for row in rows}


@cache
def published_aggregates() -> Mapping[str, Mapping[str, float]]:
    """Aggregates over the twelve state tasks as shares of the expert: method → statistic → value, as far as printed."""
    table = json.loads(_data("paper_aggregates.json"))["state_urlb"]
    names = {"iqm": "IQM", "mean": "mean", "optimality_gap": "optimality gap"}
    return {
        method: {names[name]: percent / 100 for name, percent in values.items()}
        for method, values in table.items()
        if method != "note"
    }


def _data(name: str) -> str:
    return (files("skillscape.evaluation") / "data" / name).read_text()


def normalise(rows: Iterable[Row], experts: Mapping[str, float] | None = None) -> list[Row]:
    """Scores as shares of the expert's; nothing is subtracted for a random policy, as in URLB.

    ``experts``: task → return of an expert; those of URLB if not given.
    """
    known = expert_scores() if experts is None else experts
    normalised = []
    for row in rows:
        if row.task not in known:
            raise UserError(f"There is no expert score for {row.task!r}; known are {', '.join(known)}.")
        normalised.append(row._replace(score=row.score / known[row.task]))
    return normalised


def matrices(rows: Sequence[Row]) -> dict[str, Float[np.ndarray, "runs tasks"]]:
    """One matrix [runs, tasks] per method; every method must have the same tasks, and each task the same seeds.

    Tasks are in the order in which they first appear, runs in that of their seeds.
    """
    tasks = list(dict.fromkeys(row.task for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if not math.isfinite(row.score):
            raise UserError(
                f"{row.method} has no finite score in {row.task} with seed {row.seed}; report it, or run it again."
            )
        cell = found.setdefault((row.method, row.task), {})
        if row.seed in cell:
            raise UserError(f"{row.method} has two scores in {row.task} with seed {row.seed}; keep one.")
        cell[row.seed] = row.score
    result = {}
    for method in methods:
        cells = [found.get((method, task), {}) for task in tasks]
        for task, cell in zip(tasks, cells, strict=True):
            if sorted(cell) != sorted(cells[0]) or not cell:
                raise UserError(f"{method} has other seeds in {task} than in {tasks[0]}; finish its runs first.")
        result[method] = np.array([[cell[seed] for cell in cells] for seed in sorted(cells[0])])
    return result


class Cell(NamedTuple):
    """Mean over seeds, its standard error (0 for one seed), and how many seeds there are."""

    mean: float
    error: float
    seeds: int


def per_task(rows: Iterable[Row]) -> dict[tuple[str, str], Cell]:
    """(method, task) → mean ± standard error over seeds."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        grouped.setdefault((row.method, row.task), []).append(row.score)
    return {
        key: Cell(
            float(np.mean(values)),
            float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0,
            len(values),
        )
        for key, values in grouped.items()
    }
