"""Records of finished runs: what analyses read of them, without weights, to be committed or carried to another machine.

A record is a folder of its run's name with the small files of the run: configuration, versions, results, evaluations,
time, goals reached, and the episodes of the last evaluation. An experiment that is longer than a machine is available
thus grows run by run: records that are there are not trained again.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from skillscape.config_io import differences
from skillscape.errors import UserError
from skillscape.experiments.grid import RunSpec, distinct
from skillscape.training.files import read_results
from skillscape.training.run import Run, open_config

FILES = ("config.json", "versions.json", "evaluation.csv", "timing.json", "goals.json", "results.json")
"""The last one tells that a run is finished."""
POLICY = ("skills/arrays.json", "skills/arrays.safetensors")
"""Also in records of on-policy runs, which are small: figures of mazes play their episodes again."""


def restore(specs: Sequence[RunSpec], runs: Path, records: Path) -> list[str]:
    """Copy the records of runs that have not begun here to the folder of runs; returns the folders of these runs.

    A pre-training is restored only if no fine-tuning is left that needs its weights.
    """
    missing = [spec for spec in distinct(specs) if read_results(runs / spec.folder) is None]
    recorded = {spec.folder: spec for spec in missing if _has_record(spec, records)}
    needed = {spec.needs for spec in missing if spec.folder not in recorded}
    restored = []
    for folder, spec in recorded.items():
        if folder in needed or (runs / folder / "config.json").exists():
            continue
        if changes := differences(open_config(records / folder).to_json(), spec.config.to_json()):
            raise UserError(
                f"{records / folder} is the record of a run with other settings ({'; '.join(changes)}); choose other "
                "--records, or delete it."
            )
        _copy(spec, records, runs)
        restored.append(folder)
    return restored


def keep(specs: Sequence[RunSpec], runs: Path, records: Path, measure: Callable[[Run], None]) -> None:
    """Copy what analyses read of every finished run to its record; ``measure`` first completes what needs weights."""
    for spec in distinct(specs):
        if read_results(runs / spec.folder) is not None and not _has_record(spec, records):
            measure(Run(runs / spec.folder))
            _copy(spec, runs, records)


def _has_record(spec: RunSpec, records: Path) -> bool:
    return read_results(records / spec.folder) is not None


def _copy(spec: RunSpec, origin: Path, destination: Path) -> None:
    """Copy the files of a record; results.json last, so that an interrupted copy is no finished run."""
    source, target = origin / spec.folder, destination / spec.folder
    if not (source / "evaluation.csv").exists():
        raise UserError(f"{source} has lost its evaluation.csv; delete the folder, and its run is trained again.")
    target.mkdir(parents=True, exist_ok=True)
    episodes = sorted(path for path in (source / "rollouts").glob("*.npz") if path.stem.isdigit())[-1:]
    policy = POLICY if spec.config.backbone.on_policy else ()
    for path in [*episodes, *(source / name for name in (*policy, *FILES))]:
        if path.exists():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy.with_name(f"{copy.name}.partial"))
            copy.with_name(f"{copy.name}.partial").replace(copy)
