"""The runs of a report: finding, checking and reading them, and grouping seeds."""

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from skillscape.config import RunConfig
from skillscape.errors import UserError
from skillscape.plots.curves import MEASURES, MODEL_MEASURES, Curve
from skillscape.training.files import damaged
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.run import AGAIN, Run
from skillscape.training.versions import versions_of
from skillscape.zoo import locate

READ_ERRORS = (UserError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions that reading a damaged run may raise."""

OnMessage: TypeAlias = Callable[[str], None]
NamedRun: TypeAlias = tuple[str, Run]
"""Folder that the seeds of a run share, relative to the folder that was searched, and the run."""


# Finding


def find_runs(folders: Iterable[Path]) -> list[tuple[str, Path]]:
    """Every run in or below the folders, each once, with the name that it shares with its other seeds."""
    runs: dict[Path, tuple[str, Path]] = {}
    for root in map(locate, folders):
        if not root.is_dir():
            raise UserError(f"{root} does not exist; give a folder that holds runs.")
        run_folders = list(_search(root))
        if not run_folders:
            raise UserError(f"{root} holds no run; give a folder that `skillscape pretrain` or `reproduce` wrote.")
        for folder in run_folders:
            runs.setdefault(folder.resolve(), (_shared_name(root, folder), folder))
    return list(runs.values())


def _search(root: Path) -> Iterator[Path]:
    for folder, inside, names in os.walk(root):
        inside.sort(key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
        if "config.json" in names:
            inside.clear()  # folders inside a run are not runs
            yield Path(folder)


def _shared_name(root: Path, folder: Path) -> str:
    shared = (folder.parent if re.fullmatch(r"seed_\d+", folder.name) else folder).resolve()
    inside = shared.relative_to(root.resolve()) if shared.is_relative_to(root.resolve()) else Path()
    return inside.as_posix() if inside.parts else shared.name


# Reading


def _check_finite(run: Run, values: Sequence[float]) -> None:
    if not np.isfinite(values).all():
        raise UserError(f"{run.folder} has measures that are not finite; leave it out, or train it again with --force.")


def measure_of(run: Run, name: str) -> float:
    """One measure of a finished run."""
    measures = (run.results or {"measures": {}})["measures"]
    if name not in measures:
        raise damaged(run.folder / "results.json", f"it lacks the measure {name}", AGAIN)
    value = float(measures[name])
    _check_finite(run, [value])
    return value


def evaluation_log(run: Run) -> dict[str, list[float]]:
    """Column → its value at each evaluation of a run."""
    log = run.evaluation()
    if not log.get("step"):
        raise damaged(run.folder / "evaluation.csv", "it has no rows", AGAIN)
    return log


def learning_curves(runs: Sequence[Run], log: str = "evaluation") -> dict[str, Curve]:
    """Every column that all of the runs logged, at the steps where all of them have a number."""
    logs = [read_metrics(run.folder / f"{log}.csv") for run in runs]
    curves = {}
    for name in logs[0]:
        if name != "step" and all(name in columns for columns in logs):
            steps, values = common_curve(logs, name)
            # There is no return before the first episode ends.
            finite = np.isfinite(values).all(axis=0)
            if finite.any():
                curves[name] = steps[finite], values[:, finite]
    return curves


def measures_of(run: Run) -> tuple[str, ...]:
    """The measures by which a run is compared: its return on a task, the maze measures in a maze, none elsewhere."""
    if run.config.task is not None:
        return ("return",)
    if run.layout is None:
        return ()
    single = run.config.reward.skills.count == 1
    return tuple(name for name in MEASURES if not (single and name in ("mutual_information", "skill_accuracy")))


def model_measures_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """The measures of the method's own model that all of the runs have."""
    return tuple(name for name in MODEL_MEASURES if all(name in (run.results or {})["measures"] for run in runs))


def check_run(run: Run) -> None:
    """Read all numbers of a finished run once, so that a damaged one is left out before any comparison."""
    versions_of([run.folder])
    _ = run.timing
    names = measures_of(run)
    log = evaluation_log(run) if names else {}
    for name in names:
        measure_of(run, name)
        if name not in log:
            raise damaged(run.folder / "evaluation.csv", f"it lacks the column {name}", AGAIN)
        _check_finite(run, log[name])


def stored_paths(run: Run) -> Float[np.ndarray, "k r t p"]:
    """Positions of the episodes that the newest evaluation counted, NaN after the end of an episode."""
    files = sorted(path for path in (run.folder / "rollouts").glob("*.npz") if path.stem.isdigit())
    if not files:
        raise UserError(f"{run.folder} has lost its rollouts; {AGAIN}.")
    try:
        with np.load(files[-1], allow_pickle=False) as stored:
            positions = np.asarray(stored["positions"], np.float64)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(files[-1], "it is not an archive of positions", AGAIN) from error
    if positions.ndim != 4 or 0 in positions.shape or np.isinf(positions).any() or np.isnan(positions[:, :, 0]).any():
        raise damaged(files[-1], "its positions are not those of episodes", AGAIN)
    return positions


# Grouping


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    name: str
    """See ``NamedRun``."""
    runs: tuple[Run, ...]
    label: str = ""

    @property
    def config(self) -> RunConfig:
        """The configuration of the first run; the others differ in seed and, possibly, in source."""
        return self.runs[0].config


def group_runs(named_runs: Sequence[NamedRun], key: Callable[[str, Run], str]) -> list[Group]:
    """Group runs of equal name and key; names of equal key are merged if their seeds differ."""
    by_name: dict[tuple[str, str], list[Run]] = {}
    for name, run in named_runs:
        by_name.setdefault((key(name, run), name), []).append(run)
    merged: list[tuple[str, str, list[Run]]] = []
    for (own_key, name), runs in by_name.items():
        seeds = {run.config.seed for run in runs}
        if len(seeds) < len(runs):
            raise UserError(f"{name} holds two runs of the same settings and seed; keep one of them.")
        for other_key, _, members in merged:
            if other_key == own_key and seeds.isdisjoint(run.config.seed for run in members):
                members += runs
                break
        else:
            merged.append((own_key, name, list(runs)))
    groups = [Group(name, tuple(sorted(runs, key=lambda run: run.config.seed))) for _, name, runs in merged]
    return sorted(groups, key=lambda group: _rank(group.config))


def _rank(config: RunConfig) -> tuple[bool, bool, str]:
    """The order of tables: training from scratch, methods without skills, methods with skills."""
    return config.objective is not None, config.reward.skills.width > 0, config.label


def settings_key(run: Run) -> str:
    """Equal text for runs that differ in seed or source alone. A maze is its layout, not the path of its file."""
    own = ("seed", "source", *(["env"] if run.layout is not None else []))
    return json.dumps({name: value for name, value in run.config.to_json().items() if name not in own}, sort_keys=True)


def with_unique_labels(groups: Sequence[Group], label: Callable[[Group], str]) -> list[Group]:
    """The groups with their labels; equal labels are numbered."""
    counts: dict[str, int] = {}
    labelled = []
    for group in groups:
        name = label(group)
        counts[name] = counts.get(name, 0) + 1
        labelled.append(replace(group, label=name if counts[name] == 1 else f"{name} ({counts[name]})"))
    return labelled
