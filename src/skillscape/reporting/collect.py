"""The runs of a report: found in folders, read with care, and grouped by what was trained."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from skillscape.config import RunConfig
from skillscape.errors import UserError
from skillscape.plots.curves import MEASURES, Curve
from skillscape.training.files import damaged
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.run import AGAIN, Run
from skillscape.training.versions import versions_of

UNREADABLE = (UserError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a damaged run may end in."""


# Finding


Found: TypeAlias = tuple[str, Run]
"""The folder that the seeds of a run share, as seen from the folder that was given, and the run."""


def find_runs(folders: Iterable[Path]) -> list[tuple[str, Path]]:
    """Every run in or below the folders, each once, with the name that it shares with its other seeds."""
    runs: dict[Path, tuple[str, Path]] = {}
    for root in folders:
        if not root.is_dir():
            raise UserError(f"{root} does not exist; give a folder that holds runs.")
        below = list(_search(root))
        if not below:
            raise UserError(f"{root} holds no run; give a folder that `skillscape pretrain` or `reproduce` wrote.")
        for folder in below:
            runs.setdefault(folder.resolve(), (_shared_name(root, folder), folder))
    if not runs:
        raise UserError("Say which runs to report on, for example `skillscape report runs`.")
    return list(runs.values())


def _search(root: Path) -> Iterator[Path]:
    for place, inside, names in os.walk(root):
        inside.sort(key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
        if "config.json" in names:
            inside.clear()  # what a run keeps inside is its own
            yield Path(place)


def _shared_name(root: Path, folder: Path) -> str:
    shared = (folder.parent if re.fullmatch(r"seed_\d+", folder.name) else folder).resolve()
    inside = shared.relative_to(root.resolve()) if shared.is_relative_to(root.resolve()) else Path()
    return inside.as_posix() if inside.parts else shared.name


# Reading


def _finite(run: Run, values: Sequence[float]) -> None:
    if not np.isfinite(values).all():
        raise UserError(
            f"{run.folder} measured numbers that are not finite; leave it out, or train it again with --force."
        )


def measure_of(run: Run, name: str) -> float:
    """One measure of a finished run."""
    measures = (run.results or {"measures": {}})["measures"]
    if name not in measures:
        raise damaged(run.folder / "results.json", f"it lacks the measure {name}", AGAIN)
    value = float(measures[name])
    _finite(run, [value])
    return value


def evaluation_log(run: Run) -> dict[str, list[float]]:
    """Column → one value for each evaluation of a run."""
    log = run.evaluation()
    if not log.get("step"):
        raise damaged(run.folder / "evaluation.csv", "it has no rows", AGAIN)
    return log


def learning_curves(runs: Sequence[Run], log: str = "evaluation") -> dict[str, Curve]:
    """Every column that all of the runs have logged, at the steps where all of them have a number."""
    logs = [read_metrics(run.folder / f"{log}.csv") for run in runs]
    curves = {}
    for name in logs[0]:
        if name != "step" and all(name in columns for columns in logs):
            steps, values = common_curve(logs, name)
            # There is no return before the first episode ends.
            known = np.isfinite(values).all(axis=0)
            if known.any():
                curves[name] = steps[known], values[:, known]
    return curves


def measures_of(run: Run) -> tuple[str, ...]:
    """What is compared of a run: its return in a task; where its skills go in a maze; elsewhere nothing yet."""
    if run.config.task is not None:
        return ("return",)
    if run.layout is None:
        return ()
    # A policy without a second skill has nothing to tell apart.
    alone = run.config.reward.skills.count == 1
    return tuple(name for name in MEASURES if not (alone and name in ("distinguishability", "skill_accuracy")))


def check_run(run: Run) -> None:
    """Read the numbers of a finished run once, so that a damaged one is known before anything is compared with it."""
    versions_of([run.folder])
    names = measures_of(run)
    log = evaluation_log(run) if names else {}
    for name in names:
        measure_of(run, name)
        if name not in log:
            raise damaged(run.folder / "evaluation.csv", f"it lacks the column {name}", AGAIN)
        _finite(run, log[name])


# Grouping


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    name: str
    """See ``Found``."""
    runs: tuple[Run, ...]
    label: str = ""

    @property
    def config(self) -> RunConfig:
        """The configuration of the first run; the others have another seed, and maybe another source."""
        return self.runs[0].config


def grouped(found: Sequence[Found], key: Callable[[str, Run], str]) -> list[Group]:
    """Runs of one name and key belong together, and so do names of the same key whose seeds differ."""
    families: dict[tuple[str, str], list[Run]] = {}
    for name, run in found:
        families.setdefault((key(name, run), name), []).append(run)
    merged: list[tuple[str, str, list[Run]]] = []
    for (own_key, name), runs in families.items():
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
    """The same text for runs that differ in seed or source alone. A maze is its layout, not the path of its file."""
    own = ("seed", "source", *(["env"] if run.layout is not None else []))
    values: dict[str, Any] = {name: value for name, value in run.config.to_json().items() if name not in own}
    return json.dumps(values, sort_keys=True)


def uniquely_labelled(groups: Sequence[Group], label: Callable[[Group], str]) -> list[Group]:
    """The groups with labels; a number sets apart what is called the same."""
    taken: dict[str, int] = {}
    labelled = []
    for group in groups:
        name = label(group)
        taken[name] = taken.get(name, 0) + 1
        labelled.append(replace(group, label=name if taken[name] == 1 else f"{name} ({taken[name]})"))
    return labelled
