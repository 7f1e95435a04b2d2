"""A classifier that names the skill of a state from its place in a maze, fitted on some episodes and tested on others.

It is what I(S; Z) and skill accuracy are measured with. Places are the quarter-cells of ``Layout.quarter_index``. The
classifier counts visits, spreads the counts over neighbouring places by a diffusion that walls stop, at several scales,
and backs off from each scale to the next coarser one:

    p_j(z | s) = (c_j(z, s) + a_j p_{j+1}(z | s)) / (Σ_z' c_j(z', s) + a_j),    p(z | s) = 1/k at the coarsest

with c_j the counts at scale j and a_j how many counts the coarser scale is worth. The a_j are those with the highest
held-out likelihood, so skills that cannot be told apart give 1/k and not the noise of small counts. Whole episodes are
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
"""Diffusion steps on quarter-cells, one after the other: standard deviations of 0, 0.27 and 0.5 cells."""
CELL_DIFFUSION = (0, 3, 7, 30)
"""Diffusion steps on whole cells, one after the other: standard deviations of 0, 1.1, 2 and 4 cells."""
STAY = 0.2
"""Share of a count that stays in its place in a diffusion step; each of the four neighbours receives as much."""
CONCENTRATIONS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e9)
"""Candidates for a_j; the last one ignores its scale."""
SWEEPS = 2
"""How often the a_j are chosen, each in turn with the others held."""


class HeldOut(NamedTuple):
    """How well the classifier did on episodes it was not fitted on, as means over the states of each episode."""

    log_probability: Float[np.ndarray, "k r"]
    """log p(z | s) of the true skill, in nats."""
    correct: Float[np.ndarray, "k r"]
    """How often the most likely skill is the true one; a tie earns the chance of a fair draw."""


class _Visits(NamedTuple):
    """States of all episodes, one row for each place that an episode visited."""

    skill: Int[np.ndarray, " n"]
    episode: Int[np.ndarray, " n"]
    fold: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    states: Float[np.ndarray, " n"]


def held_out(quarters: Int[np.ndarray, "k r t"], layout: Layout, folds: int) -> HeldOut:
    """Test the classifier on every episode, fitted on the other folds.

    quarters: the quarter-cell of each of t states in r episodes of k skills. Fold f holds the episodes f, f + folds, …
    of every skill, so that skills are equally frequent in what the classifier is fitted on.
    """
    skills, rollouts, length = quarters.shape
    visits = _visits(quarters, folds)
    scales = list(_scales(visits, skills, folds, layout))
    index = (visits.fold, visits.skill, visits.place)
    own = np.stack([scale[index] for scale in scales])
    total = np.stack([scale.sum(axis=1)[visits.fold, visits.place] for scale in scales])
    concentrations = _fitted(own, total, visits.states, skills)
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
    """For each quarter-cell and each cell, its neighbours to the left, below, right and above; itself at a wall."""
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


def _fitted(
    own: Float[np.ndarray, "j n"], total: Float[np.ndarray, "j n"], states: Float[np.ndarray, " n"], skills: int
) -> list[float]:
    """The concentrations a_j with the highest held-out likelihood, by coordinate ascent."""
    chosen = [1.0] * len(own)

    def likelihood(concentrations: list[float]) -> float:
        probability = np.full(own.shape[1], 1.0 / skills)
        for mine, every, concentration in zip(reversed(own), reversed(total), reversed(concentrations), strict=True):
            probability = (mine + concentration * probability) / (every + concentration)
        # Not a dot product, which would wake a pool of threads for every candidate.
        return float(np.sum(states * np.log(probability)))

    for _ in range(SWEEPS):
        for scale in range(len(own)):
            chosen[scale] = max(
                CONCENTRATIONS, key=lambda value: likelihood([*chosen[:scale], value, *chosen[scale + 1 :]])
            )
    return chosen
