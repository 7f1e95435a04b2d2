"""Aggregates over runs and tasks with stratified-bootstrap intervals. Pure NumPy, seeded.

Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021. A score matrix is
[runs, tasks]; scores are normalised, so that 1 is the expert's.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from skillscape.evaluation.summary import percentile_interval

Scores: TypeAlias = Float[np.ndarray, "runs tasks"]
Resamples: TypeAlias = Float[np.ndarray, "b runs tasks"]
Statistic: TypeAlias = Callable[[Resamples], Float[np.ndarray, " b"]]
"""One number for each of b score matrices."""


def mean(scores: Resamples) -> Float[np.ndarray, " b"]:
    """Mean over tasks of the means over runs."""
    return np.asarray(scores.mean(axis=(-2, -1)))


def median(scores: Resamples) -> Float[np.ndarray, " b"]:
    """Median over tasks of the means over runs."""
    return np.asarray(np.median(scores.mean(axis=-2), axis=-1))


def interquartile_mean(scores: Resamples) -> Float[np.ndarray, " b"]:
    """Mean of the middle half of all runs × tasks: ⌊n/4⌋ scores are dropped at each end."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1))


def optimality_gap(scores: Resamples) -> Float[np.ndarray, " b"]:
    """Mean shortfall from the expert, with scores clipped at the expert's."""
    return np.asarray(1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1)))


STATISTICS: dict[str, Statistic] = {
    "median": median,
    "IQM": interquartile_mean,
    "mean": mean,
    "optimality gap": optimality_gap,
}


class Estimate(NamedTuple):
    """A statistic and the ends of its 95 % bootstrap interval, which are None for a single run."""

    value: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high), or None for a single run."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def resample(scores: Scores, resamples: int, generator: np.random.Generator) -> Resamples:
    """``resamples`` matrices whose runs are drawn with replacement, independently in each task (stratified)."""
    runs, tasks = scores.shape
    index = generator.integers(runs, size=(resamples, runs, tasks))
    return scores[index, np.arange(tasks)]


def estimate(scores: Scores, statistic: Statistic, *, resamples: int = 5000, seed: int = 0) -> Estimate:
    """A statistic with its percentile interval from a stratified bootstrap."""
    if scores.ndim != 2 or 0 in scores.shape or not np.isfinite(scores).all():
        raise ValueError("scores must be a matrix [runs, tasks] of finite numbers with at least one run and task")
    value = float(statistic(scores[None])[0])
    if len(scores) == 1:
        return Estimate(value, None, None)
    low, high = percentile_interval(statistic(resample(scores, resamples, np.random.default_rng(seed))))
    return Estimate(value, float(low), float(high))


def probability_of_improvement(ours: Scores, theirs: Float[np.ndarray, "others tasks"]) -> float:
    """P(our run beats theirs) in a task, averaged over tasks; a tie counts half."""
    difference = ours[:, None, :] - theirs[None, :, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def improvement_estimate(
    ours: Scores, theirs: Float[np.ndarray, "others tasks"], *, resamples: int = 2000, seed: int = 0
) -> Estimate | None:
    """``probability_of_improvement`` with its interval; both sides are resampled. None if either has a single run."""
    if min(len(ours), len(theirs)) == 1:
        return None
    generator = np.random.default_rng(seed)
    pairs = zip(resample(ours, resamples, generator), resample(theirs, resamples, generator), strict=True)
    low, high = percentile_interval(np.array([probability_of_improvement(*pair) for pair in pairs]))
    return Estimate(probability_of_improvement(ours, theirs), float(low), float(high))


class Profile(NamedTuple):
    """Fraction of runs × tasks above each threshold, and the ends of its pointwise interval (None for one run)."""

    value: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"] | None
    high: Float[np.ndarray, " m"] | None


def performance_profile(
    scores: Scores, thresholds: Float[np.ndarray, " m"], *, resamples: int = 2000, seed: int = 0
) -> Profile:
    """Performance profile with its 95 % pointwise stratified-bootstrap interval."""
    value = (scores.reshape(-1)[None, :] > thresholds[:, None]).mean(axis=1)
    if len(scores) == 1:
        return Profile(value, None, None)
    resampled = np.sort(resample(scores, resamples, np.random.default_rng(seed)).reshape(resamples, -1), axis=1)
    below = np.stack([np.searchsorted(row, thresholds, side="right") for row in resampled])
    return Profile(value, *percentile_interval(1.0 - below / resampled.shape[1]))
