"""Ablation of SD3's λ."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Ablation


@final
@dataclass(frozen=True)
class AblationLambda(Ablation):
    """SD3 in the square maze at deviation weights λ ∈ {0.5, 1, 1.5, 2, 3}."""

    name = "ablation-lambda"
    columns = tuple((f"SD3, λ = {value:g}", (("deviation_weight", value),)) for value in (0.5, 1.0, 1.5, 2.0, 3.0))
