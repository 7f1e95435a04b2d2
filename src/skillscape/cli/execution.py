"""What `reproduce` and `sweep` share: the executor of the runs, and the display of progress."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from skillscape.errors import UserError
from skillscape.formatting import counted, duration
from skillscape.training.files import writing_to

if TYPE_CHECKING:
    from skillscape.experiments.engine import ExecutionReport, Executor, Progress, Resources
    from skillscape.experiments.grid import RunSpec
    from skillscape.training.run import Run

PROGRESS_INTERVAL = 300.0
"""Progress interval in seconds when standard error is not a terminal."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Options of the executor, shared by both commands."""

    inline: ClassVar[bool]
    """Whether runs are trained in this process if --workers is not given."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs, shared by `skillscape reproduce` and `skillscape sweep`; Ray nodes must share it."""
    workers: int | None = None
    """Number of worker processes, one run each. If not given: `reproduce` trains sequentially in this process, `sweep`
    and Ray use as many workers as there are cores."""
    on: Literal["local", "ray"] = "local"
    """Executor of the runs: processes on this machine, or Ray tasks."""
    address: str | None = None
    """Address of the Ray cluster, such as auto or HOST:6379; a new local cluster if not given."""

    records: Path | None = None
    """Folder of records of finished runs, their settings and measures without weights; if not given, none are kept. A
    run with a record there is not trained again, so that an experiment can be spread over machines."""

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.on == "local" and self.address is not None:
            raise UserError("--address needs --on ray, but --on is local; add --on ray, or leave --address out.")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers must be at least 1, not {self.workers}; leave it out to use the default.")

    def train(
        self,
        name: str,
        specs: "Sequence[RunSpec]",
        resources: "Resources",
        measure: "Callable[[Run], None]" = lambda _: None,
    ) -> "ExecutionReport":
        """Train the runs that are not finished; Ctrl-C or SIGTERM saves running ones and raises ``Interrupted``.

        Failures are printed with the path of their log. ``measure``: completes a finished run before it is recorded.
        """
        from skillscape.experiments.engine import execute
        from skillscape.experiments.results import log_file

        with writing_to(self.runs, "choose other --runs"):
            self.runs.mkdir(parents=True, exist_ok=True)
        folder, display = self.runs.resolve(), ProgressLine(name)  # workers may have another working directory
        self._restore(specs, folder)
        # A batch system sends SIGTERM before it ends the job.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            executor = self._executor(resources, folder)
            try:
                report = execute(name, specs, folder, executor, display.show)
            finally:
                display.end()
                self._record(specs, folder, measure)
        finally:
            signal.signal(signal.SIGTERM, before)
        for run, reason in report.failures.items():
            log = log_file(self.runs, name, run)
            print(f"{run} failed: {reason}{f'; see {log}' if log.exists() else ''}", file=sys.stderr)
        return report

    def _restore(self, specs: "Sequence[RunSpec]", runs: Path) -> None:
        if self.records is not None:
            from skillscape.experiments.records import restore

            restored = restore(specs, runs, self.records)
            print(f"{counted(len(restored), 'run')} restored from {self.records}", file=sys.stderr)

    def _record(self, specs: "Sequence[RunSpec]", runs: Path, measure: "Callable[[Run], None]") -> None:
        if self.records is not None:
            from skillscape.experiments.records import keep

            with writing_to(self.records, "choose other --records"):
                keep(specs, runs, self.records, measure)

    def _executor(self, resources: "Resources", runs: Path) -> "Executor":
        if self.on == "ray":
            from skillscape.experiments.ray import RayExecutor

            return RayExecutor(resources, self.workers, self.address, runs)
        if self.inline and self.workers is None:
            from skillscape.experiments.inline import InlineExecutor

            return InlineExecutor(runs)
        from skillscape.experiments.processes import ProcessExecutor

        return ProcessExecutor(resources, self.workers, runs)


def check_complete(report: "ExecutionReport") -> None:
    """Raise an error if a run has failed."""
    failed, total = len(report.failures), len(report.failures) + len(report.results)
    if failed:
        raise UserError(
            f"{failed} of {total} runs failed; fix the errors above and run the same command again: finished runs are "
            "kept."
        )


class ProgressLine:
    """Progress: one line that is rewritten on a terminal; elsewhere a line per event and per ``PROGRESS_INTERVAL``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stderr.isatty()
        self._began = self._printed = time.monotonic()

    def show(self, progress: "Progress") -> None:
        """Print the numbers of finished, running and failed runs, and the estimated time left."""
        left = progress.total - progress.done - progress.failed
        failed = f" · {progress.failed} failed" if progress.failed else ""
        line = (
            f"{self._name}: {progress.done} of {progress.total} runs done · {progress.running} running · {left} left"
            f"{failed} · about {duration(progress.seconds_left)} left"
        )
        if self._terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            event = f"{progress.event}\n" if progress.event else ""
            print(f"\r\033[K{event}{line[: width - 1]}", end="", file=sys.stderr, flush=True)
        elif progress.event or time.monotonic() - self._printed > PROGRESS_INTERVAL:
            self._printed = time.monotonic()
            print(f"{progress.event} ({line})" if progress.event else line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the progress line and print the time taken."""
        print(f"{chr(10) if self._terminal else ''}{duration(time.monotonic() - self._began)} passed", file=sys.stderr)
