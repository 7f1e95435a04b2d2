"""What runs measured: their evaluations for analyses, and the table of all runs of a sweep."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillscape.experiments.grid import NOISE, RunSpec
from skillscape.plots.curves import Curve
from skillscape.training.files import write_json, write_text
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.versions import versions

COLUMNS = ["label", "phase", "method", "env", "task", "seed", "preset", "steps", "noise", "skill_strategy", "snapshot"]


@dataclass(frozen=True)
class Results:
    """The evaluations of runs."""

    specs: tuple[RunSpec, ...]
    runs: Path
    """Folder of all runs."""
    logs: tuple[Mapping[str, list[float]], ...]
    """For each run: column of evaluation.csv → its value at each evaluation."""

    @staticmethod
    def read(specs: Sequence[RunSpec], runs: Path) -> "Results":
        """The evaluations of the runs in these folders."""
        logs = (read_metrics(runs / spec.folder / "evaluation.csv") for spec in specs)
        return Results(tuple(specs), runs, tuple(logs))

    def where(self, label: str, task: str | None = None) -> "Results":
        """The seeds of one column of a table: on a task, or in pre-training if None."""
        pairs = zip(self.specs, self.logs, strict=True)
        kept = [(spec, log) for spec, log in pairs if (spec.label, spec.config.task) == (label, task)]
        return replace(self, specs=tuple(spec for spec, _ in kept), logs=tuple(log for _, log in kept))

    def last(self, measure: str) -> list[float]:
        """The value of the last evaluation of each run."""
        return [log[measure][-1] for log in self.logs]

    def curve(self, measure: str) -> Curve:
        """The values of each run at the steps that all of them have."""
        return common_curve(self.logs, measure)


# The table of all runs


def results_folder(runs: Path, name: str) -> Path:
    """Folder of the results and the logs of a sweep."""
    return runs / "sweeps" / name


def log_file(runs: Path, name: str, folder: str) -> Path:
    """Log file of a run."""
    return results_folder(runs, name) / "logs" / f"{folder}.log"


def write_results(
    name: str,
    specs: Sequence[RunSpec],
    results: Mapping[str, Mapping[str, Any]],
    failures: Mapping[str, str],
    runs: Path,
) -> None:
    """Write results.json and results.csv of a sweep, with a row per finished run, each atomically."""
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
        # A fine-tuning has no noise itself; that of its pre-training distinguishes it.
        "noise": spec.settings.get(NOISE, 0.0),
        "skill_strategy": config.skill,
    }
    columns = {name: values[name] if name in values else vars(config)[name] for name in COLUMNS}
    return {"folder": spec.folder, **columns, "settings": dict(spec.settings), "measures": results["measures"]}
