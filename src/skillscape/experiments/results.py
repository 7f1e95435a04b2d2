"""What runs measured: tidy rows for analyses, and the table of all runs of a sweep."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.experiments.grid import NOISE, RunSpec
from skillscape.plots.curves import Curve
from skillscape.training.files import write_json, write_text
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.versions import versions

COLUMNS = ["label", "phase", "method", "env", "task", "seed", "preset", "steps", "noise", "skill_strategy", "snapshot"]


class ResultRow(NamedTuple):
    """One number that one run measured."""

    folder: str
    label: str
    """The column of a table that the run belongs to."""
    env: str
    task: str | None
    seed: int
    step: int
    measure: str
    value: float


@dataclass(frozen=True)
class Results:
    """The evaluations of runs."""

    specs: tuple[RunSpec, ...]
    runs: Path
    """Folder of all runs."""
    rows: tuple[ResultRow, ...]

    @staticmethod
    def read(specs: Sequence[RunSpec], runs: Path) -> "Results":
        """All that the runs in these folders measured."""
        return Results(tuple(specs), runs, tuple(row for spec in specs for row in _rows(spec, runs)))

    def where(self, **columns: Any) -> "Results":  # noqa: ANN401  columns of ``ResultRow``
        """The rows that have these values, for example ``label="SD3", measure="coverage"``."""
        rows = tuple(row for row in self.rows if all(getattr(row, name) == value for name, value in columns.items()))
        found = {(row.folder, row.label) for row in rows}
        return replace(self, rows=rows, specs=tuple(one for one in self.specs if (one.folder, one.label) in found))

    def values(self, column: str) -> list[Any]:
        """Every value of a column, in order, each once."""
        return list(dict.fromkeys(getattr(row, column) for row in self.rows))

    def by_seed(self) -> dict[int, list[ResultRow]]:
        """The rows of each seed, by step; for those of one label, place and measure."""
        found: dict[int, list[ResultRow]] = {}
        for row in self.rows:
            found.setdefault(row.seed, []).append(row)
        return {seed: sorted(rows, key=lambda row: row.step) for seed, rows in found.items()}

    def last(self) -> list[float]:
        """The newest value of each seed, likewise."""
        return [rows[-1].value for rows in self.by_seed().values()]

    def curve(self) -> Curve:
        """The values of every seed at the steps that all of them have, likewise."""
        logs: list[dict[str, list[float]]] = [
            {"step": [row.step for row in rows], "value": [row.value for row in rows]}
            for rows in self.by_seed().values()
        ]
        return common_curve(logs, "value")


def _rows(spec: RunSpec, runs: Path) -> Iterator[ResultRow]:
    config = spec.config
    log = read_metrics(runs / spec.folder / "evaluation.csv")
    for measure, values in log.items():
        if measure != "step":
            for step, value in zip(log["step"], values, strict=True):
                place = (config.env, config.task, config.seed)
                yield ResultRow(spec.folder, spec.label, *place, int(step), measure, value)


# The table of all runs


def results_folder(runs: Path, name: str) -> Path:
    """Where the gathered results and the logs of a sweep are."""
    return runs / "sweeps" / name


def log_file(runs: Path, name: str, folder: str) -> Path:
    """What a run had to say."""
    return results_folder(runs, name) / "logs" / f"{folder}.log"


def write_results(
    name: str,
    specs: Sequence[RunSpec],
    results: Mapping[str, Mapping[str, Any]],
    failures: Mapping[str, str],
    runs: Path,
) -> None:
    """results.json and results.csv of a sweep, a row per finished run; each file is whole or not there."""
    folder = results_folder(runs, name)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_finished(spec, results[spec.folder]) for spec in specs if spec.folder in results]
    counts = {"planned": len(specs), "finished": len(rows), "failed": dict(failures)}
    write_json(folder / "results.json", {"sweep": name, **counts, "versions": versions(), "runs": rows})
    measures = list(dict.fromkeys(name for row in rows for name in row["measures"]))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["folder", *COLUMNS, *measures])
    for row in rows:
        cells = [row[name] for name in ("folder", *COLUMNS)]
        writer.writerow(
            [*cells, *(repr(row["measures"][name]) if name in row["measures"] else "" for name in measures)]
        )
    write_text(folder / "results.csv", text.getvalue())


def _finished(spec: RunSpec, results: Mapping[str, Any]) -> dict[str, Any]:
    config = spec.config
    values = {
        "label": spec.label,
        "method": config.method,
        "preset": spec.preset,
        # A fine-tuning itself has none: that of its pre-training is what sets it apart.
        "noise": spec.settings.get(NOISE, 0.0),
        "skill_strategy": config.skill,
    }
    told = {name: values[name] if name in values else vars(config)[name] for name in COLUMNS}
    return {"folder": spec.folder, **told, "settings": dict(spec.settings), "measures": results["measures"]}
