"""Scores of runs as long-form rows, normalised across tasks by the returns of a random policy and an expert."""

import csv
import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, SupportsFloat, TypeAlias, TypeGuard

import numpy as np
from jaxtyping import Float

from skillscape.errors import UserError
from skillscape.evaluation.summary import summarise


class ScoreRow(NamedTuple):
    """Score of one run of a method in a task: the long form that every statistic starts from."""

    method: str
    task: str
    seed: int
    score: float


def parse_row(row: object) -> ScoreRow:
    """A user's row as text and Python numbers, which JSON can hold; raises ``UserError`` for anything else."""
    values = () if isinstance(row, str | bytes) or not isinstance(row, Iterable) else tuple(row)
    if len(values) != len(ScoreRow._fields):
        raise UserError(f"A row must be (method, task, seed, score); got {row!r}.")
    method, task, seed, score = values
    if not isinstance(method, str) or not isinstance(task, str):
        raise UserError(f"Method and task must be text; got {method!r} and {task!r}.")
    if not is_integer(seed):
        raise UserError(f"The seed of {method} in {task} must be a whole number; got {seed!r}.")
    number = _as_float(score)
    if number is None:
        raise UserError(f"The score of {method} in {task} with seed {seed} must be a number; got {score!r}.")
    return ScoreRow(method, task, int(seed), number)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_float(value: object) -> float | None:
    """A number of Python or NumPy as a float, infinite and NaN included; None for anything else."""
    if isinstance(value, str | bytes | bool | np.bool_) or not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


Expert: TypeAlias = float | tuple[float, float]
"""Return of an expert if a random policy earns 0, otherwise (return of a random policy, return of an expert)."""


class Published(NamedTuple):
    """One entry of a published table: mean, and spread where it is printed (read as a standard error over seeds)."""

    mean: float
    spread: float | None


class PublishedTable(NamedTuple):
    """A published table of URLB."""

    source: str
    """Whose table it is."""
    budget: str
    """Pre-training + fine-tuning steps, and seeds."""
    scores: Mapping[tuple[str, str], Published]
    """(method, task) → mean and spread."""

    @property
    def methods(self) -> list[str]:
        """The methods in the order of the table."""
        return list(dict.fromkeys(method for method, _ in self.scores))


PUBLISHED_TABLES = {
    "state": ("paper", "2,000,000 + 100,000 steps, 10 seeds"),
    "pixel": ("paper", "2,000,000 + 100,000 steps, number of seeds not reported"),
    "moss": ("MOSS", "2,000,000 + 100,000 steps, number of seeds not reported"),
}
"""Source and budget of each table: the paper's from states and from images, and that of the authors of MOSS."""
_FILES = {"state": "paper_state_urlb.csv", "pixel": "paper_pixel_urlb.csv", "moss": "moss_state_urlb.csv"}


@cache
def expert_scores() -> Mapping[str, float]:
    """Return of an expert in each of the twelve URLB tasks, as given by the benchmark's author."""
    scores: dict[str, float] = json.loads(_data("expert_scores.json"))
    return scores


@cache
def published_table(name: str) -> PublishedTable:
    """A table of ``PUBLISHED_TABLES``."""
    scores = {}
    for row in csv.DictReader(_data(_FILES[name]).splitlines()):
        spread = float(row["spread"]) if row["spread"] else None
        scores[row["method"], row["task"]] = Published(float(row["mean"]), spread)
    return PublishedTable(*PUBLISHED_TABLES[name], scores)


def published_tables(*, images: bool) -> tuple[PublishedTable, ...]:
    """The published tables from images or from states, the paper's first."""
    return (published_table("pixel"),) if images else (published_table("state"), published_table("moss"))


@cache
def published_aggregates() -> Mapping[str, Mapping[str, float]]:
    """The paper's aggregates over the twelve state tasks: method → statistic → fraction of the expert's score."""
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
    """Read expert scores from a JSON file: {"task": expert} or {"task": [random, expert]}."""
    advice = 'write it as JSON: {"task": expert} or {"task": [random, expert]}'
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The file of experts {path} cannot be read: {error.strerror}; check the path.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"The file of experts {path} is not JSON; {advice}.") from error
    if not isinstance(values, dict):
        raise UserError(f"The file of experts {path} holds no scores by task; {advice}.")
    experts = {task: tuple(value) if isinstance(value, list) else value for task, value in values.items()}
    try:
        _score_ranges(experts)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return experts


def _score_ranges(experts: Mapping[str, Expert]) -> dict[str, tuple[float, float]]:
    """Task → (random, expert), the scores that become 0 and 1; an expert must be better than random."""
    ranges = {}
    for task, expert in experts.items():
        ends = [_as_float(value) for value in (expert if isinstance(expert, tuple | list) else (0.0, expert))]
        finite = [end for end in ends if end is not None and math.isfinite(end)]
        if len(ends) != 2 or len(finite) != 2:
            raise UserError(
                f"The expert score of {task!r} must be a finite number, or a pair (random, expert); got {expert!r}."
            )
        low, high = finite
        if high <= low:
            raise UserError(
                f"The expert score of {task!r} must be above the random score, which is 0 unless given; got random "
                f"{low:g} and expert {high:g}; give (random, expert), where more is better."
            )
        ranges[task] = (low, high)
    return ranges


def normalise(rows: Iterable[ScoreRow], experts: Mapping[str, Expert] | None = None) -> list[ScoreRow]:
    """Scale scores so that a random policy has 0 and the expert 1.

    ``experts``: task → ``Expert``; by default those of URLB, which takes 0 as the return of a random policy.
    """
    ranges = _score_ranges(expert_scores() if experts is None else experts)
    normalised = []
    for row in rows:
        if row.task not in ranges:
            raise UserError(f"There is no expert score for {row.task!r}; known are {', '.join(ranges)}.")
        low, high = ranges[row.task]
        normalised.append(row._replace(score=(row.score - low) / (high - low)))
    return normalised


def by_seed(rows: Iterable[ScoreRow]) -> dict[tuple[str, str], dict[int, float]]:
    """(method, task) → seed → score; scores must be finite, and one per seed."""
    table: dict[tuple[str, str], dict[int, float]] = {}
    for method, task, seed, score in rows:
        if not math.isfinite(score):
            raise UserError(f"{method} has no finite score in {task} with seed {seed}; report it, or run it again.")
        cell = table.setdefault((method, task), {})
        if seed in cell:
            raise UserError(f"{method} has two scores in {task} with seed {seed}; keep one.")
        cell[seed] = score
    return table


def matrices(rows: Iterable[ScoreRow]) -> dict[str, Float[np.ndarray, "runs tasks"]]:
    """One score matrix [runs, tasks] per method; all methods must have the same tasks, and each the same seeds in all.

    Tasks keep the order in which they first appear; runs are sorted by seed.
    """
    table = by_seed(rows)
    methods, tasks = (list(dict.fromkeys(names)) for names in zip(*table, strict=True))
    result = {}
    for method in methods:
        cells = [table.get((method, task), {}) for task in tasks]
        for task, cell in zip(tasks, cells, strict=True):
            if not cell or sorted(cell) != sorted(cells[0]):
                raise UserError(f"{method} has different seeds in {task} and {tasks[0]}; finish its runs first.")
        result[method] = np.array([[cell[seed] for cell in cells] for seed in sorted(cells[0])])
    return result


class TaskScore(NamedTuple):
    """Mean over seeds, its standard error, the number of seeds, and the ends of its 95 % bootstrap interval.

    The error and the interval of a single seed are None.
    """

    mean: float
    error: float | None
    seeds: int
    low: float | None
    high: float | None


def per_task(rows: Iterable[ScoreRow], *, resamples: int = 5000, seed: int = 0) -> dict[tuple[str, str], TaskScore]:
    """(method, task) → summary of its unnormalised scores over seeds."""
    summaries = {}
    for key, cell in by_seed(rows).items():
        scores = list(cell.values())
        mean, interval, _ = summarise(scores, resamples=resamples, seed=seed)
        error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
        summaries[key] = TaskScore(mean, error, len(scores), *(interval or (None, None)))
    return summaries
