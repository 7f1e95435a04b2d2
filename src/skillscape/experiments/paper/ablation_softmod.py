"""Ablation of SD3's architecture."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Comparison
from skillscape.experiments.grid import Grid
from skillscape.experiments.paper.maze import Entropy, column, with_entropy


@final
@dataclass(frozen=True)
class AblationSoftmod(Comparison):
    """SD3 in the square maze with soft modules and with a plain conditional VAE."""

    name = "ablation-softmod"
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison."""
        plain = (("architecture", "plain"), ("width", 128))
        columns = [
            column("sd3", self.entropy, (("architecture", "soft-modular"),), "SD3, soft modules"),
            column("sd3", self.entropy, plain, "SD3, plain network"),
        ]
        return [self.grid(with_entropy(self.name, self.entropy), "maze/square_a", columns)]
