"""The numbers of a report as its files hold them: values for JSON, rows for CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from skillscape.evaluation.scores import Row
from skillscape.plots.mazes import Curve
from skillscape.plots.page import MazeSection, TaskSection

Aggregate: TypeAlias = tuple[str, str, str, float, float | None, float | None]
"""Method, task or maze or "N tasks", statistic, value, ends of its 95 % interval: None for one seed."""


def counted(number: int, thing: str) -> str:
    """A number of things in words: ``1 seed``, ``2 seeds``."""
    return f"{number} {thing}{'s' if number != 1 else ''}"


def maze_json(section: MazeSection) -> dict[str, Any]:
    """What ``report.json`` says of one maze."""
    return {
        "env": section.env,
        "methods": [
            {
                "label": panel.label,
                "steps": panel.steps,
                "shown_seed": panel.shown_seed,
                "measures": {
                    name: None if summary is None else summary.to_json() for name, summary in panel.summaries.items()
                },
                "curves": {name: _curve_json(curve) for name, curve in panel.curves.items()},
            }
            for panel in section.panels
        ],
    }


def task_json(section: TaskSection) -> dict[str, Any]:
    """What ``report.json`` says of the tasks at one budget."""
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


def score_rows(
    mazes: Sequence[MazeSection], tasks: Sequence[tuple[TaskSection, Sequence[Row]]]
) -> list[tuple[str, str, str, int, float]]:
    """Method, task or maze, measure, seed, value: the rows of ``scores.csv``."""
    found = []
    for section in mazes:
        for panel in section.panels:
            for name, summary in panel.summaries.items():
                if summary is not None:
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


def aggregate_rows(mazes: Sequence[MazeSection], tasks: Sequence[TaskSection]) -> list[Aggregate]:
    """The rows of ``aggregate.csv``; what says nothing of a method has none."""
    found: list[Aggregate] = [
        (panel.label, section.env, f"mean {name}", summary.mean, *(summary.interval or (None, None)))
        for section in mazes
        for panel in section.panels
        for name, summary in panel.summaries.items()
        if summary is not None
    ]
    for section in tasks:
        budget = f"{' from images' * section.images}, {section.finetuning} steps"
        found += [
            (label, f"{task}{budget}", "mean return", cell.mean, cell.low, cell.high)
            for (label, task), cell in section.cells.items()
        ]
        if section.board is None:
            continue
        every = f"{counted(len(section.board.tasks), 'task')}{budget}"
        found += [(label, every, name, *one) for (label, name), one in section.board.aggregates.items()]
        found += [
            (label, every, f"probability of improvement over {other}", *one)
            for (label, other), one in section.board.improvements.items()
            if one is not None
        ]
    return found


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as the text of a CSV file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
