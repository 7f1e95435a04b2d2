"""How well a set of skills fills a maze and can be told apart. Pure NumPy on the positions of finished rollouts.

Every measure reads ``positions`` [k, r, t + 1, 2]: k skills, r rollouts of each, t steps, and x, y. Index 0 along time
is the start, the same for all skills by construction; it counts for where skills have been, not for telling them apart.
Places are quarter-cells, squares of side 1/4, sixteen in a cell of the maze.

No measure depends on how many rollouts it is given, beyond its precision. Coverage and reach grow with the number of
episodes, so they are those of ``COUNTED_EPISODES``. I(S; Z) and accuracy are tested on episodes that were held out.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.skill_classifier import QUARTERS_PER_CELL, HeldOut, held_out

COUNTED_EPISODES = 200
"""Episodes that coverage and reach are those of, shared equally among the skills."""
FOLDS = 10
CELLS_PER_ROLLOUT = 4
"""A maze with more than this many cells for each rollout of a skill is given more rollouts."""


class MazeMeasures(NamedTuple):
    """The measures of a set of skills in a maze; the functions of the same names define them.

    The last four are None for a method without skills, or with one: there is nothing to tell apart.
    """

    coverage: float
    reach: float
    distinguishability: float | None
    skill_accuracy: float | None
    distinguishability_error: float | None
    """Standard error of ``distinguishability`` over the rollouts; seeds are another matter."""
    skill_accuracy_error: float | None


class Measured(NamedTuple):
    """An estimate and its standard error over the rollouts it was made from."""

    value: float
    error: float


def measure(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> MazeMeasures:
    """All measures of one set of rollouts, [k, r, t + 1, 2] with the start at time 0."""
    positions = _checked(positions, layout)
    filled = coverage(positions, layout), reach(positions, layout)
    if len(positions) < 2:
        return MazeMeasures(*filled, None, None, None, None)
    folds = _folds(positions, layout)
    separation, accuracy = _information(folds), _accuracy(folds)
    return MazeMeasures(*filled, separation.value, accuracy.value, separation.error, accuracy.error)


def rollouts_per_skill(least: int, skills: int, layout: Layout) -> int:
    """How many rollouts of each skill to measure on: ``least``, and more with few skills or in a large maze.

    With 20 as the least there are never fewer than ``COUNTED_EPISODES`` in all, and up to 200 of each skill where the
    maze has many cells to be told apart.
    """
    few_skills = -(-10 * least // skills)
    large_maze = min(10 * least, len(layout.cells) // CELLS_PER_ROLLOUT)
    return max(least, few_skills, large_maze)


def coverage(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Fraction of the free quarter-cells that ``COUNTED_EPISODES`` visit, the start included; in (0, 1].

    Of r rollouts of each skill, n = 200 / k are counted (all where r ≤ n): the mean over every choice of n of them is
    computed exactly, as the chance that none of the rollouts that visit a place is chosen is hypergeometric.
    """
    quarters = layout.quarter_index(_checked(positions, layout))
    places = QUARTERS_PER_CELL * len(layout.cells)
    visited = _visited(quarters, places)
    return float((1.0 - _missed(visited)).sum() / places)


def reach(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Moves from the start cell to the farthest cell visited, over those to the farthest cell of the maze; in [0, 1].

    Moves are counted on the graph of cells, around walls, so a point that is near through a wall is far. The farthest
    cell is that of ``COUNTED_EPISODES``, chosen and averaged as in ``coverage``.
    """
    cells = layout.cell_index(_checked(positions, layout))
    farthest = layout.distances[cells].max(axis=2)
    # E[max] is the sum over d of the chance that some chosen episode gets at least d moves away.
    gets_there = farthest[:, :, None] >= np.arange(1, layout.farthest_distance + 1)
    return float((1.0 - _missed(gets_there)).sum() / layout.farthest_distance)


def distinguishability(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Measured:
    """Mutual information I(S; Z) in nats between the quarter-cell of a state and its skill; in [0, log k].

    I(S; Z) = H(Z) + E log p(z | s) with H(Z) = log k, since skills are equally likely, and p(z | s) a classifier tested
    on rollouts that it was not fitted on (``skill_classifier``). A classifier can only be worse than the true p(z | s),
    by an amount that falls with the number n of rollouts it is fitted on, so the estimate is the limit of I − c / n
    through n = 9/10 and n = 1/2 of the rollouts. S runs over the states after the start. Needs k ≥ 2 and r ≥ 2.

    In contrast to the plug-in estimate from counts, skills that cannot be told apart give zero.
    """
    return _information(_folds(_checked(positions, layout), layout))


def skill_accuracy(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Measured:
    """How often the skill is guessed from a single state of a rollout that the guesser has not seen; in [0, 1].

    The guess is the most likely skill by ``skill_classifier``, fitted on 9/10 of the rollouts of every skill and tested
    on the rest, for each tenth in turn. States are those after the start. Needs k ≥ 2 and r ≥ 2.
    """
    return _accuracy(_folds(_checked(positions, layout), layout))


class _Folds(NamedTuple):
    """The classifier on held-out rollouts: fitted on nearly all others, and on half of them."""

    most: HeldOut
    half: HeldOut
    gain: float
    """1 / n of the most, over how much larger 1 / n of the half is."""


def _folds(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> _Folds:
    skills, rollouts = positions.shape[:2]
    if skills < 2:
        raise UserError("I(S;Z) and skill accuracy need at least 2 skills; with one there is nothing to tell apart.")
    if rollouts < 2:
        raise UserError(
            "I(S;Z) and skill accuracy need at least 2 rollouts per skill, one to fit on and one to test on."
        )
    quarters = layout.quarter_index(positions[:, :, 1:])
    folds = min(FOLDS, rollouts)
    most = held_out(quarters, layout, folds)
    if rollouts < 4:  # too few for a half that differs from the most
        return _Folds(most, most, 0.0)
    inverse = folds / (folds - 1)
    return _Folds(most, held_out(quarters, layout, 2), inverse / (2.0 - inverse))


def _information(folds: _Folds) -> Measured:
    most, half = folds.most.log_probability, folds.half.log_probability
    per_rollout = np.log(len(most)) + most + folds.gain * (most - half)
    mean = float(np.clip(per_rollout.mean(), 0.0, np.log(len(most))))
    return Measured(mean, _standard_error(per_rollout))


def _accuracy(folds: _Folds) -> Measured:
    return Measured(float(folds.most.correct.mean()), _standard_error(folds.most.correct))


def _standard_error(per_rollout: Float[np.ndarray, "k r"]) -> float:
    """Of the mean over all rollouts, which are independent; skills are not drawn but all there are."""
    skills, rollouts = per_rollout.shape
    return float(np.sqrt(per_rollout.var(axis=1, ddof=1).mean() / (skills * rollouts)))


def _visited(places: Int[np.ndarray, "k r t"], number: int) -> Bool[np.ndarray, "k r m"]:
    visited = np.zeros((*places.shape[:2], number), bool)
    np.put_along_axis(visited, places, True, axis=2)
    return visited


def _missed(happens: Bool[np.ndarray, "k r m"]) -> Float[np.ndarray, " m"]:
    """Chance that something happens in none of the rollouts that are counted, for each of m things."""
    skills, rollouts, _ = happens.shape
    counted = min(rollouts, max(1, COUNTED_EPISODES // skills))
    # log of the number of ways to choose ``counted`` of n rollouts, for n = 0 … r.
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, rollouts + 1)))])
    enough = np.arange(counted, rollouts + 1)
    ways = np.full(rollouts + 1, -np.inf)
    ways[enough] = factorial[enough] - factorial[enough - counted]
    missed: Float[np.ndarray, " m"] = np.exp((ways - ways[-1])[rollouts - happens.sum(axis=1)]).prod(axis=0)
    return missed


def _checked(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Float[np.ndarray, "k r t 2"]:
    """The positions as float64, or one sentence about what is wrong with them."""
    positions = np.asarray(positions, dtype=np.float64)
    if positions.ndim != 4 or positions.shape[-1] != 2 or 0 in positions.shape or positions.shape[2] < 2:
        raise UserError(
            f"Positions must be [skills, rollouts, steps + 1, 2] with at least one step, not {positions.shape}."
        )
    if not np.isfinite(positions).all():
        raise UserError("Positions must be finite; some are NaN or infinite.")
    outside = layout.cell_index(positions) < 0
    if outside.any():
        x, y = positions[outside][0]
        raise UserError(f"{outside.sum()} positions lie outside of {layout.name}, the first at ({x:.3f}, {y:.3f}).")
    return positions
