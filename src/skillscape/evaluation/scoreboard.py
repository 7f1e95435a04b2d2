"""Comparison of methods: score rows in, every table out. Pure NumPy, seeded.

>>> rows = [("sd3", "walker_walk", 0, 850.0), ("sd3", "walker_walk", 1, 880.0)]
>>> rows += [("ddpg", "walker_walk", 0, 700.0), ("ddpg", "walker_walk", 1, 640.0)]
>>> board = scoreboard(rows)
>>> board.cells["sd3", "walker_walk"], board.aggregates["sd3", "IQM"], board.improvements["sd3", "ddpg"]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skillscape.errors import UserError
from skillscape.evaluation import aggregate
from skillscape.evaluation.aggregate import Estimate, Profile
from skillscape.evaluation.scores import (
    Expert,
    ScoreRow,
    TaskScore,
    by_seed,
    is_integer,
    matrices,
    normalise,
    parse_row,
    per_task,
)

THRESHOLDS = np.round(np.linspace(0.0, 1.2, 61), 2)
MAX_RESAMPLES = 100_000
"""More would take memory without changing a printed digit."""


@dataclass(frozen=True)
class Scoreboard:
    """A comparison of methods over tasks and seeds.

    Cells and improvements use the raw scores; aggregates and profiles use scores from random (0) to expert (1). A
    method with one seed has no interval anywhere, and no probability of improvement.
    """

    rows: tuple[ScoreRow, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: Mapping[tuple[str, str], TaskScore]
    """(method, task) → mean, standard error, seeds, and 95 % bootstrap interval."""
    aggregates: Mapping[tuple[str, str], Estimate]
    """(method, statistic) → value and 95 % stratified-bootstrap interval; see ``aggregate.STATISTICS``."""
    improvements: Mapping[tuple[str, str], Estimate | None]
    """(method, other) → probability that a run of the first beats one of the other; None if either has one seed."""
    profiles: Mapping[str, Profile]
    """Method → performance profile."""

    def to_json(self) -> dict[str, Any]:
        """The same tables as lists, names and floats."""
        profiles = {
            method: {
                name: None if values is None else np.round(values, 4).tolist()
                for name, values in profile._asdict().items()
            }
            for method, profile in self.profiles.items()
        }
        undefined = Estimate._make([None] * 3)
        improvements = {pair: estimate or undefined for pair, estimate in self.improvements.items()}
        return {
            "rows": [row._asdict() for row in self.rows],
            "cells": records(self.cells, "method", "task"),
            "aggregates": records(self.aggregates, "method", "statistic"),
            "improvements": records(improvements, "method", "over"),
            "profiles": {"thresholds": THRESHOLDS.tolist(), **profiles},
        }


def records(table: Mapping[tuple[str, str], Any], *names: str) -> list[dict[str, Any]]:
    """A table of named tuples as a list of objects, with ``names`` for the two parts of its keys."""
    return [{**dict(zip(names, key, strict=True)), **value._asdict()} for key, value in table.items()]


def scoreboard(
    rows: Iterable[ScoreRow | tuple[str, str, int, float]],
    *,
    experts: Mapping[str, Expert] | None = None,
    resamples: int = 5000,
    seed: int = 0,
) -> Scoreboard:
    """Compare methods by rows (method, task, seed, score).

    Every method must have the same tasks, and the same seeds in all of them; ``complete_rows`` selects such rows.
    ``experts``: task → return of an expert, or (random, expert) where a random policy does not earn 0; URLB's twelve
    tasks by default.
    """
    if not is_integer(resamples) or not 1 <= resamples <= MAX_RESAMPLES:
        raise UserError(f"resamples must be a whole number from 1 to {MAX_RESAMPLES:,}; got {resamples!r}.")
    if not is_integer(seed) or seed < 0:
        raise UserError(f"seed must be a whole number of at least 0; got {seed!r}.")
    parsed = tuple(parse_row(row) for row in rows)
    if not parsed:
        raise UserError("There are no scores to compare; give rows of method, task, seed and score.")
    raw, normalised = matrices(parsed), matrices(normalise(parsed, experts))
    methods = tuple(normalised)
    fewer = min(resamples, 2000)
    improvements: dict[tuple[str, str], Estimate | None] = {}
    for index, method in enumerate(methods):
        for other in methods[index + 1 :]:
            # Normalising does not change which of two scores in a task is higher.
            improvement = aggregate.improvement_estimate(raw[method], raw[other], resamples=fewer, seed=seed)
            improvements[method, other] = improvement
            improvements[other, method] = None if improvement is None else _complement(improvement)
    return Scoreboard(
        rows=parsed,
        methods=methods,
        tasks=tuple(dict.fromkeys(row.task for row in parsed)),
        cells=per_task(parsed, resamples=resamples, seed=seed),
        aggregates={
            (method, name): aggregate.estimate(matrix, statistic, resamples=resamples, seed=seed)
            for method, matrix in normalised.items()
            for name, statistic in aggregate.STATISTICS.items()
        },
        improvements=improvements,
        profiles={
            method: aggregate.performance_profile(matrix, THRESHOLDS, resamples=fewer, seed=seed)
            for method, matrix in normalised.items()
        },
    )


def _complement(improvement: Estimate) -> Estimate:
    """Probability of the reverse improvement: ties count half on both sides, so the two add up to one."""
    ends = improvement.interval
    return Estimate(1 - improvement.value, *((None, None) if ends is None else (1 - ends[1], 1 - ends[0])))


def complete_rows(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The rows of the tasks that every method has, with the seeds that a method has in all of these tasks."""
    table = by_seed(rows)
    methods = {method for method, _ in table}
    tasks = [task for task in {task for _, task in table} if all((method, task) in table for method in methods)]
    seeds = {method: set.intersection(*(set(table[method, task]) for task in tasks)) for method in methods if tasks}
    if not all(seeds.values()):
        return []
    return [row for row in rows if row.task in tasks and row.seed in seeds[row.method]]
