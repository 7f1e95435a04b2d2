"""Carrying out a plan: what is ready is handed to an executor, what failed holds back only what needs it."""

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
from skillscape.experiments.worker import Job, Outcome, finished, trained_steps
from skillscape.plugins import VARIABLE

WRITE_EVERY = 10.0
"""Seconds between two writings of the results gathered so far."""
ESTIMATE_EVERY = 10.0
"""Seconds between two looks at how far the runs under way are."""


@dataclass(frozen=True)
class Resources:
    """What one run gets."""

    cpus: int = 1
    """Cores, and threads, of a run."""
    gpus: float = 0.0
    """Share of a GPU of a run, on Ray."""
    retries: int = 3
    """How often a run is taken up again after its process or its machine was lost."""


def make_job(spec: RunSpec, runs: Path, log: Path, resources: Resources, cores: tuple[int, ...] = ()) -> Job:
    """What a worker is told about a run."""
    plugins = os.environ.get(VARIABLE, "")
    return Job(spec.to_json(), str(runs), str(log), resources.cpus, resources.gpus, cores, plugins)


class Executor(ABC):
    """Where runs are performed. It takes up again what was lost with a process or a machine, by itself."""

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more runs it takes now."""

    @property
    @abstractmethod
    def running(self) -> int:
        """How many runs are at work, as far as it knows."""

    @property
    @abstractmethod
    def cores(self) -> float:
        """Cores at work when it is full, for the estimate of the time left."""

    @abstractmethod
    def submit(self, spec: RunSpec, log: Path) -> None:
        """Begin a run; ``log`` is a file for what it has to say."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[RunSpec, Outcome]]:
        """The runs that have ended since; waits for one at most so long."""

    @abstractmethod
    def stop(self) -> None:
        """Ask every run under way to save and end, wait until they have, and give back what was taken."""


class Progress(NamedTuple):
    """How an execution stands."""

    done: int
    failed: int
    running: int
    total: int
    seconds_left: float
    news: str
    """What has just happened, in words; empty if nothing."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class ExecutionReport:
    """What an execution came to, by folder, in the order of the plan; a run is its folder, so none counts twice."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Why a run has no results, in a sentence."""


def execute(
    name: str, specs: Sequence[RunSpec], runs: Path, executor: Executor, on_progress: OnProgress
) -> ExecutionReport:
    """Bring every run to its end; Ctrl-C saves those under way and raises ``Interrupted``.

    ``name``: of the folder below ``runs``/sweeps that gets the results and the logs.
    """
    return _Execution(name, distinct(specs), runs, executor, on_progress).to_the_end()


class _Execution:
    """A plan, the folder of all runs, and the executor that performs them."""

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

    def to_the_end(self) -> ExecutionReport:
        waiting = [spec for spec in self._specs if not self._known(spec)]
        try:
            self._tell(f"{len(self._report.results)} of {len(self._specs)} runs are finished already")
            while waiting or self._running:
                waiting = self._hand_out(waiting)
                for spec, outcome in self._executor.wait(1.0) if self._running else ():
                    self._end(spec, outcome)
                self._tell()
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

    def _known(self, spec: RunSpec) -> bool:
        """Whether nothing is to be done for a run: it is finished, or what stands in its folder is damaged."""
        try:
            results = finished(self._runs, spec.folder)
        except UserError as error:
            self._report.failures[spec.folder] = str(error)
            return True
        if results is not None:
            self._report.results[spec.folder] = results
        return results is not None

    def _hand_out(self, waiting: Sequence[RunSpec]) -> list[RunSpec]:
        """Submit what is ready, as far as there is room; give up what needs a run that failed."""
        left = []
        for spec in waiting:
            if spec.needs in self._report.failures:
                self._fail(spec, f"needs {spec.needs}, which failed")
            elif self._executor.room > 0 and (spec.needs is None or spec.needs in self._report.results):
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
        self._tell(f"{spec.title} is finished")

    def _fail(self, spec: RunSpec, reason: str) -> None:
        self._report.failures[spec.folder] = reason
        self._tell(f"{spec.title} failed: {reason}")

    def _tell(self, news: str = "") -> None:
        if news or time.monotonic() - self._estimated > ESTIMATE_EVERY:
            self._seconds_left, self._estimated = self._core_seconds_left() / self._executor.cores, time.monotonic()
        done, failed = len(self._report.results), len(self._report.failures)
        total, left = len(self._specs), self._seconds_left
        self._on_progress(Progress(done, failed, self._executor.running, total, left, news))

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
