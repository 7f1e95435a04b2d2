"""Means over seeds with bootstrap intervals. Pure NumPy, so that plots can use it without jax."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

ENOUGH_SEEDS = 5
"""With fewer seeds, the percentile interval of the mean ends at, or next to, the lowest and the highest seed."""


class Summary(NamedTuple):
    """Mean over seeds, ends of its bootstrap interval (None for one seed), and the raw value of every seed."""

    mean: float
    interval: tuple[float, float] | None
    per_seed: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The same numbers as lists and floats, raw values included so that other statistics can be recomputed."""
        interval = None if self.interval is None else list(self.interval)
        return {"mean": self.mean, "interval": interval, "per_seed": list(self.per_seed)}


def bootstrap_interval(
    values: Float[np.ndarray, "s ..."], *, confidence: float = 0.95, resamples: int = 5000, seed: int = 0
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]] | None:
    """Ends of the percentile-bootstrap interval of the mean over the first axis; None for one seed.

    values: [s, ...], one row per seed. Whole rows are resampled with replacement ``resamples`` times; the ends are the
    (1 ∓ confidence)/2 quantiles of the resampled means (Efron 1979).
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
    # The counts of the resampled seeds are multinomial, so every resampled mean is one row of a small matrix product.
    counts = np.random.default_rng(seed).multinomial(seeds, np.full(seeds, 1.0 / seeds), size=resamples)
    return percentile_interval(np.tensordot(counts / seeds, values, axes=1), confidence)


def percentile_interval(
    resampled: Float[np.ndarray, "b ..."], confidence: float = 0.95
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


def summarise_measures(seeds: Sequence[Mapping[str, float | None]]) -> dict[str, Summary | None]:
    """Summary of every measure; None where it is undefined for some seed, as skill accuracy is for a single policy."""
    names = dict.fromkeys(name for measures in seeds for name in measures)
    values = {name: [measures.get(name) for measures in seeds] for name in names}
    measured = {name: [value for value in each if value is not None] for name, each in values.items()}
    return {name: summarise(each) if len(each) == len(seeds) else None for name, each in measured.items()}


def few_seeds_note(seeds: Iterable[int]) -> str:
    """A warning about intervals over very few seeds, given the numbers of seeds in a table; empty if not needed."""
    few = sorted({count for count in seeds if 1 < count < ENOUGH_SEEDS})
    counts = " or ".join(str(count) for count in few)
    return f"With {counts} seeds, a 95 % bootstrap interval is about the range of the seeds." if few else ""


def median_index(values: Sequence[float]) -> int:
    """Index of the median, the lower of two: a fixed rule for which seed is plotted."""
    return int(np.argsort(values)[(len(values) - 1) // 2])
