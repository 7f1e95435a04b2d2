"""``skillscape report``: one page about many runs."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from skillscape.errors import UserError


@dataclass(frozen=True)
class ReportOptions:
    """Write one HTML page about runs, which opens offline, and its numbers as JSON and CSV. Runs are only read.

    A run that cannot be read is left out of the report: the page and the last line name it, and the exit code is 2.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, or folders that hold such folders at any depth; unfinished runs are left out."""
    out: Path = Path("report")
    """Folder for report.html, report.json, scores.csv and aggregate.csv."""
    title: str = "Skills"
    """What stands at the top of the page."""
    experts: Path | None = None
    """JSON file of scores to compare with: {"task": expert}, or {"task": [random, expert]} where a random policy does
    not earn 0. URLB's twelve are known."""


def report_command(arguments: list[str]) -> None:
    """Gather, write, and say where the page is."""
    options = tyro.cli(ReportOptions, args=arguments, prog="skillscape report")
    if not options.runs:
        raise UserError("Say which runs to report on, for example `skillscape report runs`.")
    from skillscape.evaluation.scores import read_experts
    from skillscape.reporting.files import write_report
    from skillscape.reporting.html import plotly_script
    from skillscape.reporting.report import gather

    # What would stop the writing is told before the reading, which may take a while.
    plotly_script()
    _check_writable(options.out)
    experts = None if options.experts is None else read_experts(options.experts)
    report = gather(
        options.runs,
        title=options.title,
        experts=experts,
        on_message=lambda line: print(line, file=sys.stderr, flush=True),
    )
    for path in write_report(report, options.out):
        print(path, flush=True)
    if report.left_out:
        names = ", ".join(str(folder) for folder, _ in report.left_out)
        raise UserError(
            f"The report is written without what cannot be read: {names}; repair these runs, or report without them."
        )


def _check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, without making it."""
    near = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not near.is_dir():
        raise UserError(f"Cannot write to {folder}: {near} is a file; choose another --out.")
    if not os.access(near, os.W_OK | os.X_OK):
        raise UserError(f"Cannot write to {folder}: no permission; choose another --out.")
