"""Ablation of the skill that is fine-tuned."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.benchmark import Benchmark
from skillscape.experiments.grid import Variant, variant

RULES = ("random", "regress", "controller")


@final
@dataclass(frozen=True)
class AblationAdaptation(Benchmark):
    """URLB from states, fine-tuned with a random skill, the regressed one, and a controller that mixes all skills."""

    name = "ablation-adaptation"
    paper_methods = ("sd3",)

    def columns(self, method: str) -> list[Variant]:
        """A method with each rule."""
        return [variant(method, f"{method}, {rule}", skill=rule) for rule in RULES]
