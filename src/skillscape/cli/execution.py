"""What `reproduce` and `sweep` share: where runs are trained, and how that is told."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from skillscape.errors import UserError
from skillscape.formatting import duration
from skillscape.training.files import writing_to

if TYPE_CHECKING:
    from skillscape.experiments.engine import ExecutionReport, Executor, Progress, Resources
    from skillscape.experiments.grid import RunSpec

TELL_EVERY = 300.0
"""Progress interval in seconds when standard error is not a terminal."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where runs are trained; the options that both commands have."""

    inline: ClassVar[bool]
    """Whether runs are trained in this process where no number of workers is given."""
    runs: Path = Path("runs/reproduce")
    """Folder for the runs, shared by `skillscape reproduce` and `skillscape sweep`; with Ray every node must see it."""
    workers: int | None = None
    """Runs at the same time, each in a process of its own. If not given: with `reproduce` one after the other in this
    process, with `sweep` and on Ray as many as the cores allow."""
    on: Literal["local", "ray"] = "local"
    """This machine, or tasks of Ray."""
    address: str | None = None
    """Ray cluster to use, such as auto or HOST:6379; a new one on this machine if not given."""

    def check(self) -> None:
        """Refuse what makes no sense together."""
        if self.on == "local" and self.address is not None:
            raise UserError("--address is for --on ray; leave it out, or add --on ray.")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers must be at least 1, not {self.workers}.")

    def train(self, name: str, specs: "Sequence[RunSpec]", resources: "Resources") -> "ExecutionReport":
        """Train what is not trained yet; Ctrl-C, or a polite kill, saves what is under way and raises ``Interrupted``.

        Failures are told, each with its log.
        """
        from skillscape.experiments.engine import execute
        from skillscape.experiments.results import log_file

        with writing_to(self.runs, "choose other --runs"):
            self.runs.mkdir(parents=True, exist_ok=True)
        folder, display = self.runs.resolve(), Lines(name)  # workers may be elsewhere
        # A batch system sends a polite kill before it takes the machine away.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            executor = self._executor(resources, folder)
            try:
                report = execute(name, specs, folder, executor, display.show)
            finally:
                display.end()
        finally:
            signal.signal(signal.SIGTERM, before)
        for run, reason in report.failures.items():
            log = log_file(self.runs, name, run)
            print(f"{run} failed: {reason}{f'; see {log}' if log.exists() else ''}", file=sys.stderr)
        return report

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
    """Refuse to go on without what has failed."""
    failed, total = len(report.failures), len(report.failures) + len(report.results)
    if failed:
        raise UserError(
            f"{failed} of {total} runs failed; repair what the lines above say and run the same command again: only "
            "what is left is trained."
        )


class Lines:
    """Progress: one line that rewrites itself on a terminal; elsewhere a plain one when a run ends and now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stderr.isatty()
        self._began = self._told = time.monotonic()

    def show(self, progress: "Progress") -> None:
        """Tell how the execution stands."""
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
        elif progress.event or time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            print(f"{progress.event} ({line})" if progress.event else line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line that rewrites itself."""
        print(f"{chr(10) if self._terminal else ''}{duration(time.monotonic() - self._began)} passed", file=sys.stderr)
