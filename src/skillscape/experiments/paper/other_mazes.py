"""The square maze's figure in mazes that no setting was chosen on."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.base import Seeds
from skillscape.experiments.comparison import Comparison, column
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import PAPER_METHODS, Methods, selected

MAZES = ("square_b", "square_c", "square_bottleneck", "square_large")


@final
@dataclass(frozen=True)
class OtherMazes(Comparison):
    """SD3, DIAYN, DADS and CIC with 10 skills in four mazes that no setting was chosen on."""

    name = "other-mazes"
    seeds: Seeds = 5
    methods: Methods = ()

    def grids(self) -> list[Grid]:
        """One comparison for each maze."""
        methods = selected(self.methods, PAPER_METHODS)
        kind = "maze" if set(methods) <= set(PAPER_METHODS) else "maze-all"
        return [self.grid(f"{kind}-{maze}", f"maze/{maze}", [column(method) for method in methods]) for maze in MAZES]
