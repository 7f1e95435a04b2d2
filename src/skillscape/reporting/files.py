"""The files of a report: the page, its numbers as JSON, and two CSV tables."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from skillscape.evaluation.scoreboard import records
from skillscape.formatting import counted
from skillscape.plots.curves import Curve
from skillscape.reporting.html import build_page, plotly_script
from skillscape.reporting.model import BodySection, MazeSection, Report, TaskSection
from skillscape.training.files import write_text, writing_to

Aggregate: TypeAlias = tuple[str, str, str, float, float | None, float | None]
"""Method; task, environment or "N tasks"; statistic; value; ends of its 95 % interval, None for one seed."""


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write all files of a report, each atomically."""
    contents = {
        "report.html": build_page(report, plotly_script()),
        "report.json": json.dumps(report_json(report), indent=1) + "\n",
        "scores.csv": _csv(("method", "task", "measure", "seed", "score"), score_rows(report)),
        "aggregate.csv": _csv(("method", "task", "statistic", "value", "low", "high"), aggregate_rows(report)),
    }
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            write_text(folder / name, text)
    return [folder / name for name in contents]


def report_json(report: Report) -> dict[str, Any]:
    """The object in ``report.json``."""
    return {
        "runs": [str(folder) for folder in report.runs],
        "unfinished": [str(folder) for folder in report.unfinished],
        "left_out": [{"run": str(folder), "reason": reason} for folder, reason in report.left_out],
        "versions": dict(report.versions),
        "mazes": [_skills_json(section) for section in report.mazes],
        "bodies": [_skills_json(section) for section in report.bodies],
        "tasks": [_task_json(section) for section in report.tasks],
    }


def _skills_json(section: MazeSection | BodySection) -> dict[str, Any]:
    return {
        "env": section.env,
        "methods": [
            {
                "label": panel.label,
                "steps": panel.steps,
                "shown_seed": panel.shown_seed,
                **panel.cost.to_json(),
                "measures": {name: summary and summary.to_json() for name, summary in panel.summaries.items()},
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
        "scores": records(section.cells, "method", "task"),
        "costs": {label: cost.to_json() for label, cost in section.costs.items()},
        "published": [
            {"source": table.source, "budget": table.budget, "scores": records(table.scores, "method", "task")}
            for table in section.published
        ],
        "notes": list(section.notes),
        "normalised": section.board and section.board.to_json(),
        "curves": {
            task: {label: _curve_json(curve) for label, curve in lines.items()}
            for task, lines in section.curves.items()
        },
    }


def _curve_json(curve: Curve) -> dict[str, Any]:
    steps, values = curve
    return {"step": steps.tolist(), "per_seed": np.round(values, 4).tolist()}


def score_rows(report: Report) -> list[tuple[str, str, str, int, float]]:
    """Method, task or environment, measure, seed, value: the rows of ``scores.csv``."""
    rows = [
        (panel.label, section.env, name, seed, value)
        for section in report.skills
        for panel in section.panels
        for name, summary in panel.summaries.items()
        if summary is not None
        for seed, value in zip(panel.seeds, summary.per_seed, strict=True)
    ]
    return rows + [
        (row.method, row.task + " from images" * section.images, "return", row.seed, row.score)
        for section in report.tasks
        for row in section.rows
    ]


def aggregate_rows(report: Report) -> list[Aggregate]:
    """The rows of ``aggregate.csv``; measures that are undefined for a method have none."""
    rows: list[Aggregate] = [
        (panel.label, section.env, f"mean {name}", summary.mean, *(summary.interval or (None, None)))
        for section in report.skills
        for panel in section.panels
        for name, summary in panel.summaries.items()
        if summary is not None
    ]
    for section in report.tasks:
        budget = f"{' from images' * section.images}, {section.finetuning} steps"
        rows += [
            (label, f"{task}{budget}", "mean return", cell.mean, cell.low, cell.high)
            for (label, task), cell in section.cells.items()
        ]
        if section.board is None:
            continue
        tasks = f"{counted(len(section.board.tasks), 'task')}{budget}"
        rows += [(label, tasks, name, *estimate) for (label, name), estimate in section.board.aggregates.items()]
        rows += [
            (label, tasks, f"probability of improvement over {other}", *estimate)
            for (label, other), estimate in section.board.improvements.items()
            if estimate is not None
        ]
    return rows


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
