"""Figure of the tree-like maze."""

from dataclasses import dataclass, fields
from typing import final

from skillscape.errors import choose
from skillscape.experiments.comparison import Comparison, Entropy, column, with_entropy
from skillscape.experiments.grid import Grid, Pairs
from skillscape.experiments.paper.maze import PAPER_METHODS, Methods, selected
from skillscape.objectives import registry, trainable


@final
@dataclass(frozen=True)
class Tree(Comparison):
    """SD3, DIAYN, DADS and CIC in the tree-like maze with 10 and with 20 skills; --methods becl cesd for others."""

    name = "tree"
    methods: Methods = ()
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison for each number of skills."""
        methods = selected(self.methods, PAPER_METHODS)
        name = "tree" if set(methods) <= set(PAPER_METHODS) else "tree-all"
        return [
            self.grid(
                with_entropy(f"{name}-{skills}", self.entropy),
                "maze/square_tree",
                [column(method, self.entropy, _skills(method, skills)) for method in methods],
            )
            for skills in (10, 20)
        ]


def _skills(method: str, number: int) -> Pairs:
    """The number of skills as a setting; methods without skills, or with a continuum of them, have none."""
    choose("method", method, trainable(), "skillscape methods")
    kind = registry()[method]
    counts = any(field.name == "number_of_skills" for field in fields(kind)) and kind().skills.count is not None
    return (("number_of_skills", number),) if counts else ()
