"""Figure "results for maze experiment"."""

from dataclasses import dataclass
from typing import Annotated, final

from typing_extensions import Doc

from skillscape.experiments.comparison import Comparison, Entropy, column, with_entropy
from skillscape.experiments.grid import Grid
from skillscape.objectives import registry, trainable

PAPER_METHODS = ("sd3", "diayn", "dads", "cic")
Methods = Annotated[tuple[str, ...], Doc("Methods to compare, or all; the experiment's own if not given.")]


@final
@dataclass(frozen=True)
class Maze(Comparison):
    """SD3, DIAYN, DADS and CIC with 10 skills in the square maze; --methods all compares every method."""

    name = "maze"
    methods: Methods = ()
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison."""
        methods = selected(self.methods, PAPER_METHODS)
        name = "maze" if set(methods) <= set(PAPER_METHODS) else "maze-all"
        columns = [column(method, self.entropy) for method in methods]
        return [self.grid(with_entropy(name, self.entropy), "maze/square_a", columns)]


def selected(methods: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """The methods to compare: those named, all for ("all",), or the experiment's own for none."""
    if methods != ("all",):
        return methods or default
    others = [name for name in trainable() if name not in PAPER_METHODS]
    return (*PAPER_METHODS, *sorted(others, key=lambda name: registry()[name]().skills.width == 0))
