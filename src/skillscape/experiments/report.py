"""A report on any set of runs: found in folders, grouped by what was trained, measured, and put on one page."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillscape.api import is_job
from skillscape.envs.host import PIXEL_DOMAINS
from skillscape.errors import UserError
from skillscape.evaluation.scoreboard import Scoreboard, complete, scoreboard
from skillscape.evaluation.scores import (
    PUBLISHED_BUDGETS,
    Expert,
    Row,
    expert_scores,
    per_task,
    published_aggregates,
    published_scores,
)
from skillscape.experiments.report_files import (
    Aggregate,
    aggregate_rows,
    counted,
    csv_text,
    maze_json,
    score_rows,
    task_json,
)
from skillscape.experiments.report_mazes import Tell, maze_sections
from skillscape.experiments.report_runs import (
    UNREADABLE,
    Group,
    check_run,
    curve_of,
    family_of,
    grouped,
    label_of,
    measure_of,
    method_of,
    results_of,
    settings_key,
    uniquely_labelled,
)
from skillscape.plots.page import (
    Budget,
    MazeSection,
    Page,
    TaskSection,
    Videos,
    build_page,
    plotly_script,
)
from skillscape.training.jobs import JobRun
from skillscape.training.runs import Run, versions_of

LARGEST_VIDEOS = 30_000_000
"""Bytes of video that a page may hold."""


@dataclass(frozen=True)
class Report:
    """What was found: the page, and its numbers as data."""

    page: Page
    numbers: dict[str, Any]
    scores: Sequence[tuple[str, str, str, int, float]]
    """Method, task or maze, measure, seed, value."""
    aggregates: Sequence[Aggregate]
    left_out: Sequence[tuple[Path, str]]
    """Runs that could not be read, and why."""


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


def gather(
    folders: Sequence[Path],
    *,
    title: str = "Skills",
    experts: Mapping[str, Expert] | None = None,
    tell: Tell = lambda _: None,
) -> Report:
    """Read every finished run in or below the folders. A run that cannot be read is left out, and told.

    ``experts``: scores that join those of URLB, by task; see ``scores.Expert``.
    """
    found = find_runs(folders)
    tell(f"reading {counted(len(found), 'run')}")
    left_out: dict[Path, str] = {}

    def leave_out(folder: Path, error: Exception) -> None:
        left_out[folder] = str(error) if isinstance(error, UserError) else f"{folder} is damaged: {error!r}."
        tell(f"left out: {left_out[folder]}")

    mazes: list[tuple[str, Run]] = []
    jobs: list[tuple[str, JobRun]] = []
    unfinished = []
    for root, folder in found:
        try:
            run = JobRun(folder) if is_job(folder) else Run(folder)
            if results_of(run) is None:
                unfinished.append(folder)
                continue
            check_run(run)
        except UNREADABLE as error:
            leave_out(folder, error)
            continue
        if isinstance(run, JobRun):
            jobs.append((family_of(root, folder), run))
        else:
            mazes.append((family_of(root, folder), run))
    in_mazes = maze_sections(mazes, tell, leave_out)
    on_tasks, boards = _task_sections(jobs, experts or {}, tell)
    read: list[Run | JobRun] = [*(run for _, run in mazes), *(run for _, run in jobs)]
    finished = [run for run in read if run.folder not in left_out]
    if not finished and left_out:
        raise UserError(f"None of the {len(found)} runs can be reported: {next(iter(left_out.values()))}")
    if not finished:
        raise UserError(f"None of the {len(found)} runs is finished; go on with --resume, then report.")
    page = Page(
        title,
        _facts(finished, unfinished, list(left_out.values()), in_mazes, on_tasks),
        in_mazes,
        on_tasks,
        _videos(jobs),
    )
    numbers = {
        "runs": [str(run.folder) for run in finished],
        "unfinished": [str(folder) for folder in unfinished],
        "left_out": [{"run": str(folder), "reason": reason} for folder, reason in left_out.items()],
        "versions": versions_of(run.folder for run in finished),
        "mazes": [maze_json(section) for section in in_mazes],
        "tasks": [task_json(section) for section in on_tasks],
    }
    return Report(
        page,
        numbers,
        score_rows(in_mazes, boards),
        aggregate_rows(in_mazes, on_tasks),
        list(left_out.items()),
    )


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


# Tasks


def _task_sections(
    found: Sequence[tuple[str, JobRun]], experts: Mapping[str, Expert], tell: Tell
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
        sections.append(_task_section(steps, images, runs, experts))
    return [section for section, _ in sections], sections


def _task_section(
    steps: int, images: bool, found: Sequence[tuple[str, JobRun]], experts: Mapping[str, Expert]
) -> tuple[TaskSection, list[Row]]:
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
    names = {method: label_of(method) for method in dict.fromkeys(group.method for group in groups)}
    table = "pixel" if images else "state"
    # The paper's aggregates are shares of URLB's experts, and beside no others.
    others = any(experts.get(task, score) != score for task, score in expert_scores().items())
    paper, paper_aggregates = published_scores(table), {} if images or others else published_aggregates()
    board, notes = _board(rows, {**expert_scores(), **experts})
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
            name = label_of(group.method)
            stem = _stem(group.name, group.runs[0])
            return f"{name} · {stem}" if group.method in several and stem != group.method else name

        labelled += uniquely_labelled(own, label)
    return labelled


def _budget(label: str, steps: int, groups: Sequence[Group[JobRun]]) -> Budget:
    own = [group for group in groups if group.label == label]
    counts = sorted({len(group.runs) for group in own})
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
    return Budget(max(group.runs[0].config.snapshot or 0 for group in own), steps, seeds)


def _board(rows: Sequence[Row], experts: Mapping[str, Expert]) -> tuple[Scoreboard | None, list[str]]:
    """Aggregates over what every method has, and what was left out for it."""
    comparable = [row for row in rows if row.task in experts]
    kept = complete(comparable)
    unknown = sorted({row.task for row in rows} - {row.task for row in comparable})
    notes = (
        [f"No expert's score is known for {', '.join(unknown)}: not in the aggregates. --experts gives one."]
        if unknown
        else []
    )
    if comparable and not kept:
        notes.append("No task has been finished by every method yet, so there are no aggregates.")
    elif len(kept) < len(comparable):
        missing = sorted({row.task for row in comparable} - {row.task for row in kept})
        notes.append(
            f"{len(comparable) - len(kept)} of {len(comparable)} scores are not in the aggregates: a method must have "
            "the same seeds in all tasks, and every method the same tasks"
            + (f" (not yet: {', '.join(missing)})." if missing else ".")
        )
    return (scoreboard(kept, experts=experts) if kept else None), notes


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
        title = f"{label_of(method_of(run))} · {job.task or job.env} · seed {job.seed} ({name})"
        shown.append(Videos(title, str(run.folder), clips, left_out))
    return shown


# Words


def _facts(
    runs: Sequence[Run | JobRun],
    unfinished: Sequence[Path],
    left_out: Sequence[str],
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
    if left_out:
        facts.insert(1, ("left out", " ".join(left_out)))
    if commits:
        facts.append(("commit", ", ".join(commits[:4]) + (f" and {len(commits) - 4} more" if len(commits) > 4 else "")))
    return facts
