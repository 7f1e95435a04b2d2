"""Figure "results for maze experiment"."""

from dataclasses import dataclass
from typing import Annotated, final

from typing_extensions import Doc

from skillscape.errors import choose
from skillscape.experiments.comparison import Comparison
from skillscape.experiments.grid import Grid, Pairs, Variant
from skillscape.objectives import registry, trainable

PAPER_METHODS = ("sd3", "diayn", "dads", "cic")
Methods = Annotated[tuple[str, ...], Doc("Methods to compare, or all; the experiment's own if not given.")]
Entropy = Annotated[float | None, Doc("PPO's entropy weight for every method; the preset's if not given.")]


@final
@dataclass(frozen=True)
class Maze(Comparison):
    """SD3, DIAYN, DADS and CIC with 10 skills in the square maze; --methods all compares every method."""

    name = "maze"
    methods: Methods = ()
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison."""
        methods = asked(self.methods, PAPER_METHODS)
        name = "maze" if set(methods) <= set(PAPER_METHODS) else "maze-all"
        columns = [column(method, self.entropy) for method in methods]
        return [self.grid(with_entropy(name, self.entropy), "maze/square_a", columns)]


def asked(methods: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The methods that are meant: all as tables list them, or those named, or the experiment's own."""
    if methods != ("all",):
        return methods or usual
    others = [name for name in trainable() if name not in PAPER_METHODS]
    return (*PAPER_METHODS, *sorted(others, key=lambda name: registry()[name]().skills.width == 0))


def column(method: str, entropy: float | None = None, objective: Pairs = (), label: str | None = None) -> Variant:
    """A method under its label; nothing is trained from scratch where there is no task."""
    choose("method", method, trainable(), "skillscape methods")
    settings = () if entropy is None else (("entropy", entropy),)
    return Variant(label or registry()[method].label, method, objective=objective, settings=settings)


def with_entropy(name: str, entropy: float | None) -> str:
    """Another entropy weight is another experiment."""
    return name if entropy is None else f"{name}-entropy-{entropy:g}"
