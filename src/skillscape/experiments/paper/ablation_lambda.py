"""Ablation of SD3's λ."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Comparison
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import Entropy, column, with_entropy

VALUES = (0.5, 1.0, 1.5, 2.0, 3.0)


@final
@dataclass(frozen=True)
class AblationLambda(Comparison):
    """SD3 in the square maze at deviation weights λ ∈ {0.5, 1, 1.5, 2, 3}."""

    name = "ablation-lambda"
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison."""
        columns = [
            column("sd3", self.entropy, (("deviation_weight", value),), f"SD3, λ = {value:g}") for value in VALUES
        ]
        return [self.grid(with_entropy(self.name, self.entropy), "maze/square_a", columns)]
