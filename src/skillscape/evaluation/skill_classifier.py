"""A classifier p(z | s) of the skill from the position in a maze, cross-validated over episodes.

I(S; Z) and skill accuracy are computed from it. Places are the quarter-cells of ``Layout.quarter_index``. The
classifier counts visits, smooths the counts over neighbouring places by a diffusion that stops at walls, at several
scales, and backs off from each scale to the next coarser one:

    p_j(z | s) = (c_j(z, s) + a_j p_{j+1}(z | s)) / (Σ_z' c_j(z', s) + a_j),    p(z | s) = 1/k at the coarsest

with c_j the counts at scale j and a_j the concentration: the weight of the coarser scale in counts. The a_j maximise
the held-out likelihood, so that indistinguishable skills give 1/k and not the noise of small counts. Whole episodes are
held out, because the states of one episode depend on each other.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from skillscape.envs.mazes.layouts import Layout

QUARTERS_PER_CELL = 16
QUARTER_DIFFUSION = (0, 3, 7)
"""Successive diffusion steps on quarter-cells: standard deviations of 0, 0.27 and 0.5 cells."""
CELL_DIFFUSION = (0, 3, 7, 30)
"""Successive diffusion steps on whole cells: standard deviations of 0, 1.1, 2 and 4 cells."""
STAY = 0.2
"""Fraction of a count that stays in place in a diffusion step; each of the four neighbours receives as much."""
CONCENTRATIONS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e9)
"""Candidates for a_j; the last one ignores its scale."""
SWEEPS = 2
"""Passes of coordinate ascent over the a_j."""


class HeldOut(NamedTuple):
    """Results of the classifier on held-out episodes, as means over the states of each episode."""

    log_probability: Float[np.ndarray, "k r"]
    """log p(z | s) of the true skill, in nats."""
    correct: Float[np.ndarray, "k r"]
    """Fraction of states whose most likely skill is the true one; an m-way tie counts 1/m."""


class _Visits(NamedTuple):
    """States of all episodes, one row per episode and visited place; ``states`` is their number."""

    skill: Int[np.ndarray, " n"]
    episode: Int[np.ndarray, " n"]
    fold: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    states: Float[np.ndarray, " n"]


def held_out(quarters: Int[np.ndarray, "k r t"], layout: Layout, folds: int) -> HeldOut:
    """Test the classifier on every episode after fitting it on the other folds.

    quarters: the quarter-cell of each of t states in r episodes of k skills. Fold f holds the episodes f, f + folds, …
    of every skill, so that the skills are balanced in the training folds.
    """
    skills, rollouts, length = quarters.shape
    visits = _visits(quarters, folds)
    scales = list(_scales(visits, skills, folds, layout))
    index = (visits.fold, visits.skill, visits.place)
    own = np.stack([scale[index] for scale in scales])
    total = np.stack([scale.sum(axis=1)[visits.fold, visits.place] for scale in scales])
    concentrations = _fit_concentrations(own, total, visits.states, skills)
    posterior = np.full_like(scales[0], 1.0 / skills)
    for scale, concentration in zip(reversed(scales), reversed(concentrations), strict=True):
        posterior = (scale + concentration * posterior) / (scale.sum(axis=1, keepdims=True) + concentration)
    log_probability = np.log(posterior[index])
    candidates = posterior[visits.fold, :, visits.place]
    best = candidates >= candidates.max(axis=1, keepdims=True) * (1 - 1e-9)
    correct = best[np.arange(len(best)), visits.skill] / best.sum(axis=1)
    row = visits.skill * rollouts + visits.episode
    log_means, correct_means = (
        np.bincount(row, visits.states * values, minlength=skills * rollouts).reshape(skills, rollouts) / length
        for values in (log_probability, correct)
    )
    return HeldOut(log_means, correct_means)


def _visits(quarters: Int[np.ndarray, "k r t"], folds: int) -> _Visits:
    skills, rollouts, _ = quarters.shape
    places = int(quarters.max()) + 1
    episode = np.arange(skills * rollouts).reshape(skills, rollouts, 1)
    visited, states = np.unique(episode * places + quarters, return_counts=True)
    skill, number = np.divmod(visited // places, rollouts)
    return _Visits(skill, number, number % folds, visited % places, states.astype(np.float64))


def _scales(visits: _Visits, skills: int, folds: int, layout: Layout) -> Iterator[Float[np.ndarray, "f k m"]]:
    """Counts outside of each fold at every scale, finest first."""
    places = QUARTERS_PER_CELL * len(layout.cells)
    joint = (visits.fold * skills + visits.skill) * places + visits.place
    counts = np.bincount(joint, visits.states, minlength=folds * skills * places).reshape(folds, skills, places)
    counts = counts.sum(axis=0) - counts
    quarter_neighbours, cell_neighbours = _neighbours(layout)
    spread = counts
    for steps in QUARTER_DIFFUSION:
        spread = _diffused(spread, quarter_neighbours, steps)
        yield spread
    by_cell = counts.reshape(folds, skills, -1, QUARTERS_PER_CELL).mean(axis=-1)
    for steps in CELL_DIFFUSION:
        by_cell = _diffused(by_cell, cell_neighbours, steps)
        yield by_cell.repeat(QUARTERS_PER_CELL, axis=-1)


def _diffused(
    counts: Float[np.ndarray, "f k m"], neighbours: Int[np.ndarray, "4 m"], steps: int
) -> Float[np.ndarray, "f k m"]:
    for _ in range(steps):
        counts = STAY * (counts + sum(counts[..., toward] for toward in neighbours))
    return counts


@cache
def _neighbours(layout: Layout) -> tuple[Int[np.ndarray, "4 m"], Int[np.ndarray, "4 c"]]:
    """Neighbours of each quarter-cell and each cell: left, below, right and above; the place itself at a wall."""
    columns, rows = (np.asarray(layout.cells) - layout.origin).T
    itself = np.arange(len(layout.cells))
    grid = np.pad(layout.cell_grid, 1, constant_values=-1)
    cells, quarters = [], []
    within = np.arange(QUARTERS_PER_CELL).reshape(4, 4)
    for high in (0, 1):
        for axis in (0, 1):
            sign = 2 * high - 1
            beyond = grid[columns + 1 + sign * (axis == 0), rows + 1 + sign * (axis == 1)]
            toward = np.where(layout.sides[columns, rows, high, axis], itself, beyond)
            cells.append(toward)
            # Inside a cell the next quarter; at its edge the quarter across, or the same one at a wall.
            shifted = np.roll(within, -sign, axis=axis)
            edge = np.zeros((4, 4), bool)
            edge[(slice(None),) * axis + (3 if high else 0,)] = True
            crossing = np.where((toward == itself)[:, None, None], within, shifted) + 16 * toward[:, None, None]
            inside = shifted + 16 * itself[:, None, None]
            quarters.append(np.where(edge, crossing, inside).reshape(-1))
    return np.stack(quarters), np.stack(cells)


def _fit_concentrations(
    own: Float[np.ndarray, "j n"], total: Float[np.ndarray, "j n"], states: Float[np.ndarray, " n"], skills: int
) -> list[float]:
    """The concentrations a_j with the highest held-out likelihood, by coordinate ascent."""
    concentrations = [1.0] * len(own)

    def likelihood(candidates: list[float]) -> float:
        probability = np.full(own.shape[1], 1.0 / skills)
        for count, sum_, concentration in zip(reversed(own), reversed(total), reversed(candidates), strict=True):
            probability = (count + concentration * probability) / (sum_ + concentration)
        # Not a dot product, which would wake a pool of threads for every candidate.
        return float(np.sum(states * np.log(probability)))

    for _ in range(SWEEPS):
        for scale in range(len(own)):
            concentrations[scale] = max(
                CONCENTRATIONS,
                key=lambda value: likelihood([*concentrations[:scale], value, *concentrations[scale + 1 :]]),
            )
    return concentrations
