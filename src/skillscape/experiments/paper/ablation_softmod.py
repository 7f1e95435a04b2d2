"""Ablation of SD3's architecture."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.comparison import Ablation


@final
@dataclass(frozen=True)
class AblationSoftmod(Ablation):
    """SD3 in the square maze with soft modules and with a plain conditional VAE."""

    name = "ablation-softmod"
    columns = (
        ("SD3, soft modules", (("architecture", "soft-modular"),)),
        ("SD3, plain network", (("architecture", "plain"), ("width", 128))),
    )
