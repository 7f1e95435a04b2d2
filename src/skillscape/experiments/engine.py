"""Execution of a list of runs in the order of their dependencies; a failure stops only the runs that need it."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.errors import Interrupted, UserError
from skillscape.experiments.cost import CostModel
from skillscape.experiments.grid import RunSpec, distinct
from skillscape.experiments.results import log_file, write_results
from skillscape.experiments.worker import Job, Outcome, trained_steps
from skillscape.plugins import VARIABLE
from skillscape.training.files import read_results

WRITE_EVERY = 10.0
"""Seconds between two writes of the results so far."""
ESTIMATE_EVERY = 10.0
"""Seconds between two estimates of the remaining time."""


@dataclass(frozen=True)
class Resources:
    """The resources of one run."""

    cpus: int = 1
    """Cores, and threads."""
    gpus: float = 0.0
    """Fraction of a GPU, or number of GPUs, on Ray."""
    retries: int = 3
    """Number of restarts after the process or its machine was lost."""


def make_job(spec: RunSpec, runs: Path, log: Path, resources: Resources, cores: tuple[int, ...] = ()) -> Job:
    """The input of the worker of a run."""
    plugins = os.environ.get(VARIABLE, "")
    return Job(spec.to_json(), str(runs), str(log), resources.cpus, resources.gpus, cores, plugins)


class Load(NamedTuple):
    """Load of an executor: runs that can be submitted now, runs in progress, and cores in use at full load."""

    room: int
    running: int
    cores: float


class Executor(ABC):
    """Runs jobs, and restarts those whose process or machine was lost."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """The current load."""

    @abstractmethod
    def submit(self, spec: RunSpec, log: Path) -> None:
        """Start a run with a log file."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[RunSpec, Outcome]]:
        """The runs that have ended since the last call; waits up to ``seconds`` for the first."""

    @abstractmethod
    def stop(self) -> None:
        """Let all running jobs save and end, wait for them, and free all resources."""


class Progress(NamedTuple):
    """State of an execution."""

    done: int
    failed: int
    running: int
    total: int
    seconds_left: float
    event: str
    """The latest event as a sentence; empty if there was none."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class ExecutionReport:
    """Results and failures by the folder of the run, in the order of the specs."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Folder → why the run has no results."""


def execute(
    name: str, specs: Sequence[RunSpec], runs: Path, executor: Executor, on_progress: OnProgress
) -> ExecutionReport:
    """Train all runs to their end; Ctrl-C saves those in progress and raises ``Interrupted``.

    ``name``: folder below ``runs``/sweeps for the results and the logs.
    """
    return _Execution(name, distinct(specs), runs, executor, on_progress).run()


class _Execution:
    """The state of one call of ``execute``."""

    def __init__(
        self, name: str, specs: Sequence[RunSpec], runs: Path, executor: Executor, on_progress: OnProgress
    ) -> None:
        self._name, self._specs, self._runs, self._executor = name, specs, runs, executor
        self._on_progress = on_progress
        self._report = ExecutionReport()
        self._running: set[str] = set()
        self._estimate = CostModel(runs)
        self._written = self._estimated = time.monotonic()
        self._seconds_left = 0.0

    def run(self) -> ExecutionReport:
        waiting = [spec for spec in self._specs if not self._is_settled(spec)]
        try:
            self._report_progress(f"{len(self._report.results)} of {len(self._specs)} runs are finished already")
            while waiting or self._running:
                waiting = self._submit_ready(waiting)
                for spec, outcome in self._executor.wait(1.0) if self._running else ():
                    self._end(spec, outcome)
                self._report_progress()
                if time.monotonic() - self._written > WRITE_EVERY:
                    self._write()
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            self._executor.stop()
            self._write()
        folders = [spec.folder for spec in self._specs]
        results, failures = self._report.results, self._report.failures
        return ExecutionReport(
            {folder: results[folder] for folder in folders if folder in results},
            {folder: failures[folder] for folder in folders if folder in failures},
        )

    def _is_settled(self, spec: RunSpec) -> bool:
        """Whether a run needs no training: it is finished, or its folder is damaged."""
        try:
            results = read_results(self._runs / spec.folder)
        except UserError as error:
            self._report.failures[spec.folder] = str(error)
            return True
        if results is not None:
            self._report.results[spec.folder] = results
        return results is not None

    def _submit_ready(self, waiting: Sequence[RunSpec]) -> list[RunSpec]:
        """Submit ready runs while there is room, fail those that need a failed run, and return the others."""
        left = []
        for spec in waiting:
            if spec.needs in self._report.failures:
                self._fail(spec, f"needs {spec.needs}, which failed")
            elif self._executor.load.room > 0 and (spec.needs is None or spec.needs in self._report.results):
                self._running.add(spec.folder)
                self._executor.submit(spec, log_file(self._runs, self._name, spec.folder))
            else:
                left.append(spec)
        return left

    def _end(self, spec: RunSpec, outcome: Outcome) -> None:
        self._running.remove(spec.folder)
        if outcome.results is None:
            self._fail(spec, outcome.reason)
            return
        self._report.results[spec.folder] = outcome.results
        self._estimate.learn_from(spec)
        self._report_progress(f"{spec.title} is finished")

    def _fail(self, spec: RunSpec, reason: str) -> None:
        self._report.failures[spec.folder] = reason
        self._report_progress(f"{spec.title} failed: {reason}")

    def _report_progress(self, event: str = "") -> None:
        load = self._executor.load
        if event or time.monotonic() - self._estimated > ESTIMATE_EVERY:
            self._seconds_left, self._estimated = self._core_seconds_left() / load.cores, time.monotonic()
        done, failed = len(self._report.results), len(self._report.failures)
        total, left = len(self._specs), self._seconds_left
        self._on_progress(Progress(done, failed, load.running, total, left, event))

    def _core_seconds_left(self) -> float:
        left = 0.0
        for spec in self._specs:
            if spec.folder not in self._report.results and spec.folder not in self._report.failures:
                taken = trained_steps(self._runs, spec.folder) if spec.folder in self._running else 0
                left += self._estimate.core_seconds(spec, max(spec.config.steps - taken, 0))
        return left

    def _write(self) -> None:
        self._written = time.monotonic()
        write_results(self._name, self._specs, self._report.results, self._report.failures, self._runs)
