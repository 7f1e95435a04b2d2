"""How well a set of skills fills a maze and can be told apart. Pure NumPy on the positions of finished rollouts.

Every measure reads ``positions`` [k, r, t + 1, 2]: k skills, r rollouts of each, t steps, and x, y. Index 0 along time
is the start, the same for all skills by construction; it counts for where skills have been, not for telling them apart.
Places are quarter-cells, squares of side 1/4, sixteen in a cell of the maze.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from skillscape.envs.layouts import Layout
from skillscape.errors import UserError

QUARTERS_PER_CELL = 16


class MazeMeasures(NamedTuple):
    """The four numbers of a set of skills in a maze; the functions of the same names define them."""

    coverage: float
    reach: float
    distinguishability: float
    skill_accuracy: float


def measure(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> MazeMeasures:
    """All measures of one set of rollouts, [k, r, t + 1, 2] with the start at time 0."""
    return MazeMeasures(
        coverage(positions, layout),
        reach(positions, layout),
        distinguishability(positions, layout),
        skill_accuracy(positions, layout),
    )


def coverage(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Fraction of the free quarter-cells that any rollout of any skill visits, the start included; in (0, 1]."""
    visited = np.unique(layout.quarter_index(_checked(positions, layout)))
    return visited.size / (QUARTERS_PER_CELL * len(layout.cells))


def reach(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Moves from the start cell to the farthest cell visited, over those to the farthest cell of the maze; in [0, 1].

    Moves are counted on the graph of cells, around walls, so a point that is near through a wall is far.
    """
    cells = layout.cell_index(_checked(positions, layout))
    return float(layout.distances[cells].max() / layout.farthest_distance)


def distinguishability(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """Mutual information I(S; Z) in nats between the quarter-cell of a state and its skill; in [0, log k].

    S runs over the states after the start, skills are equally likely. The estimate is bias-corrected (see
    ``mutual_information``) and clipped to the range the true value has. States of one rollout depend on each other, so
    the correction, made for independent samples, removes only part of the bias of short samples.
    """
    positions = _checked(positions, layout)
    information = mutual_information(_quarter_counts(positions, layout))
    return float(np.clip(information, 0.0, np.log(positions.shape[0])))


def skill_accuracy(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> float:
    """How often the skill is guessed from a single state of a rollout that the guesser has not seen; in [0, 1].

    The guesser is a histogram: the skill that visited the state's quarter-cell most often in one half of the rollouts
    of every skill, tested on the other half, then the halves swapped. Where the fitting half never was in that
    quarter-cell, or counts tie, it backs off to counts of the whole cell; remaining ties earn the chance of a fair
    draw, so that the order of the skills cannot matter. States are those after the start; needs r ≥ 2.
    """
    positions = _checked(positions, layout)
    rollouts = positions.shape[1]
    if rollouts < 2:
        raise UserError("skill_accuracy needs at least 2 rollouts per skill, one to fit on and one to test on.")
    half = rollouts // 2
    first, second = (_quarter_counts(part, layout) for part in (positions[:, :half], positions[:, half:]))
    correct = _correct_guesses(first, second) + _correct_guesses(second, first)
    return correct / float(first.sum() + second.sum())


def mutual_information(counts: Int[np.ndarray, "k m"], *, corrected: bool = True) -> float:
    """I(S; Z) = H(S) + H(Z) − H(S, Z) in nats from joint counts [k, m] of skill (rows) and place (columns)."""
    return float(
        entropy(counts.sum(axis=0), corrected=corrected)
        + entropy(counts.sum(axis=1), corrected=corrected)
        - entropy(counts, corrected=corrected)
    )


def entropy(counts: Int[np.ndarray, "..."], *, corrected: bool = True) -> float:
    """Entropy in nats of the distribution that N counts were drawn from.

    H = −Σ p log p + (m − 1) / 2N with p the observed fractions and m the number of non-empty bins. The second term is
    the correction of Miller (1955) and Madow for the plug-in estimate, which is too low; ``corrected=False`` drops it.
    """
    seen = counts[counts > 0]
    total = seen.sum()
    fractions = seen / total
    plug_in = -np.sum(fractions * np.log(fractions))
    return float(plug_in + (seen.size - 1) / (2 * total) if corrected else plug_in)


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


def _quarter_counts(positions: Float[np.ndarray, "k r t 2"], layout: Layout) -> Int[np.ndarray, "k m"]:
    """Visits of each skill to each quarter-cell after the start: [k, 16 c], the sixteen of a cell side by side."""
    skills = positions.shape[0]
    places = QUARTERS_PER_CELL * len(layout.cells)
    quarters = layout.quarter_index(positions[:, :, 1:]).reshape(skills, -1)
    joint = np.arange(skills)[:, None] * places + quarters
    return np.bincount(joint.ravel(), minlength=skills * places).reshape(skills, places)


def _correct_guesses(fitting: Int[np.ndarray, "k m"], testing: Int[np.ndarray, "k m"]) -> float:
    """Expected number of test states whose skill the histogram of the fitting counts guesses right."""
    cells = fitting.reshape(len(fitting), -1, QUARTERS_PER_CELL).sum(axis=2).repeat(QUARTERS_PER_CELL, axis=1)
    # Integers that rank by quarter-cell first and cell second: exact, so a tie is a tie whatever the numbers.
    votes = fitting * (cells.max() + 1) + cells
    best = votes == votes.max(axis=0)
    return float(np.sum(testing * best / best.sum(axis=0)))
