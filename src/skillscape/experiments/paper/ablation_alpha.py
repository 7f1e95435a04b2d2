"""Ablation of SD3's α."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Comparison
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import Entropy, column, with_entropy

VALUES = (0.0, 0.02, 0.04, 0.08)


@final
@dataclass(frozen=True)
class AblationAlpha(Comparison):
    """SD3 in the square maze at exploration ratios α ∈ {0, 0.02, 0.04, 0.08}."""

    name = "ablation-alpha"
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison."""
        columns = [
            column("sd3", self.entropy, (("exploration_ratio", value),), f"SD3, α = {value:g}") for value in VALUES
        ]
        return [self.grid(with_entropy(self.name, self.entropy), "maze/square_a", columns)]
