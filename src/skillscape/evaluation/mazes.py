"""How much of a maze a set of skills covers, and how well states identify skills. Pure NumPy on rollout positions.

Every measure reads ``positions`` [k, r, t + 1, 2]: k skills, r rollouts of each, t steps, and x, y. Time 0 is the
start, which all skills share; it counts for coverage and reach, not for I(S; Z) and accuracy. Places are quarter-cells,
squares of side 1/4, sixteen to a cell of the maze.

More rollouts make the measures more precise but do not shift them: coverage and reach, which grow with the number of
episodes, are those of ``COUNTED_EPISODES``; I(S; Z) and accuracy are computed on held-out episodes.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.skill_classifier import QUARTERS_PER_CELL, HeldOut, held_out

COUNTED_EPISODES = 200
"""Number of episodes that coverage and reach refer to, split equally among the skills."""
FOLDS = 10
CELLS_PER_ROLLOUT = 4
"""A maze with more cells than this per rollout of a skill gets more rollouts."""


class MazeMeasures(NamedTuple):
    """The measures of a set of skills in a maze; the functions of the same names define them.

    The last four are None for fewer than two skills.
    """

    coverage: float
    reach: float
    mutual_information: float | None
    skill_accuracy: float | None
    mutual_information_error: float | None
    """Standard error of ``mutual_information`` over rollouts, not over seeds."""
    skill_accuracy_error: float | None


class Measurement(NamedTuple):
    """An estimate and its standard error over the rollouts."""

    value: float
    error: float


def measure(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> MazeMeasures:
    """All measures of one set of rollouts, [k, r, t + 1, 2] with the start at time 0."""
    positions = _checked(positions, layout)
    extent = coverage(positions, layout), reach(positions, layout)
    if len(positions) < 2:
        return MazeMeasures(*extent, None, None, None, None)
    folds = _folds(positions, layout)
    information, accuracy = _information(folds), _accuracy(folds)
    return MazeMeasures(*extent, information.value, accuracy.value, information.error, accuracy.error)


def rollouts_per_skill(least: int, skills: int, layout: Layout) -> int:
    """Number of rollouts of each skill to measure: at least ``least``, more for few skills or a large maze.

    ``least`` = 20 gives at least ``COUNTED_EPISODES`` in total, and up to 200 per skill in a maze with many cells.
    """
    few_skills = -(-10 * least // skills)
    large_maze = min(10 * least, len(layout.cells) // CELLS_PER_ROLLOUT)
    return max(least, few_skills, large_maze)


def coverage(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Fraction of the free quarter-cells that ``COUNTED_EPISODES`` visit, the start included; in (0, 1].

    Of r rollouts of each skill, n = 200 / k are counted (all if r ≤ n). The mean over all choices of n rollouts is
    computed exactly: the probability that no chosen rollout visits a place is hypergeometric.
    """
    quarters = layout.quarter_index(_checked(positions, layout))
    places = QUARTERS_PER_CELL * len(layout.cells)
    visited = np.zeros((*quarters.shape[:2], places), bool)
    np.put_along_axis(visited, quarters, True, axis=2)
    return float((1.0 - _probability_of_none(visited)).sum() / places)


def reach(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Graph distance from the start to the farthest visited cell, as a fraction of the maze's largest; in [0, 1].

    Distances are counted in cells along free paths, around walls. The farthest cell is that of ``COUNTED_EPISODES``,
    chosen and averaged as in ``coverage``.
    """
    cells = layout.cell_index(_checked(positions, layout))
    farthest = layout.distances[cells].max(axis=2)
    # E[max] is the sum over d of the probability that some chosen episode gets at least d moves away.
    gets_there = farthest[:, :, None] >= np.arange(1, layout.farthest_distance + 1)
    return float((1.0 - _probability_of_none(gets_there)).sum() / layout.farthest_distance)


def mutual_information(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Measurement:
    """Mutual information I(S; Z) in nats between the quarter-cell of a state and its skill; in [0, log k].

    I(S; Z) = H(Z) + E log p(z | s) with H(Z) = log k, since skills are equally likely, and p(z | s) a classifier tested
    on held-out rollouts (``skill_classifier``). A classifier can only be worse than the true p(z | s), by an amount
    that falls with the number n of rollouts it is fitted on, so the estimate is the limit of I − c / n through n = 9/10
    and n = 1/2 of the rollouts. S runs over the states after the start. Needs k ≥ 2 and r ≥ 2.

    In contrast to the plug-in estimate from counts, indistinguishable skills give zero.
    """
    return _information(_folds(_checked(positions, layout), layout))


def skill_accuracy(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Measurement:
    """Accuracy of predicting the skill from a single state of a held-out rollout; in [0, 1].

    Predicts the most likely skill by ``skill_classifier`` in ``FOLDS``-fold cross-validation over the rollouts of every
    skill. States are those after the start. Needs k ≥ 2 and r ≥ 2.
    """
    return _accuracy(_folds(_checked(positions, layout), layout))


class _Folds(NamedTuple):
    """The classifier on held-out rollouts, fitted on nearly all others and on half of them."""

    most: HeldOut
    half: HeldOut
    gain: float
    """Weight of the extrapolation to infinitely many rollouts: n⁻¹ of ``most`` over the difference of the two n⁻¹."""


def _folds(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> _Folds:
    skills, rollouts = positions.shape[:2]
    if skills < 2:
        raise UserError(f"I(S;Z) and skill accuracy need at least 2 skills; got {skills}.")
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


def _information(folds: _Folds) -> Measurement:
    most, half = folds.most.log_probability, folds.half.log_probability
    per_rollout = np.log(len(most)) + most + folds.gain * (most - half)
    mean = float(np.clip(per_rollout.mean(), 0.0, np.log(len(most))))
    return Measurement(mean, _standard_error(per_rollout))


def _accuracy(folds: _Folds) -> Measurement:
    return Measurement(float(folds.most.correct.mean()), _standard_error(folds.most.correct))


def _standard_error(per_rollout: Float[np.ndarray, "k r"]) -> float:
    """Standard error of the mean over independent rollouts, for a fixed set of skills."""
    return float(np.sqrt(per_rollout.var(axis=1, ddof=1).mean() / per_rollout.size))


def _probability_of_none(events: Bool[np.ndarray, "k r m"]) -> Float[np.ndarray, " m"]:
    """Probability that each of m events happens in none of the counted rollouts."""
    skills, rollouts, _ = events.shape
    counted = min(rollouts, max(1, COUNTED_EPISODES // skills))
    # log of the number of ways to choose ``counted`` of n rollouts, for n = 0 … r.
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, rollouts + 1)))])
    enough = np.arange(counted, rollouts + 1)
    ways = np.full(rollouts + 1, -np.inf)
    ways[enough] = factorial[enough] - factorial[enough - counted]
    return np.asarray(np.exp((ways - ways[-1])[rollouts - events.sum(axis=1)]).prod(axis=0))


def _checked(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Float[np.ndarray, "k r t 2"]:
    """The positions as float64; raises ``UserError`` for a wrong shape, non-finite values or positions outside."""
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
