"""One number per seed, told as a mean with a bootstrap interval. Pure NumPy, so that plots can use it without jax."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from jaxtyping import Float


class SummaryJson(TypedDict):
    """How a ``Summary`` is written to a results file."""

    mean: float
    interval: list[float] | None
    per_seed: list[float]


class Summary(NamedTuple):
    """Mean over seeds, the ends of its bootstrap interval (None for one seed), and the raw value of every seed."""

    mean: float
    interval: tuple[float, float] | None
    per_seed: tuple[float, ...]

    def to_json(self) -> SummaryJson:
        """The same numbers as plain lists and floats; the raw values stay, so any other statistic can be redone."""
        interval = None if self.interval is None else list(self.interval)
        return {"mean": self.mean, "interval": interval, "per_seed": list(self.per_seed)}


def bootstrap_interval(
    values: Float[np.ndarray, "s ..."], *, confidence: float = 0.95, resamples: int = 5000, seed: int = 0
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]] | None:
    """Ends of the percentile-bootstrap interval of the mean over the first axis.

    values: [s, ...], one row per seed. Seeds are drawn with replacement ``resamples`` times, whole rows at once, and
    the ends are the (1 ∓ confidence)/2 quantiles of the resampled means (Efron 1979). One seed says nothing about
    the spread between seeds and has no interval.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0 or values.shape[0] == 0:
        raise ValueError("There is nothing to summarise: give at least one value per seed.")
    if not np.isfinite(values).all():
        raise ValueError("Values to summarise must be finite; a diverged seed has to be reported, not averaged.")
    if not 0.0 < confidence < 1.0 or resamples < 1:
        raise ValueError(f"confidence {confidence} must be inside (0, 1) and resamples {resamples} at least 1.")
    seeds = values.shape[0]
    if seeds == 1:
        return None
    # How often each seed is drawn is multinomial, so every resampled mean is one row of a small matrix product.
    draws = np.random.default_rng(seed).multinomial(seeds, np.full(seeds, 1.0 / seeds), size=resamples)
    means = np.tensordot(draws / seeds, values, axes=1)
    return percentile_interval(means, confidence)


def percentile_interval(
    resampled: Float[np.ndarray, "b ..."], confidence: float
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """The (1 ∓ confidence)/2 quantiles of b resampled statistics."""
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(resampled, [tail, 1.0 - tail], axis=0)
    return low, high


def summarise(values: Sequence[float], *, confidence: float = 0.95, resamples: int = 5000, seed: int = 0) -> Summary:
    """Summary of one value per seed; see ``bootstrap_interval``."""
    per_seed = np.asarray(values, dtype=np.float64)
    if per_seed.ndim != 1:
        raise ValueError(f"summarise takes one value per seed, not an array of shape {per_seed.shape}.")
    ends = bootstrap_interval(per_seed, confidence=confidence, resamples=resamples, seed=seed)
    interval = None if ends is None else (float(ends[0]), float(ends[1]))
    return Summary(float(per_seed.mean()), interval, tuple(per_seed.tolist()))


def summarise_measured(values: Sequence[float | None]) -> Summary | None:
    """Summary of a measure, or None where it says nothing of some seed: a policy without skills has no accuracy."""
    measured = [value for value in values if value is not None]
    return summarise(measured) if len(measured) == len(values) else None


ENOUGH_SEEDS = 5
"""With fewer, the percentile interval of the mean ends at, or next to, the lowest and the highest seed."""


def few_seeds_note(seeds: Iterable[int]) -> str:
    """One sentence about intervals over very few seeds, given the numbers of seeds in a table; empty if not needed."""
    few = sorted({count for count in seeds if 1 < count < ENOUGH_SEEDS})
    if not few:
        return ""
    counts = " or ".join(str(count) for count in few)
    return f"With {counts} seeds, a 95 % bootstrap interval is about the range of the seeds."


def median_index(values: Sequence[float]) -> int:
    """The place of the median, the lower of two: which seed is drawn is not a matter of taste."""
    return int(np.argsort(values)[(len(values) - 1) // 2])
