"""The runs of a report: what each of them measured, and which of them belong together."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from skillscape.errors import UserError
from skillscape.experiments.mazes import methods_in_order
from skillscape.experiments.pictures import OF_SEVERAL_SKILLS
from skillscape.objectives import registry
from skillscape.plots.mazes import Curve
from skillscape.plots.page import MEASURES
from skillscape.training.jobs import BACKBONES, JobRun
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.runs import Run, versions_of

UNREADABLE = (UserError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a damaged run may end in."""

AnyRun = TypeVar("AnyRun", Run, JobRun)


@dataclass(frozen=True)
class Group(Generic[AnyRun]):
    """Runs that differ in their seed alone."""

    method: str
    name: str
    """The folder they stand in, as seen from the folder that was given."""
    runs: tuple[AnyRun, ...]
    label: str = ""


# Reading


def family_of(root: Path, folder: Path) -> str:
    """Names the runs that belong together: the folder of the seeds, or that of the run itself."""
    family = folder.parent if re.fullmatch(r"seed_\d+", folder.name) else folder
    inside = family.resolve().relative_to(root.resolve()) if family.resolve().is_relative_to(root.resolve()) else None
    return inside.as_posix() if inside is not None and inside.parts else family.resolve().name


def damaged(path: Path) -> UserError:
    """What to say of a file that cannot be read."""
    return UserError(f"{path} is damaged; restore it, or train that run again with --force.")


def _diverged(run: Run | JobRun) -> UserError:
    return UserError(
        f"{run.folder} measured numbers that are not finite; leave it out, or train it again with --force."
    )


def results_of(run: Run | JobRun) -> dict[str, Any] | None:
    """What a run wrote at its end, its measures as numbers; None while it is unfinished."""
    path = run.folder / "results.json"
    try:
        results = run.results
        if results is not None:
            measured = {name: value for name, value in results["measures"].items() if value is not None}
            return {**results, "measures": {name: float(value) for name, value in measured.items()}}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path) from error
    return None


def measure_of(run: Run | JobRun, name: str) -> float:
    """One measure of a finished run."""
    results = results_of(run)
    if results is None or name not in results["measures"]:
        raise damaged(run.folder / "results.json")
    if not np.isfinite(results["measures"][name]):
        raise _diverged(run)
    value: float = results["measures"][name]
    return value


def log_of(run: Run | JobRun) -> dict[str, list[float]]:
    """The evaluations of a run: column → values, one for each evaluation."""
    path = run.folder / "evaluation.csv"
    try:
        log = read_metrics(path)
    except (ValueError, IndexError, csv.Error) as error:
        raise damaged(path) from error
    if not log.get("step"):
        raise damaged(path)
    return log


def curve_of(runs: Sequence[Run | JobRun], name: str) -> Curve:
    """One column of every run's evaluations, at the steps that all of them have."""
    logs = [log_of(run) for run in runs]
    for run, log in zip(runs, logs, strict=True):
        if name not in log:
            raise damaged(run.folder / "evaluation.csv")
        if not np.isfinite(log[name]).all():
            raise _diverged(run)
    return common_curve(logs, name)


def measures_of(run: Run) -> tuple[str, ...]:
    """The measures that say something of a run in a maze: without a second skill, nothing is told apart."""
    alone = run.config.objective.skills.count == 1
    return tuple(name for name in MEASURES if not (alone and name in OF_SEVERAL_SKILLS))


def check_run(run: Run | JobRun) -> None:
    """Read the numbers of a finished run once, so that a damaged one is known before anything is compared with it."""
    versions_of([run.folder])
    rewarded = isinstance(run, JobRun) and run.config.task is not None
    for name in measures_of(run) if isinstance(run, Run) else ("return",) * rewarded:
        measure_of(run, name)
        curve_of([run], name)


# Grouping


def grouped(found: Sequence[tuple[str, AnyRun]], key: Callable[[str, AnyRun], str]) -> list[Group[AnyRun]]:
    """Runs of one folder and key belong together, and so do folders of the same key whose seeds differ."""
    families: dict[tuple[str, str], list[AnyRun]] = {}
    for name, run in found:
        families.setdefault((key(name, run), name), []).append(run)
    merged: list[tuple[str, str, list[AnyRun]]] = []
    for (own, name), runs in families.items():
        seeds = {run.config.seed for run in runs}
        if len(seeds) < len(runs):
            raise UserError(f"{name} holds two runs of the same settings and seed; keep one of them.")
        for other, _, members in merged:
            if other == own and seeds.isdisjoint(run.config.seed for run in members):
                members += runs
                break
        else:
            merged.append((own, name, list(runs)))
    groups = [
        Group(method_of(runs[0]), name, tuple(sorted(runs, key=lambda run: run.config.seed)))
        for _, name, runs in merged
    ]
    order = [*BACKBONES, *methods_in_order()]
    return sorted(groups, key=lambda one: order.index(one.method) if one.method in order else len(order))


def method_of(run: Run | JobRun) -> str:
    """The method's plain name; training from scratch is called after its backbone."""
    return run.config.objective.name if isinstance(run, Run) else run.config.method


def label_of(method: str) -> str:
    """How a method, or the backbone alone, is called in tables and figures."""
    kind = BACKBONES.get(method) or registry().get(method)
    return method if kind is None else kind.label


def settings_key(run: Run | JobRun) -> str:
    """The same text for runs that differ in seed or source alone. A maze is its layout, not the path of its file."""
    own = ("seed", "source", "env") if isinstance(run, Run) else ("seed", "source")
    values = {name: value for name, value in run.config.to_json().items() if name not in own}
    return json.dumps(values, sort_keys=True)


def uniquely_labelled(groups: Sequence[Group[AnyRun]], label: Callable[[Group[AnyRun]], str]) -> list[Group[AnyRun]]:
    """The groups with labels; a number sets apart what is called the same."""
    taken: dict[str, int] = {}
    result = []
    for group in groups:
        name = label(group)
        taken[name] = taken.get(name, 0) + 1
        name = name if taken[name] == 1 else f"{name} ({taken[name]})"
        result.append(Group(group.method, group.name, group.runs, name))
    return result
