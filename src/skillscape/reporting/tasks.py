"""The tasks of a report: scores of fine-tuning and of training from scratch, and their aggregates."""

import re
from collections.abc import Mapping, Sequence

from skillscape.config import RunConfig
from skillscape.evaluation import scores
from skillscape.evaluation.costs import cost_of
from skillscape.evaluation.scoreboard import Scoreboard, complete_rows, scoreboard
from skillscape.evaluation.scores import Expert, PublishedTable, ScoreRow, expert_scores
from skillscape.formatting import counted
from skillscape.reporting import collect
from skillscape.reporting.collect import Group, NamedRun, OnMessage
from skillscape.reporting.model import Budget, TaskSection


def task_sections(
    named_runs: Sequence[NamedRun], experts: Mapping[str, Expert], on_message: OnMessage
) -> list[TaskSection]:
    """One section per fine-tuning budget, separately for states and images."""
    budgets: dict[tuple[bool, int], list[NamedRun]] = {}
    for name, run in named_runs:
        if run.config.task is not None:
            # From the results, so that no environment has to be made.
            images = bool((run.results or {}).get("images"))
            budgets.setdefault((images, run.config.steps), []).append((name, run))
    sections = []
    for (images, steps), runs in sorted(budgets.items(), key=lambda budget: budget[0]):
        on_message(f"tasks{' from images' * images} after {steps:,} steps with reward")
        sections.append(_task_section(steps, images, runs, experts))
    return sections


def task_name(config: RunConfig) -> str:
    """The task, with its environment unless that is unambiguous: ``walker_run``, ``maze/square_a · reach``."""
    task, env = config.task or "", config.env
    return task if task in expert_scores() or task == env else f"{env} · {task}"


def _task_section(
    steps: int, images: bool, named_runs: Sequence[NamedRun], experts: Mapping[str, Expert]
) -> TaskSection:
    # A fine-tuning does not record how its source was pre-trained; its folder name may.
    groups = _label_by_folder(
        collect.group_runs(named_runs, lambda name, run: f"{collect.settings_key(run)} {_stem(name, run.config)}")
    )
    by_place = {(group.label, task_name(group.config)): group for group in groups}
    labels = list(dict.fromkeys(group.label for group in groups))
    urlb = list(expert_scores())
    tasks = sorted(
        {task for _, task in by_place}, key=lambda task: (urlb.index(task) if task in urlb else len(urlb), task)
    )
    places = [(label, task) for label in labels for task in tasks if (label, task) in by_place]
    rows = [
        ScoreRow(label, task, run.config.seed, collect.measure_of(run, "return"))
        for label, task in places
        for run in by_place[label, task].runs
    ]
    curves = {place: collect.learning_curves(by_place[place].runs)["return"] for place in places}
    names = {group.config.method: group.config.label for group in groups}
    # The paper's aggregates are relative to URLB's experts, so they are not shown beside others.
    others = any(experts.get(task, score) != score for task, score in expert_scores().items())
    paper_aggregates = {} if images or others else scores.published_aggregates()
    board, notes = _board(rows, {**expert_scores(), **experts})
    return TaskSection(
        finetuning=steps,
        images=images,
        tasks=tasks,
        rows=rows,
        budgets={label: _budget(steps, [group for group in groups if group.label == label]) for label in labels},
        cells=scores.per_task(rows),
        costs={
            label: cost_of(run.folder for group in groups if group.label == label for run in group.runs)
            for label in labels
        },
        published=[_of_methods(table, names, tasks) for table in scores.published_tables(images=images)],
        published_aggregates={
            name: paper_aggregates[method] for method, name in names.items() if method in paper_aggregates
        },
        board=board,
        notes=notes,
        curves={task: {label: curves[label, task] for label in labels if (label, task) in curves} for task in tasks},
    )


def _of_methods(table: PublishedTable, names: Mapping[str, str], tasks: Sequence[str]) -> PublishedTable:
    """The part of a published table that has our methods, by their labels, and our tasks."""
    shown = {
        (name, task): table.scores[method, task]
        for method, name in names.items()
        for task in tasks
        if (method, task) in table.scores
    }
    return table._replace(scores=shown)


def _stem(name: str, config: RunConfig) -> str:
    """The name of a folder without task and seed: the user's name for this way of training."""
    return re.sub(r"[-_]?seed[-_]?\d+", "", name.replace(f"-{config.task}", ""))


def _label_by_folder(groups: Sequence[Group]) -> list[Group]:
    """Label groups by method; a method that was fine-tuned in several ways on a task also by folder."""
    places = [(group.config.method, task_name(group.config)) for group in groups]
    several = {method for method, task in places if places.count((method, task)) > 1}

    def label(group: Group) -> str:
        method, name, stem = group.config.method, group.config.label, _stem(group.name, group.config)
        return f"{name} · {stem}" if method in several and stem != method else name

    labelled: list[Group] = []
    for task in dict.fromkeys(task for _, task in places):
        labelled += collect.with_unique_labels([group for group in groups if task_name(group.config) == task], label)
    return labelled


def _budget(steps: int, groups: Sequence[Group]) -> Budget:
    counts = sorted({len(group.runs) for group in groups})
    seeds = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else counted(counts[0], "seed")
    return Budget(max(group.config.snapshot or 0 for group in groups), steps, seeds)


def _board(rows: Sequence[ScoreRow], experts: Mapping[str, Expert]) -> tuple[Scoreboard | None, list[str]]:
    """Aggregates over the complete rows, and notes on those that were left out."""
    comparable = [row for row in rows if row.task in experts]
    complete = complete_rows(comparable)
    unknown = sorted({row.task for row in rows} - {row.task for row in comparable})
    notes = []
    if unknown:
        notes.append(f"No expert score is known for {', '.join(unknown)}: not in the aggregates. --experts adds one.")
    if comparable and not complete:
        notes.append("No task has been finished by every method yet, so there are no aggregates.")
    elif len(complete) < len(comparable):
        missing = sorted({row.task for row in comparable} - {row.task for row in complete})
        notes.append(
            f"{len(comparable) - len(complete)} of {len(comparable)} scores are not in the aggregates, which need the "
            "same tasks for every method, and the same seeds of a method in all tasks"
            + (f" (incomplete: {', '.join(missing)})." if missing else ".")
        )
    return (scoreboard(complete, experts=experts) if complete else None), notes
