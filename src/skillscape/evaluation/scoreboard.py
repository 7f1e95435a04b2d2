"""Rows of scores in, every table of a comparison out. Pure NumPy, seeded.

>>> rows = [("sd3", "walker_walk", 0, 850.0), ("sd3", "walker_walk", 1, 880.0)]
>>> rows += [("ddpg", "walker_walk", 0, 700.0), ("ddpg", "walker_walk", 1, 640.0)]
>>> board = scoreboard(rows)
>>> board.cells["sd3", "walker_walk"], board.aggregates["sd3", "IQM"], board.improvements["sd3", "ddpg"]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from skillscape.errors import UserError
from skillscape.evaluation.aggregate import (
    STATISTICS,
    Estimate,
    estimate,
    improvement_estimate,
    performance_profile,
    profile_interval,
)
from skillscape.evaluation.scores import Cell, Expert, Row, checked_row, is_whole, matrices, normalise, per_task

THRESHOLDS = np.round(np.linspace(0.0, 1.2, 61), 2)
MOST_RESAMPLES = 100_000
"""More would take memory, and change no digit that is printed."""


class Profile(NamedTuple):
    """Share of runs above each of ``THRESHOLDS``, and the ends of its pointwise interval, None for one seed."""

    value: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"] | None
    high: Float[np.ndarray, " m"] | None


@dataclass(frozen=True)
class Scoreboard:
    """A comparison of methods over tasks and seeds.

    Cells and improvements are of the scores as given; aggregates and profiles of scores from random (0) to expert (1).
    A method with one seed has no interval anywhere, and no probability of improvement.
    """

    rows: tuple[Row, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    """(method, task) → mean, standard error, seeds, and 95 % bootstrap interval."""
    aggregates: Mapping[tuple[str, str], Estimate]
    """(method, statistic) → value and 95 % stratified-bootstrap interval; see ``aggregate.STATISTICS``."""
    improvements: Mapping[tuple[str, str], Estimate | None]
    """(method, other) → how likely a run of the first beats one of the other; None where either has one seed."""
    profiles: Mapping[str, Profile]
    """Method → performance profile."""

    def to_json(self) -> dict[str, Any]:
        """The same tables as plain lists, names and floats."""
        return {
            "rows": [row._asdict() for row in self.rows],
            "cells": [
                {"method": method, "task": task, **cell._asdict()} for (method, task), cell in self.cells.items()
            ],
            "aggregates": [
                {"method": method, "statistic": name, **found._asdict()}
                for (method, name), found in self.aggregates.items()
            ],
            "improvements": [
                {
                    "method": method,
                    "over": other,
                    **(dict.fromkeys(Estimate._fields) if found is None else found._asdict()),
                }
                for (method, other), found in self.improvements.items()
            ],
            "profiles": {
                "thresholds": THRESHOLDS.tolist(),
                **{
                    method: {
                        name: None if part is None else np.round(part, 4).tolist()
                        for name, part in profile._asdict().items()
                    }
                    for method, profile in self.profiles.items()
                },
            },
        }


def scoreboard(
    rows: Iterable[Row | tuple[str, str, int, float]],
    *,
    experts: Mapping[str, Expert] | None = None,
    resamples: int = 5000,
    seed: int = 0,
) -> Scoreboard:
    """Compare methods by rows (method, task, seed, score).

    Every method must have the same tasks, and in each of them the same seeds; ``complete`` makes such rows of others.
    ``experts``: task → return of an expert, or (random, expert) where a random policy does not earn 0; URLB's twelve
    if not given.
    """
    if not is_whole(resamples) or not 1 <= resamples <= MOST_RESAMPLES:
        raise UserError(f"resamples must be a whole number from 1 to {MOST_RESAMPLES:,}; got {resamples!r}.")
    if not is_whole(seed) or seed < 0:
        raise UserError(f"seed must be a whole number of at least 0; got {seed!r}.")
    given = tuple(checked_row(row) for row in rows)
    if not given:
        raise UserError("There are no scores to compare; give rows of method, task, seed and score.")
    raw, scores = matrices(given), matrices(normalise(given, experts))
    methods = tuple(scores)
    improvements: dict[tuple[str, str], Estimate | None] = {}
    for index, method in enumerate(methods):
        for other in methods[index + 1 :]:
            # Which of two scores in a task is higher does not depend on the expert's.
            found = improvement_estimate(raw[method], raw[other], resamples=min(resamples, 2000), seed=seed)
            improvements[method, other] = found
            improvements[other, method] = None if found is None else _turned_round(found)
    return Scoreboard(
        rows=given,
        methods=methods,
        tasks=tuple(dict.fromkeys(row.task for row in given)),
        cells=per_task(given, resamples=resamples, seed=seed),
        aggregates={
            (method, name): estimate(matrix, statistic, resamples=resamples, seed=seed)
            for method, matrix in scores.items()
            for name, statistic in STATISTICS.items()
        },
        improvements=improvements,
        profiles={
            method: Profile(
                performance_profile(matrix, THRESHOLDS),
                *(profile_interval(matrix, THRESHOLDS, resamples=min(resamples, 2000), seed=seed) or (None, None)),
            )
            for method, matrix in scores.items()
        },
    )


def _turned_round(found: Estimate) -> Estimate:
    """The probability of the other direction: a tie counts half on both sides, so the two add up to one."""
    ends = found.interval
    return Estimate(1 - found.value, *((None, None) if ends is None else (1 - ends[1], 1 - ends[0])))


def complete(rows: Sequence[Row]) -> list[Row]:
    """The rows of tasks that every method has, and in these of the seeds that a method has in all of them."""
    methods = dict.fromkeys(row.method for row in rows)
    found = {(row.method, row.task) for row in rows}
    tasks = {row.task for row in rows if all((method, row.task) in found for method in methods)}
    kept = [row for row in rows if row.task in tasks]
    seeds: dict[str, set[int]] = {}
    for method, task in sorted({(row.method, row.task) for row in kept}):
        have = {row.seed for row in kept if (row.method, row.task) == (method, task)}
        seeds[method] = seeds.get(method, have) & have
    if not all(seeds.values()):
        return []
    return [row for row in kept if row.seed in seeds[row.method]]
