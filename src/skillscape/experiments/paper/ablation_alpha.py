"""Ablation of SD3's α."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Ablation


@final
@dataclass(frozen=True)
class AblationAlpha(Ablation):
    """SD3 in the square maze at exploration ratios α ∈ {0, 0.02, 0.04, 0.08}."""

    name = "ablation-alpha"
    columns = tuple((f"SD3, α = {value:g}", (("exploration_ratio", value),)) for value in (0.0, 0.02, 0.04, 0.08))
