"""Aggregates over runs and tasks with stratified-bootstrap intervals. Pure NumPy, seeded.

Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021. A score matrix is
[runs, tasks]; scores are normalised, one is the expert.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from skillscape.evaluation.summary import percentile_interval

Statistic = Callable[[Float[np.ndarray, "b runs tasks"]], Float[np.ndarray, " b"]]
"""One number for each of b score matrices."""


def mean(scores: Float[np.ndarray, "b runs tasks"]) -> Float[np.ndarray, " b"]:
    """Mean over tasks of the means over runs."""
    found: Float[np.ndarray, " b"] = scores.mean(axis=(-2, -1))
    return found


def median(scores: Float[np.ndarray, "b runs tasks"]) -> Float[np.ndarray, " b"]:
    """Median over tasks of the means over runs."""
    return np.asarray(np.median(scores.mean(axis=-2), axis=-1))


def interquartile_mean(scores: Float[np.ndarray, "b runs tasks"]) -> Float[np.ndarray, " b"]:
    """Mean of the middle half of all runs × tasks: ⌊n/4⌋ are left out at each end."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    found: Float[np.ndarray, " b"] = flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)
    return found


def optimality_gap(scores: Float[np.ndarray, "b runs tasks"]) -> Float[np.ndarray, " b"]:
    """How far from the expert, on average, where better than the expert counts as the expert."""
    found: Float[np.ndarray, " b"] = 1.0 - np.minimum(scores, 1.0).mean(axis=(-2, -1))
    return found


STATISTICS: dict[str, Statistic] = {
    "median": median,
    "IQM": interquartile_mean,
    "mean": mean,
    "optimality gap": optimality_gap,
}


class Estimate(NamedTuple):
    """A statistic of the scores at hand, and the ends of its bootstrap interval: None where there is one run only."""

    value: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def resampled(
    scores: Float[np.ndarray, "runs tasks"], resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "b runs tasks"]:
    """``resamples`` matrices whose runs are drawn with replacement, in each task on its own (stratified)."""
    runs, tasks = scores.shape
    index = generator.integers(runs, size=(resamples, runs, tasks))
    return scores[index, np.arange(tasks)]


def estimate(
    scores: Float[np.ndarray, "runs tasks"],
    statistic: Statistic,
    *,
    confidence: float = 0.95,
    resamples: int = 5000,
    seed: int = 0,
) -> Estimate:
    """A statistic with its percentile interval from a stratified bootstrap."""
    _check(scores)
    value = float(statistic(scores[None])[0])
    if len(scores) == 1:
        return Estimate(value, None, None)
    drawn = statistic(resampled(scores, resamples, np.random.default_rng(seed)))
    low, high = percentile_interval(drawn, confidence)
    return Estimate(value, float(low), float(high))


def probability_of_improvement(
    ours: Float[np.ndarray, "runs tasks"], theirs: Float[np.ndarray, "others tasks"]
) -> float:
    """How likely a run of ours beats one of theirs in a task, averaged over tasks; a tie counts half."""
    _check(ours)
    _check(theirs)
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"the two have {ours.shape[1]} and {theirs.shape[1]} tasks")
    difference = ours[:, None, :] - theirs[None, :, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def improvement_estimate(
    ours: Float[np.ndarray, "runs tasks"],
    theirs: Float[np.ndarray, "others tasks"],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate | None:
    """``probability_of_improvement`` with its interval; both sides are resampled. None where either has one run."""
    if min(len(ours), len(theirs)) == 1:
        return None
    generator = np.random.default_rng(seed)
    pairs = zip(resampled(ours, resamples, generator), resampled(theirs, resamples, generator), strict=True)
    low, high = percentile_interval(np.array([probability_of_improvement(*pair) for pair in pairs]), confidence)
    return Estimate(probability_of_improvement(ours, theirs), float(low), float(high))


def performance_profile(
    scores: Float[np.ndarray, "runs tasks"], thresholds: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """Share of all runs × tasks whose score is above each threshold."""
    _check(scores)
    found: Float[np.ndarray, " m"] = (scores.reshape(-1)[None, :] > thresholds[:, None]).mean(axis=1)
    return found


def profile_interval(
    scores: Float[np.ndarray, "runs tasks"],
    thresholds: Float[np.ndarray, " m"],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]] | None:
    """Pointwise ends of the stratified-bootstrap interval of ``performance_profile``; None where there is one run."""
    _check(scores)
    if len(scores) == 1:
        return None
    drawn = np.sort(resampled(scores, resamples, np.random.default_rng(seed)).reshape(resamples, -1), axis=1)
    above = np.stack([1.0 - np.searchsorted(one, thresholds, side="right") / drawn.shape[1] for one in drawn])
    return percentile_interval(above, confidence)


def _check(scores: Float[np.ndarray, "runs tasks"]) -> None:
    if scores.ndim != 2 or 0 in scores.shape or not np.isfinite(scores).all():
        raise ValueError("scores must be a matrix [runs, tasks] of finite numbers with at least one run and task")
