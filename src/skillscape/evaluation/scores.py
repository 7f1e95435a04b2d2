"""Scores of runs as long-form rows, made comparable across tasks by what a random policy and an expert earn."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, SupportsFloat, TypeAlias, TypeGuard

import numpy as np
from jaxtyping import Float

from skillscape.errors import UserError
from skillscape.evaluation.summary import summarise


class Row(NamedTuple):
    """What one run of a method earned in a task: the long form that every statistic starts from."""

    method: str
    task: str
    seed: int
    score: float


def checked_row(row: object) -> Row:
    """A user's row as plain text and numbers, which JSON can hold, or one sentence about what is wrong with it."""
    if isinstance(row, str | bytes) or not isinstance(row, Iterable) or len(values := tuple(row)) != len(Row._fields):
        raise UserError(f"A row must be (method, task, seed, score); got {row!r}.")
    method, task, seed, score = values
    if not isinstance(method, str) or not isinstance(task, str):
        raise UserError(f"Method and task must be text; got {method!r} and {task!r}.")
    if not is_whole(seed):
        raise UserError(f"The seed of {method} in {task} must be a whole number; got {seed!r}.")
    number = _number(score)
    if number is None:
        raise UserError(f"The score of {method} in {task} with seed {seed} must be a number; got {score!r}.")
    return Row(method, task, int(seed), number)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: object) -> float | None:
    """A number of Python or NumPy as a float, infinite and NaN included; None for anything else."""
    if isinstance(value, str | bytes | bool | np.bool_) or not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


Expert: TypeAlias = float | tuple[float, float]
"""Return of an expert, next to which a random policy earns 0; or the returns of a random policy and of an expert."""

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


def read_experts(path: Path) -> dict[str, Expert]:
    """The experts in a JSON file: {"task": expert} or {"task": [random, expert]}."""
    wanted = 'write it as JSON: {"task": expert} or {"task": [random, expert]}'
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"The file of experts {path} does not exist; {wanted}.") from None
    except OSError as error:
        raise UserError(f"The file of experts {path} cannot be read: {error.strerror}; check the path.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"The file of experts {path} is not JSON; {wanted}.") from error
    if not isinstance(values, dict):
        raise UserError(f"The file of experts {path} holds no scores by task; {wanted}.")
    experts = {task: tuple(value) if isinstance(value, list) else value for task, value in values.items()}
    try:
        _scales(experts)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return experts


def _scales(experts: Mapping[str, Expert]) -> dict[str, tuple[float, float]]:
    """Task → scores that become 0 and 1; refuses what would turn the order of two scores round, or mean nothing."""
    scales = {}
    for task, given in experts.items():
        pair = tuple(given) if isinstance(given, tuple | list) else (0.0, given)
        ends = [_number(value) for value in pair]
        if len(ends) != 2 or any(end is None or not math.isfinite(end) for end in ends):
            raise UserError(
                f"The expert score of {task!r} must be a finite number, or a pair (random, expert); got {given!r}."
            )
        low, high = (end for end in ends if end is not None)
        if high <= low and isinstance(given, tuple | list):
            raise UserError(
                f"The expert score of {task!r} must be above the random score; got random {low:g} and expert {high:g}; "
                "give (random, expert), where more is better."
            )
        if high <= low:
            raise UserError(
                f"The expert score of {task!r} must be above 0, the random score if none is given; got {high:g}; "
                "give (random, expert) instead."
            )
        scales[task] = (low, high)
    return scales


def normalise(rows: Iterable[Row], experts: Mapping[str, Expert] | None = None) -> list[Row]:
    """Scores such that a random policy has 0 and the expert 1. URLB takes 0 as the return of a random policy.

    ``experts``: see ``Expert``, by task; those of URLB if not given.
    """
    known = _scales(expert_scores() if experts is None else experts)
    normalised = []
    for row in rows:
        if row.task not in known:
            raise UserError(f"There is no expert score for {row.task!r}; known are {', '.join(known)}.")
        low, high = known[row.task]
        normalised.append(row._replace(score=(row.score - low) / (high - low)))
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
    """Mean over seeds, its standard error, how many seeds there are, and the ends of its 95 % bootstrap interval.

    One seed has neither error nor interval.
    """

    mean: float
    error: float | None
    seeds: int
    low: float | None
    high: float | None


def per_task(rows: Iterable[Row], *, resamples: int = 5000, seed: int = 0) -> dict[tuple[str, str], Cell]:
    """(method, task) → mean over seeds, as it was earned."""
    grouped: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        grouped.setdefault((row.method, row.task), []).append(row.score)
    cells = {}
    for key, values in grouped.items():
        mean, interval, _ = summarise(values, resamples=resamples, seed=seed)
        error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
        cells[key] = Cell(mean, error, len(values), *(interval or (None, None)))
    return cells
