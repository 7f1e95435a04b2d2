"""The figure of robustness to noise."""

from dataclasses import dataclass
from typing import final

import numpy as np

from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.experiments.benchmark import Benchmark, head
from skillscape.experiments.grid import Variant, variant

NOISY = ", noisy"
NOISE = 0.1
"""Standard deviation of the paper's observation noise."""


@final
@dataclass(frozen=True)
class Robustness(Benchmark):
    """URLB from states: every method pre-trained without and with observation noise."""

    name = "robustness"
    paper_methods = ("cic", "sd3")

    def columns(self, method: str) -> list[Variant]:
        """A method without and with noise; training from scratch has none."""
        plain = variant(method)
        return [plain] if plain.method is None else [plain, variant(method, f"{method}{NOISY}", noise=NOISE)]

    def more(self, board: Scoreboard) -> list[str]:
        """Scores after noisy pre-training as fractions of those without noise, for methods that have both."""
        plain = [label for label in board.methods if f"{label}{NOISY}" in board.methods]
        fractions = {
            (task, label): board.cells[f"{label}{NOISY}", task].mean / board.cells[label, task].mean
            for task in board.tasks
            for label in plain
        }
        rows = {task: [fractions[task, label] for label in plain] for task in board.tasks}
        rows["mean of these"] = [float(np.mean([fractions[task, label] for task in board.tasks])) for label in plain]
        rows["of the mean share of the expert's score"] = [
            board.aggregates[f"{label}{NOISY}", "mean"].value / board.aggregates[label, "mean"].value for label in plain
        ]
        cells = {name: " | ".join(f"{fraction:.0%}" for fraction in row) for name, row in rows.items()}
        return ["", *head("noisy / normal", plain), *(f"| {name} | {row} |" for name, row in cells.items())]
