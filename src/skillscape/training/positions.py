"""Places that training has visited: unique 1 × 1 bins of the body's position."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

Bin: TypeAlias = tuple[int, ...]
"""⌊coordinate⌋ of every coordinate."""

QUEUE_STEPS = 100_000
"""Environment steps that queue coverage looks back on, in whole episodes of full length."""


def bins(positions: Float[np.ndarray, "n p"]) -> frozenset[Bin]:
    """The unique bins of n positions."""
    return frozenset(tuple(row) for row in np.unique(np.floor(positions).astype(np.int64), axis=0).tolist())


class Visited(NamedTuple):
    """Bins of the complete training episodes: of all of them, and of each of the newest. Never changed in place."""

    total: frozenset[Bin] = frozenset()
    newest: tuple[frozenset[Bin], ...] = ()

    def after(self, positions: Float[np.ndarray, "t p"], horizon: int) -> "Visited":
        """With one more episode; the queue keeps the newest 100,000 // ``horizon``, at least one."""
        visited = bins(positions)
        return Visited(self.total | visited, (*self.newest, visited)[-max(1, QUEUE_STEPS // horizon) :])

    @property
    def measures(self) -> dict[str, float]:
        """Total and queue coverage: numbers of bins."""
        return {"total_coverage": float(len(self.total)), "queue_coverage": float(len(frozenset().union(*self.newest)))}

    def to_json(self) -> dict[str, Any]:
        """As lists, in an order that depends on the bins alone."""
        return {"total": sorted(self.total), "newest": [sorted(episode) for episode in self.newest]}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Visited":
        """What ``to_json`` gave."""

        def read(rows: list[list[int]]) -> frozenset[Bin]:
            return frozenset(tuple(int(entry) for entry in row) for row in rows)

        return Visited(read(values["total"]), tuple(read(rows) for rows in values["newest"]))
