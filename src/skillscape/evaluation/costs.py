"""What the runs of a method cost, as columns of the tables in which methods are compared."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.evaluation.summary import Summary, summarise
from skillscape.training.cost import Parameters, read_parameters, read_timing
from skillscape.training.files import read_results

PARAMETERS, SECONDS = COLUMNS = ("parameters", "seconds per run")
NOTE = (
    "parameters: of the method's own model, those that gradient steps move. seconds per run: wall-clock time of "
    "training with its evaluations, mean over seeds; runs that are trained side by side share the cores."
)


class Cost(NamedTuple):
    """Trained parameters, and seconds of training over seeds; None where a run did not record them."""

    parameters: Parameters | None = None
    seconds: Summary | None = None

    def cells(self) -> dict[str, str]:
        """Column → text; columns that are unknown are left out."""
        known = {}
        if self.parameters is not None:
            known[PARAMETERS] = f"{self.parameters.objective:,}"
        if self.seconds is not None:
            mean = self.seconds.mean
            known[SECONDS] = f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}"
        return known

    def to_json(self) -> dict[str, Any]:
        """What is known, as plain values."""
        values: dict[str, Any] = {}
        if self.parameters is not None:
            values["parameters"] = self.parameters._asdict()
        if self.seconds is not None:
            values["seconds"] = self.seconds.to_json()
        return values


def cost_of(folders: Iterable[Path]) -> Cost:
    """The cost of finished runs that differ in their seed or task; unknown as soon as one of them did not record it."""
    parameters, seconds = [], []
    for folder in folders:
        parameters.append(read_parameters(read_results(folder) or {}))
        timing = read_timing(folder, "delete it to continue without the time of this run")
        seconds.append(None if timing is None else timing.seconds)
    known = [value for value in seconds if value is not None]
    return Cost(
        parameters[0] if parameters and all(value == parameters[0] for value in parameters) else None,
        summarise(known) if known and len(known) == len(seconds) else None,
    )


def known_columns(costs: Iterable[Cost], columns: Sequence[str] = COLUMNS) -> list[str]:
    """The columns that at least one cost knows."""
    known: set[str] = {name for cost in costs for name in cost.cells()}
    return [name for name in columns if name in known]
