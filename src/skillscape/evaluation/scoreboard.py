"""Rows of scores in, every table of a comparison out. Pure NumPy, seeded.

>>> rows = [("sd3", "walker_walk", 0, 850.0), ("sd3", "walker_walk", 1, 880.0), ("ddpg", "walker_walk", 0, 700.0)]
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
from skillscape.evaluation.scores import Cell, Row, matrices, normalise, per_task

THRESHOLDS = np.round(np.linspace(0.0, 1.2, 61), 2)


class Profile(NamedTuple):
    """Share of runs above each of ``THRESHOLDS``, and the ends of its pointwise interval."""

    value: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"]
    high: Float[np.ndarray, " m"]


@dataclass(frozen=True)
class Scoreboard:
    """A comparison of methods over tasks and seeds. Cells are raw returns, all the rest are shares of the expert's."""

    rows: tuple[Row, ...]
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    """(method, task) → mean ± standard error."""
    aggregates: Mapping[tuple[str, str], Estimate]
    """(method, statistic) → value and 95 % stratified-bootstrap interval; see ``aggregate.STATISTICS``."""
    improvements: Mapping[tuple[str, str], Estimate]
    """(method, other) → how likely a run of the first beats one of the other."""
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
                {"method": method, "over": other, **found._asdict()}
                for (method, other), found in self.improvements.items()
            ],
            "profiles": {
                "thresholds": THRESHOLDS.tolist(),
                **{
                    method: {name: np.round(part, 4).tolist() for name, part in profile._asdict().items()}
                    for method, profile in self.profiles.items()
                },
            },
        }


def scoreboard(
    rows: Iterable[Row | tuple[str, str, int, float]],
    *,
    experts: Mapping[str, float] | None = None,
    resamples: int = 5000,
    seed: int = 0,
) -> Scoreboard:
    """Compare methods by rows (method, task, seed, score).

    Every method must have the same tasks, and in each of them the same seeds; ``complete`` makes such rows of others.
    ``experts``: task → return of an expert, URLB's twelve if not given.
    """
    given = tuple(Row(*row) for row in rows)
    if not given:
        raise UserError("There are no scores to compare; give rows of method, task, seed and score.")
    scores = matrices(normalise(given, experts))
    methods = tuple(scores)
    improvements = {}
    for index, method in enumerate(methods):
        for other in methods[index + 1 :]:
            found = improvement_estimate(scores[method], scores[other], resamples=min(resamples, 2000), seed=seed)
            improvements[method, other] = found
            # A tie counts half on both sides, so the two directions add up to one.
            improvements[other, method] = Estimate(1 - found.value, 1 - found.high, 1 - found.low)
    return Scoreboard(
        rows=given,
        methods=methods,
        tasks=tuple(dict.fromkeys(row.task for row in given)),
        cells=per_task(given),
        aggregates={
            (method, name): estimate(matrix, statistic, resamples=resamples, seed=seed)
            for method, matrix in scores.items()
            for name, statistic in STATISTICS.items()
        },
        improvements=improvements,
        profiles={
            method: Profile(
                performance_profile(matrix, THRESHOLDS),
                *profile_interval(matrix, THRESHOLDS, resamples=min(resamples, 2000), seed=seed),
            )
            for method, matrix in scores.items()
        },
    )


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
