"""A report on any set of runs: found in folders, grouped by what was trained, measured, and put on one page."""

import csv
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from skillscape.api import is_job
from skillscape.envs.host import PIXEL_DOMAINS
from skillscape.errors import UserError
from skillscape.evaluation.mazes import MazeMeasures
from skillscape.evaluation.scoreboard import Scoreboard, complete, scoreboard
from skillscape.evaluation.scores import (
    PUBLISHED_BUDGETS,
    Row,
    expert_scores,
    per_task,
    published_aggregates,
    published_scores,
)
from skillscape.evaluation.summary import summarise
from skillscape.experiments.mazes import LABELS
from skillscape.experiments.pictures import caption, model_density_maps
from skillscape.experiments.urlb import SCRATCH
from skillscape.plots.mazes import Curve, visitation_maps
from skillscape.plots.page import (
    Budget,
    MazePanel,
    MazeSection,
    Page,
    TaskSection,
    Videos,
    build_page,
    plotly_script,
)
from skillscape.training.jobs import JobRun
from skillscape.training.log import read_metrics
from skillscape.training.runs import Run, versions_of

NAMES = {SCRATCH: "DDPG", **LABELS}
MOST_FRAMES = 25
"""Stops of the slider over training."""
EPISODES_SHOWN = 5
"""Episodes of each skill that are drawn."""
LARGEST_VIDEOS = 30_000_000
"""Bytes of video that a page may hold."""
FILES = ("report.html", "report.json", "scores.csv", "aggregate.csv")

AnyRun = TypeVar("AnyRun", Run, JobRun)
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Group(Generic[AnyRun]):
    """Runs that differ in their seed alone."""

    method: str
    name: str
    """The folder they stand in, as seen from the folder that was given."""
    runs: tuple[AnyRun, ...]
    label: str = ""


@dataclass(frozen=True)
class Report:
    """What was found: the page, and its numbers as data."""

    page: Page
    numbers: dict[str, Any]
    scores: Sequence[tuple[str, str, str, int, float]]
    """Method, task or maze, measure, seed, value."""
    aggregates: Sequence[tuple[str, str, str, float, float, float]]
    """Method, task or maze or "all N tasks", statistic, value, ends of the 95 % interval."""


def find_runs(folders: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Every run in or below the folders, with the folder that it was found from; each once."""
    found: dict[Path, tuple[Path, Path]] = {}
    for root in folders:
        if not root.is_dir():
            raise UserError(f"{root} does not exist; give a folder that holds runs.")
        here = list(_search(root))
        if not here:
            raise UserError(f"{root} holds no run; give a folder that `skillscape pretrain` or `reproduce` wrote.")
        for folder in here:
            found.setdefault(folder.resolve(), (root, folder))
    if not found:
        raise UserError("Say which runs to report on, for example `skillscape report runs`.")
    return list(found.values())


def _search(root: Path) -> Iterator[Path]:
    for place, inside, names in os.walk(root):
        inside.sort(key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
        if "config.json" in names:
            inside.clear()  # what a run keeps inside is its own
            yield Path(place)


def gather(folders: Sequence[Path], *, title: str = "Skills", tell: Tell = lambda _: None) -> Report:
    """Read every finished run in or below the folders."""
    found = find_runs(folders)
    tell(f"reading {_count(len(found), 'run')}")
    mazes: list[tuple[str, Run]] = []
    jobs: list[tuple[str, JobRun]] = []
    unfinished = []
    for root, folder in found:
        run = JobRun(folder) if is_job(folder) else Run(folder)
        name = _family(root, folder)
        if _results(run) is None:
            unfinished.append(folder)
        elif isinstance(run, JobRun):
            jobs.append((name, run))
        else:
            mazes.append((name, run))
    if not mazes and not jobs:
        raise UserError(f"None of the {len(found)} runs is finished; go on with --resume, then report.")
    maze_sections = _maze_sections(mazes, tell)
    task_sections, boards = _task_sections(jobs, tell)
    finished: list[Run | JobRun] = [*(run for _, run in mazes), *(run for _, run in jobs)]
    page = Page(
        title,
        _facts(finished, unfinished, maze_sections, task_sections),
        maze_sections,
        task_sections,
        _videos(jobs),
    )
    numbers = {
        "runs": [str(run.folder) for run in finished],
        "unfinished": [str(folder) for folder in unfinished],
        "versions": versions_of(run.folder for run in finished),
        "mazes": [_maze_json(section) for section in maze_sections],
        "tasks": [_task_json(section) for section in task_sections],
    }
    return Report(page, numbers, _score_rows(maze_sections, boards), _aggregate_rows(maze_sections, task_sections))


def write_report(report: Report, folder: Path) -> list[Path]:
    """The page, its numbers, and two tables, each whole or not at all."""
    script = plotly_script()
    contents = {
        "report.html": build_page(report.page, script),
        "report.json": json.dumps(report.numbers, indent=1) + "\n",
        "scores.csv": _csv(("method", "task", "measure", "seed", "score"), report.scores),
        "aggregate.csv": _csv(("method", "task", "statistic", "value", "low", "high"), report.aggregates),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            temporary = folder / f"{name}.partial"
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(folder / name)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; choose another --out.") from error
    return [folder / name for name in contents]


# Reading


def _family(root: Path, folder: Path) -> str:
    """Names the runs that belong together: the folder of the seeds, or that of the run itself."""
    family = folder.parent if re.fullmatch(r"seed_\d+", folder.name) else folder
    inside = family.resolve().relative_to(root.resolve()) if family.resolve().is_relative_to(root.resolve()) else None
    return inside.as_posix() if inside is not None and inside.parts else family.resolve().name


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged; restore it, or train that run again with --force.")


def _diverged(run: Run | JobRun) -> UserError:
    return UserError(
        f"{run.folder} measured numbers that are not finite; leave it out, or train it again with --force."
    )


def _results(run: Run | JobRun) -> dict[str, Any] | None:
    path = run.folder / "results.json"
    try:
        results = run.results
        if results is not None:
            return {**results, "measures": {name: float(value) for name, value in results["measures"].items()}}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error
    return None


def _measure_of(run: Run | JobRun, name: str) -> float:
    results = _results(run)
    if results is None or name not in results["measures"]:
        raise _damaged(run.folder / "results.json")
    if not np.isfinite(results["measures"][name]):
        raise _diverged(run)
    value: float = results["measures"][name]
    return value


def _log(run: Run | JobRun) -> dict[str, list[float]]:
    path = run.folder / "evaluation.csv"
    try:
        log = read_metrics(path)
    except (ValueError, IndexError, csv.Error) as error:
        raise _damaged(path) from error
    if not log.get("step"):
        raise _damaged(path)
    return log


def _curve(runs: Sequence[Run | JobRun], name: str) -> Curve:
    """One column of every run's evaluations, up to the shortest."""
    logs = [_log(run) for run in runs]
    for run, log in zip(runs, logs, strict=True):
        if name not in log:
            raise _damaged(run.folder / "evaluation.csv")
        if not np.isfinite(log[name]).all():
            raise _diverged(run)
    length = min(len(log["step"]) for log in logs)
    return np.array(logs[0]["step"][:length], np.int64), np.array([log[name][:length] for log in logs])


# Grouping


def _grouped(found: Sequence[tuple[str, AnyRun]], key: Callable[[str, AnyRun], str]) -> list[Group[AnyRun]]:
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
        Group(_method(runs[0]), name, tuple(sorted(runs, key=lambda run: run.config.seed))) for _, name, runs in merged
    ]
    order = list(NAMES)
    return sorted(groups, key=lambda one: order.index(one.method) if one.method in order else len(order))


def _method(run: Run | JobRun) -> str:
    return SCRATCH if run.config.objective is None else run.config.objective.name


def _settings_key(run: Run | JobRun) -> str:
    values = {name: value for name, value in run.config.to_json().items() if name not in ("seed", "source")}
    return json.dumps(values, sort_keys=True)


def _unique(groups: Sequence[Group[AnyRun]], label: Callable[[Group[AnyRun]], str]) -> list[Group[AnyRun]]:
    """The groups with labels; a number sets apart what is called the same."""
    taken: dict[str, int] = {}
    result = []
    for group in groups:
        name = label(group)
        taken[name] = taken.get(name, 0) + 1
        name = name if taken[name] == 1 else f"{name} ({taken[name]})"
        result.append(Group(group.method, group.name, group.runs, name))
    return result


# Mazes


def _maze_sections(found: Sequence[tuple[str, Run]], tell: Tell) -> list[MazeSection]:
    """One section per maze. Two mazes of one name are two mazes."""
    mazes: dict[tuple[str, Any], list[tuple[str, Run]]] = {}
    for name, run in found:
        mazes.setdefault((run.config.env, run.config.layout), []).append((name, run))
    sections = []
    for (env, layout), runs in mazes.items():
        groups = _labelled_by_settings(_grouped(runs, lambda _, run: _settings_key(run)))
        panels = []
        for group in groups:
            tell(f"{env}: {group.label}")
            panels.append(_maze_panel(group))
        sections.append(MazeSection(env, layout, panels))
    return sections


def _labelled_by_settings(groups: Sequence[Group[Run]]) -> list[Group[Run]]:
    """The method's name; several groups of one method are told apart by the settings that differ, or by folder."""

    def label(group: Group[Run]) -> str:
        name = NAMES.get(group.method, group.method)
        rivals = [other for other in groups if other.method == group.method]
        if len(rivals) == 1:
            return name
        settings = [_flat(other.runs[0].config.to_json()) for other in rivals]
        own = _flat(group.runs[0].config.to_json())
        different = [key for key in own if any(other.get(key) != own[key] for other in settings)]
        if not 1 <= len(different) <= 2 or len({tuple(map(repr, one.values())) for one in settings}) < len(rivals):
            return f"{name} · {group.name}"
        return f"{name} · " + ", ".join(f"{key.rpartition('.')[2].replace('_', ' ')} {own[key]}" for key in different)

    return _unique(groups, label)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under dotted names, without what every run has of its own."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in config.items()}
    return {
        f"{part}.{key}".strip("."): value
        for part, values in parts.items()
        if part not in ("seed", "layout", "format", "env")
        for key, value in values.items()
    }


def _maze_panel(group: Group[Run]) -> MazePanel:
    runs = group.runs
    layout = runs[0].config.layout
    summaries = {name: summarise([_measure_of(run, name) for run in runs]) for name in MazeMeasures._fields}
    # The seed drawn is the one in the middle, not the prettiest.
    shown = runs[int(np.argsort(summaries["distinguishability"].per_seed)[(len(runs) - 1) // 2])]
    curves = {name: _curve(runs, name) for name in MazeMeasures._fields}
    frames, log = _frames(shown), _log(shown)
    skills = len(frames[-1][1])
    measured = {
        int(step): caption(MazeMeasures(*(log[name][index] for name in MazeMeasures._fields)), skills=skills)
        for index, step in enumerate(log["step"])
    }
    last = frames[-1][1]
    try:
        visits, _ = visitation_maps(last, layout)
    except ValueError as error:
        raise _damaged(shown.folder / "rollouts") from error
    return MazePanel(
        label=group.label,
        steps=shown.end,
        seeds=[run.config.seed for run in runs],
        summaries=summaries,
        curves=curves,
        shown_seed=shown.config.seed,
        frame_steps=[step for step, _ in frames],
        frames=np.stack([positions[:, :EPISODES_SHOWN] for _, positions in frames]),
        captions=[measured.get(step, "") for step, _ in frames],
        visits=visits,
        density=_model_density(shown),
    )


def _frames(run: Run) -> list[tuple[int, Float[np.ndarray, "k r t 2"]]]:
    """Step and episodes of the evaluations that are shown: all, or as many as fit, evenly spread, the last included."""
    paths = sorted(path for path in (run.folder / "rollouts").glob("*.npz") if path.stem.isdigit())
    if not paths:
        raise UserError(f"{run.folder} has lost its rollouts; restore them, or train that run again with --force.")
    places = np.unique(np.linspace(0, len(paths) - 1, min(len(paths), MOST_FRAMES)).round().astype(int))
    frames: list[tuple[int, Float[np.ndarray, "k r t 2"]]] = []
    for path in (paths[place] for place in places):
        try:
            with np.load(path, allow_pickle=False) as stored:
                positions = np.asarray(stored["positions"], np.float64)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(path) from error
        fits = positions.ndim == 4 and positions.shape[-1] == 2 and 0 not in positions.shape
        if not fits or not np.isfinite(positions).all() or (frames and positions.shape != frames[0][1].shape):
            raise _damaged(path)
        frames.append((int(path.stem), positions))
    return frames


def _model_density(run: Run) -> Float[np.ndarray, "k h w"] | None:
    """Density of each skill by the method's own model, where there is a checkpoint and the method has such a model."""
    if run.newest_state() is None:  # a damaged checkpoint is told, not passed over
        return None
    try:
        return model_density_maps(run)[0]
    except UserError:
        return None


# Tasks


def _task_sections(
    found: Sequence[tuple[str, JobRun]], tell: Tell
) -> tuple[list[TaskSection], list[tuple[TaskSection, list[Row]]]]:
    """One section per budget of fine-tuning, from states and from images apart, and the rows of each."""
    budgets: dict[tuple[bool, int], list[tuple[str, JobRun]]] = {}
    for name, run in found:
        if run.config.task is not None:
            images = run.config.env.partition("/")[0] in PIXEL_DOMAINS
            budgets.setdefault((images, run.config.steps), []).append((name, run))
    sections = []
    for (images, steps), runs in sorted(budgets.items()):
        tell(f"tasks{' from images' * images} after {steps:,} steps with reward")
        sections.append(_task_section(steps, images, runs))
    return [section for section, _ in sections], sections


def _task_section(steps: int, images: bool, found: Sequence[tuple[str, JobRun]]) -> tuple[TaskSection, list[Row]]:
    # The settings of a fine-tuning do not tell how its source was pre-trained; the name of its folder may.
    groups = _labelled_by_folder(_grouped(found, lambda name, run: f"{_settings_key(run)} {_stem(name, run)}"))
    known = list(expert_scores())
    tasks = sorted(
        {_task(group) for group in groups}, key=lambda task: (known.index(task) if task in known else len(known), task)
    )
    labels = list(dict.fromkeys(group.label for group in groups))
    by_place = {(group.label, _task(group)): group for group in groups}
    rows = [
        Row(label, task, run.config.seed, _measure_of(run, "return"))
        for label in labels
        for task in tasks
        if (label, task) in by_place
        for run in by_place[label, task].runs
    ]
    names = {method: NAMES.get(method, method) for method in dict.fromkeys(group.method for group in groups)}
    table = "pixel" if images else "state"
    paper, paper_aggregates = published_scores(table), {} if images else published_aggregates()
    board, notes = _board(rows)
    section = TaskSection(
        finetuning=steps,
        images=images,
        tasks=tasks,
        budgets={label: _budget(label, steps, groups) for label in labels},
        cells=per_task(rows),
        published={
            (name, task): paper[method, task]
            for method, name in names.items()
            for task in tasks
            if (method, task) in paper
        },
        published_budget=PUBLISHED_BUDGETS[table],
        published_aggregates={
            name: paper_aggregates[method] for method, name in names.items() if method in paper_aggregates
        },
        board=board,
        notes=notes,
        curves={
            task: {label: _curve(by_place[label, task].runs, "return") for label in labels if (label, task) in by_place}
            for task in tasks
        },
    )
    return section, rows


def _task(group: Group[JobRun]) -> str:
    return group.runs[0].config.task or group.runs[0].config.env


def _stem(name: str, run: JobRun) -> str:
    """The name of a folder without task and seed: what a user may have called this way of training."""
    return re.sub(r"[-_]?seed[-_]?\d+", "", name.replace(f"-{run.config.task}", ""))


def _labelled_by_folder(groups: Sequence[Group[JobRun]]) -> list[Group[JobRun]]:
    """The method's name; a method that was fine-tuned in several ways on a task is told apart by its folders."""
    places = [(group.method, _task(group)) for group in groups]
    several = {method for method, task in places if places.count((method, task)) > 1}
    labelled: list[Group[JobRun]] = []
    for task in dict.fromkeys(_task(group) for group in groups):
        own = [group for group in groups if _task(group) == task]

        def label(group: Group[JobRun]) -> str:
            name = NAMES.get(group.method, group.method)
            stem = _stem(group.name, group.runs[0])
            return f"{name} · {stem}" if group.method in several and stem != group.method else name

        labelled += _unique(own, label)
    return labelled


def _budget(label: str, steps: int, groups: Sequence[Group[JobRun]]) -> Budget:
    own = [group for group in groups if group.label == label]
    counts = sorted({len(group.runs) for group in own})
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else _count(counts[0], "seed")
    return Budget(max(group.runs[0].config.snapshot or 0 for group in own), steps, seeds)


def _board(rows: Sequence[Row]) -> tuple[Scoreboard | None, list[str]]:
    """Aggregates over what every method has, and what was left out for it."""
    comparable = [row for row in rows if row.task in expert_scores()]
    kept = complete(comparable)
    unknown = sorted({row.task for row in rows} - {row.task for row in comparable})
    notes = [f"No expert's score is known for {', '.join(unknown)}: not in the aggregates."] if unknown else []
    if comparable and not kept:
        notes.append("No task has been finished by every method yet, so there are no aggregates.")
    elif len(kept) < len(comparable):
        missing = sorted({row.task for row in comparable} - {row.task for row in kept})
        notes.append(
            f"{len(comparable) - len(kept)} of {len(comparable)} scores are not in the aggregates: a method must have "
            "the same seeds in all tasks, and every method the same tasks"
            + (f" (not yet: {', '.join(missing)})." if missing else ".")
        )
    return (scoreboard(kept) if kept else None), notes


# Videos


def _videos(found: Sequence[tuple[str, JobRun]]) -> list[Videos]:
    """The videos of one run of each folder: the first seed that has some, else a word on how to make them."""
    families: dict[str, list[JobRun]] = {}
    for name, run in found:
        families.setdefault(name, []).append(run)
    shown, left = [], LARGEST_VIDEOS
    pretrained = any(runs[0].config.phase == "pretrain" for runs in families.values())
    for name, runs in families.items():
        filmed = [run for run in runs if any((run.folder / "videos").glob("*.mp4"))]
        if not filmed and pretrained and runs[0].config.phase != "pretrain":
            continue  # one word per pre-training is enough
        run = (filmed or runs)[0]
        clips, left_out = [], 0
        for path in sorted((run.folder / "videos").glob("*.mp4")):
            if path.stat().st_size > left:
                left_out += 1
                continue
            left -= path.stat().st_size
            clips.append((re.sub(r"_0*(\d+)$", r" \1", path.stem), path.read_bytes()))
        job = run.config
        title = f"{NAMES.get(_method(run), _method(run))} · {job.task or job.env} · seed {job.seed} ({name})"
        shown.append(Videos(title, str(run.folder), clips, left_out))
    return shown


# Words and numbers


def _facts(
    runs: Sequence[Run | JobRun],
    unfinished: Sequence[Path],
    mazes: Sequence[MazeSection],
    tasks: Sequence[TaskSection],
) -> list[tuple[str, str]]:
    places = [
        *(f"{section.env}: {_count(len(section.panels), 'method')}" for section in mazes),
        *(f"{_count(len(section.tasks), 'task')}: {_count(len(section.budgets), 'method')}" for section in tasks),
    ]
    budgets = [
        *(f"{panel.steps:,} steps" for section in mazes for panel in section.panels),
        *(
            f"{budget.pretraining:,} + {budget.finetuning:,} steps"
            for section in tasks
            for budget in section.budgets.values()
        ),
    ]
    versions = versions_of(run.folder for run in runs)
    told = [name for name in ("skillscape", "python", "jax", "numpy", "mujoco", "dm_control") if name in versions]
    commits = [commit[:10] for commit in versions.get("git", [])]
    facts = [
        ("runs", f"{len(runs)}" + (f", and {len(unfinished)} unfinished ones left out" if unfinished else "")),
        ("where", "; ".join(places) or "pre-training only"),
        ("budget", "; ".join(dict.fromkeys(budgets)) or f"{max(run.config.steps for run in runs):,} steps"),
        ("versions", ", ".join(f"{name} {'/'.join(versions[name])}" for name in told)),
    ]
    if commits:
        facts.append(("commit", ", ".join(commits[:4]) + (f" and {len(commits) - 4} more" if len(commits) > 4 else "")))
    return facts


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def _maze_json(section: MazeSection) -> dict[str, Any]:
    return {
        "env": section.env,
        "methods": [
            {
                "label": panel.label,
                "steps": panel.steps,
                "shown_seed": panel.shown_seed,
                "measures": {name: summary.to_json() for name, summary in panel.summaries.items()},
                "curves": {name: _curve_json(curve) for name, curve in panel.curves.items()},
            }
            for panel in section.panels
        ],
    }


def _task_json(section: TaskSection) -> dict[str, Any]:
    return {
        "finetuning_steps": section.finetuning,
        "images": section.images,
        "budgets": {label: budget._asdict() for label, budget in section.budgets.items()},
        "scores": [{"method": label, "task": task, **cell._asdict()} for (label, task), cell in section.cells.items()],
        "published_budget": section.published_budget,
        "published": [
            {"method": label, "task": task, **cell._asdict()} for (label, task), cell in section.published.items()
        ],
        "notes": list(section.notes),
        "normalised": None if section.board is None else section.board.to_json(),
        "curves": {
            task: {label: _curve_json(curve) for label, curve in lines.items()}
            for task, lines in section.curves.items()
        },
    }


def _curve_json(curve: Curve) -> dict[str, Any]:
    steps, values = curve
    return {"step": steps.tolist(), "per_seed": np.round(values, 4).tolist()}


def _score_rows(
    mazes: Sequence[MazeSection], tasks: Sequence[tuple[TaskSection, Sequence[Row]]]
) -> list[tuple[str, str, str, int, float]]:
    found = []
    for section in mazes:
        for panel in section.panels:
            for name, summary in panel.summaries.items():
                found += [
                    (panel.label, section.env, name, seed, value)
                    for seed, value in zip(panel.seeds, summary.per_seed, strict=True)
                ]
    found += [
        (row.method, row.task + " from images" * section.images, "return", row.seed, row.score)
        for section, rows in tasks
        for row in rows
    ]
    return found


def _aggregate_rows(
    mazes: Sequence[MazeSection], tasks: Sequence[TaskSection]
) -> list[tuple[str, str, str, float, float, float]]:
    found = [
        (panel.label, section.env, f"mean {name}", summary.mean, *summary.interval)
        for section in mazes
        for panel in section.panels
        for name, summary in panel.summaries.items()
    ]
    for section in tasks:
        if section.board is None:
            continue
        every = (
            f"{_count(len(section.board.tasks), 'task')}{' from images' * section.images}, {section.finetuning} steps"
        )
        found += [(label, every, name, *one) for (label, name), one in section.board.aggregates.items()]
        found += [
            (label, every, f"probability of improvement over {other}", *one)
            for (label, other), one in section.board.improvements.items()
        ]
    return found


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
