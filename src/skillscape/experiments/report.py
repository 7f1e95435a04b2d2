"""A report on any set of runs: found in folders, grouped by what was trained, measured, and put on one page."""

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from skillscape.experiments.pictures import caption, model_density_maps
from skillscape.experiments.report_files import aggregate_rows, counted, csv_text, maze_json, score_rows, task_json
from skillscape.experiments.report_runs import (
    NAMES,
    Group,
    curve_of,
    damaged,
    family_of,
    grouped,
    log_of,
    measure_of,
    method_of,
    results_of,
    settings_key,
    uniquely_labelled,
)
from skillscape.plots.mazes import visitation_maps
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
from skillscape.training.runs import Run, versions_of

MOST_FRAMES = 25
"""Stops of the slider over training."""
EPISODES_SHOWN = 5
"""Episodes of each skill that are drawn."""
LARGEST_VIDEOS = 30_000_000
"""Bytes of video that a page may hold."""

Tell = Callable[[str], None]


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
    tell(f"reading {counted(len(found), 'run')}")
    mazes: list[tuple[str, Run]] = []
    jobs: list[tuple[str, JobRun]] = []
    unfinished = []
    for root, folder in found:
        run = JobRun(folder) if is_job(folder) else Run(folder)
        name = family_of(root, folder)
        if results_of(run) is None:
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
        "mazes": [maze_json(section) for section in maze_sections],
        "tasks": [task_json(section) for section in task_sections],
    }
    return Report(page, numbers, score_rows(maze_sections, boards), aggregate_rows(maze_sections, task_sections))


def write_report(report: Report, folder: Path) -> list[Path]:
    """The page, its numbers, and two tables, each whole or not at all."""
    script = plotly_script()
    contents = {
        "report.html": build_page(report.page, script),
        "report.json": json.dumps(report.numbers, indent=1) + "\n",
        "scores.csv": csv_text(("method", "task", "measure", "seed", "score"), report.scores),
        "aggregate.csv": csv_text(("method", "task", "statistic", "value", "low", "high"), report.aggregates),
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


# Mazes


def _maze_sections(found: Sequence[tuple[str, Run]], tell: Tell) -> list[MazeSection]:
    """One section per maze. Two mazes of one name are two mazes."""
    mazes: dict[tuple[str, Any], list[tuple[str, Run]]] = {}
    for name, run in found:
        mazes.setdefault((run.config.env, run.config.layout), []).append((name, run))
    sections = []
    for (env, layout), runs in mazes.items():
        groups = _labelled_by_settings(grouped(runs, lambda _, run: settings_key(run)))
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

    return uniquely_labelled(groups, label)


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
    summaries = {name: summarise([measure_of(run, name) for run in runs]) for name in MazeMeasures._fields}
    # The seed drawn is the one in the middle, not the prettiest.
    shown = runs[int(np.argsort(summaries["distinguishability"].per_seed)[(len(runs) - 1) // 2])]
    curves = {name: curve_of(runs, name) for name in MazeMeasures._fields}
    frames, log = _frames(shown), log_of(shown)
    skills = len(frames[-1][1])
    measured = {
        int(step): caption(MazeMeasures(*(log[name][index] for name in MazeMeasures._fields)), skills=skills)
        for index, step in enumerate(log["step"])
    }
    last = frames[-1][1]
    try:
        visits, _ = visitation_maps(last, layout)
    except ValueError as error:
        raise damaged(shown.folder / "rollouts") from error
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
            raise damaged(path) from error
        fits = positions.ndim == 4 and positions.shape[-1] == 2 and 0 not in positions.shape
        if not fits or not np.isfinite(positions).all() or (frames and positions.shape != frames[0][1].shape):
            raise damaged(path)
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
    groups = _labelled_by_folder(grouped(found, lambda name, run: f"{settings_key(run)} {_stem(name, run)}"))
    known = list(expert_scores())
    tasks = sorted(
        {_task(group) for group in groups}, key=lambda task: (known.index(task) if task in known else len(known), task)
    )
    labels = list(dict.fromkeys(group.label for group in groups))
    by_place = {(group.label, _task(group)): group for group in groups}
    rows = [
        Row(label, task, run.config.seed, measure_of(run, "return"))
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
            task: {
                label: curve_of(by_place[label, task].runs, "return") for label in labels if (label, task) in by_place
            }
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

        labelled += uniquely_labelled(own, label)
    return labelled


def _budget(label: str, steps: int, groups: Sequence[Group[JobRun]]) -> Budget:
    own = [group for group in groups if group.label == label]
    counts = sorted({len(group.runs) for group in own})
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
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
        title = f"{NAMES.get(method_of(run), method_of(run))} · {job.task or job.env} · seed {job.seed} ({name})"
        shown.append(Videos(title, str(run.folder), clips, left_out))
    return shown


# Words


def _facts(
    runs: Sequence[Run | JobRun],
    unfinished: Sequence[Path],
    mazes: Sequence[MazeSection],
    tasks: Sequence[TaskSection],
) -> list[tuple[str, str]]:
    places = [
        *(f"{section.env}: {counted(len(section.panels), 'method')}" for section in mazes),
        *(f"{counted(len(section.tasks), 'task')}: {counted(len(section.budgets), 'method')}" for section in tasks),
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
