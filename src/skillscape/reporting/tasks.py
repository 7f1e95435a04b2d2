"""The tasks of a report: scores of fine-tuning and of training from scratch, and the aggregates over them."""

import re
from collections.abc import Mapping, Sequence

from skillscape.config import RunConfig
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
from skillscape.reporting.collect import (
    Found,
    Group,
    grouped,
    learning_curves,
    measure_of,
    settings_key,
    uniquely_labelled,
)
from skillscape.reporting.mazes import OnMessage
from skillscape.reporting.model import Budget, TaskSection
from skillscape.words import counted


def task_sections(found: Sequence[Found], experts: Mapping[str, Expert], on_message: OnMessage) -> list[TaskSection]:
    """One section per budget of fine-tuning, from states and from images apart."""
    budgets: dict[tuple[bool, int], list[Found]] = {}
    for name, run in found:
        if run.config.task is not None:
            # The results say so, and no environment has to be made to know.
            images = bool((run.results or {}).get("images"))
            budgets.setdefault((images, run.config.steps), []).append((name, run))
    sections = []
    for (images, steps), runs in sorted(budgets.items(), key=lambda budget: budget[0]):
        on_message(f"tasks{' from images' * images} after {steps:,} steps with reward")
        sections.append(_task_section(steps, images, runs, experts))
    return sections


def task_name(config: RunConfig) -> str:
    """The task, with its environment where it may be one of several: ``walker_run``, ``maze/square_a · reach``."""
    task, env = config.task or "", config.env
    return task if task in expert_scores() or task == env else f"{env} · {task}"


def _task_section(steps: int, images: bool, found: Sequence[Found], experts: Mapping[str, Expert]) -> TaskSection:
    # The settings of a fine-tuning do not tell how its source was pre-trained; the name of its folder may.
    groups = _labelled_by_folder(grouped(found, lambda name, run: f"{settings_key(run)} {_stem(name, run.config)}"))
    by_place = {(group.label, task_name(group.config)): group for group in groups}
    labels = list(dict.fromkeys(group.label for group in groups))
    known = list(expert_scores())
    tasks = sorted(
        {task for _, task in by_place}, key=lambda task: (known.index(task) if task in known else len(known), task)
    )
    places = [(label, task) for label in labels for task in tasks if (label, task) in by_place]
    rows = [
        Row(label, task, run.config.seed, measure_of(run, "return"))
        for label, task in places
        for run in by_place[label, task].runs
    ]
    curves = {place: learning_curves(by_place[place].runs)["return"] for place in places}
    names = {group.config.method: group.config.label for group in groups}
    table = "pixel" if images else "state"
    # The paper's aggregates are shares of URLB's experts, and beside no others.
    others = any(experts.get(task, score) != score for task, score in expert_scores().items())
    paper, paper_aggregates = published_scores(table), {} if images or others else published_aggregates()
    board, notes = _board(rows, {**expert_scores(), **experts})
    return TaskSection(
        finetuning=steps,
        images=images,
        tasks=tasks,
        rows=rows,
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
        curves={task: {label: curves[label, task] for label in labels if (label, task) in curves} for task in tasks},
    )


def _stem(name: str, config: RunConfig) -> str:
    """The name of a folder without task and seed: what a user may have called this way of training."""
    return re.sub(r"[-_]?seed[-_]?\d+", "", name.replace(f"-{config.task}", ""))


def _labelled_by_folder(groups: Sequence[Group]) -> list[Group]:
    """The method's name; a method that was fine-tuned in several ways on a task is told apart by its folders."""
    places = [(group.config.method, task_name(group.config)) for group in groups]
    several = {method for method, task in places if places.count((method, task)) > 1}

    def label(group: Group) -> str:
        method, name, stem = group.config.method, group.config.label, _stem(group.name, group.config)
        return f"{name} · {stem}" if method in several and stem != method else name

    labelled: list[Group] = []
    for task in dict.fromkeys(task for _, task in places):
        labelled += uniquely_labelled([group for group in groups if task_name(group.config) == task], label)
    return labelled


def _budget(label: str, steps: int, groups: Sequence[Group]) -> Budget:
    own = [group for group in groups if group.label == label]
    counts = sorted({len(group.runs) for group in own})
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
    return Budget(max(group.config.snapshot or 0 for group in own), steps, seeds)


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
