"""The square maze from images."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Comparison, column
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import Methods, selected

PAPER_METHODS = ("sd3", "diayn", "apt")


@final
@dataclass(frozen=True)
class MazePixels(Comparison):
    """SD3, DIAYN and APT, which has no skills, with Dreamer in the square maze from images."""

    name = "maze-pixels"
    methods: Methods = ()

    def grids(self) -> list[Grid]:
        """One comparison."""
        methods = selected(self.methods, PAPER_METHODS)
        return [self.grid(self.name, "maze-pixels/square_a", [column(method) for method in methods])]
