"""``skillscape report``: an HTML report on many runs."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from skillscape.errors import UserError


@dataclass(frozen=True)
class ReportOptions:
    """Write a self-contained HTML report on runs, and its numbers as JSON and CSV. The runs are not changed.

    Runs that cannot be read are skipped: the report and the last line of output name them, and the exit code is 2.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders that contain run folders at any depth, or zoo; unfinished runs are skipped."""
    out: Path = Path("report")
    """Folder for report.html, report.json, scores.csv and aggregate.csv."""
    title: str = "Skills"
    """Title at the top of the report."""
    experts: Path | None = None
    """JSON file of reference scores for normalisation, {"task": expert} or {"task": [random, expert]}; URLB's twelve
    tasks are built in, so optional for them."""


def report_command(arguments: list[str]) -> None:
    """Write the report and print the paths of its files."""
    options = tyro.cli(ReportOptions, args=arguments, prog="skillscape report")
    if not options.runs:
        raise UserError("No runs given; name a folder, for example `skillscape report runs`.")
    from skillscape.evaluation.scores import read_experts
    from skillscape.reporting.files import write_report
    from skillscape.reporting.html import plotly_script
    from skillscape.reporting.report import gather

    # Check that the report can be written before reading the runs, which may take a while.
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
            f"Runs that cannot be read are missing from the report: {names}; repair them, or report on the others only."
        )


def _check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be created or written, without creating it."""
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise UserError(f"Cannot write to {folder}: {parent} is a file; choose another --out.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"Cannot write to {folder}: no permission; choose another --out.")
