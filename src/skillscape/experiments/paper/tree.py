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
    """The tree-like maze with 10 and with 20 skills."""

    name = "tree"
    methods: Methods = ()
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison for each number of skills."""
        return [
            self.grid(
                with_entropy(f"tree-{skills}", self.entropy),
                "maze/square_tree",
                [
                    column(method, self.entropy, _skills(method, skills))
                    for method in selected(self.methods, PAPER_METHODS)
                ],
            )
            for skills in (10, 20)
        ]


def _skills(method: str, number: int) -> Pairs:
    """The number of skills as a setting; methods without skills, or with a continuum of them, have none."""
    choose("method", method, trainable(), "skillscape methods")
    counts = any(field.name == "number_of_skills" for field in fields(registry()[method]))
    return (("number_of_skills", number),) if counts else ()
