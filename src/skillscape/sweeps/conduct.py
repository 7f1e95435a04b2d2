"""Carrying out a plan: what is ready is handed to an executor, what failed holds back only what needs it."""

import csv
import io
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from skillscape.errors import Interrupted, UserError
from skillscape.sweeps.estimate import Estimate
from skillscape.sweeps.plan import PlannedRun
from skillscape.sweeps.spec import OWN, Sweep
from skillscape.sweeps.work import Order, Outcome, finished, trained_steps
from skillscape.training.files import write_json
from skillscape.training.runs import versions

WRITE_EVERY = 10.0
"""Seconds between two writings of the results gathered so far."""
ESTIMATE_EVERY = 10.0
"""Seconds between two looks at how far the runs under way are."""
COLUMNS = ("kind", "method", "env", "task", "seed", "preset", "steps", "noise", "skill_strategy", "snapshot")


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
    def submit(self, run: PlannedRun, order: Order) -> None:
        """Begin a run."""

    @abstractmethod
    def wait(self, seconds: float) -> list[tuple[PlannedRun, Outcome]]:
        """The runs that have ended since; waits for one at most so long."""

    @abstractmethod
    def stop(self) -> None:
        """Ask every run under way to save and end, wait until they have, and give back what was taken."""


class Progress(NamedTuple):
    """How a sweep stands."""

    done: int
    failed: int
    running: int
    total: int
    seconds_left: float
    news: str
    """What has just happened, in words; empty if nothing."""


@dataclass(frozen=True)
class Report:
    """What a sweep came to: results and reasons by folder, in the order of the plan."""

    results: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, str]


@dataclass
class _Standing:
    """Runs by what has become of them; a run is its folder, so none can be counted twice."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    running: dict[str, PlannedRun] = field(default_factory=dict)


class Conductor:
    """A plan, the folder of all runs, and the executor that performs them."""

    def __init__(self, sweep: Sweep, planned: Sequence[PlannedRun], runs: Path, executor: Executor) -> None:
        """Nothing happens until ``conduct``."""
        self._sweep, self._planned, self._runs, self._executor = sweep, planned, runs, executor
        self._standing = _Standing()
        self._estimate = Estimate(runs)
        self._written = self._estimated = time.monotonic()
        self._seconds_left = 0.0

    def conduct(self, on_progress: Callable[[Progress], None]) -> Report:
        """Bring every run to its end; Ctrl-C saves those under way and raises ``Interrupted``."""
        standing = self._standing
        waiting = []
        for run in self._planned:
            try:
                found = finished(self._runs, run.folder)
            except UserError as error:
                standing.failures[run.folder] = str(error)
                continue
            if found is None:
                waiting.append(run)
            else:
                standing.results[run.folder] = found
        try:
            on_progress(self._progress(f"{len(standing.results)} of {len(self._planned)} runs are finished already"))
            while waiting or standing.running:
                waiting = self._hand_out(waiting, on_progress)
                for run, outcome in self._executor.wait(1.0) if standing.running else ():
                    self._end(run, outcome)
                    on_progress(self._progress(self._news(run)))
                on_progress(self._progress(""))
                if time.monotonic() - self._written > WRITE_EVERY:
                    self._write()
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            self._executor.stop()
            self._write()
        return self._report()

    def _hand_out(self, waiting: list[PlannedRun], on_progress: Callable[[Progress], None]) -> list[PlannedRun]:
        """Submit what is ready, as far as there is room; give up what needs a run that failed."""
        standing, left = self._standing, []
        for run in waiting:
            if run.needs in standing.failures:
                standing.failures[run.folder] = f"needs {run.needs}, which failed"
                on_progress(self._progress(self._news(run)))
            elif self._executor.room > 0 and (run.needs is None or run.needs in standing.results):
                standing.running[run.folder] = run
                self._executor.submit(run, self._order(run))
            else:
                left.append(run)
        return left

    def _order(self, run: PlannedRun) -> Order:
        resources = self._sweep.resources
        log = log_file(self._runs, self._sweep, run.folder)
        return Order(run.to_json(), str(self._runs), str(log), resources.cpus, resources.gpus)

    def _end(self, run: PlannedRun, outcome: Outcome) -> None:
        standing = self._standing
        del standing.running[run.folder]
        if outcome.results is None:
            standing.failures[run.folder] = outcome.reason
        else:
            standing.results[run.folder] = outcome.results
            self._estimate.learn_from(run)

    def _news(self, run: PlannedRun) -> str:
        reason = self._standing.failures.get(run.folder)
        return f"{run.label} is finished" if reason is None else f"{run.label} failed: {reason}"

    def _progress(self, news: str) -> Progress:
        standing = self._standing
        if news or time.monotonic() - self._estimated > ESTIMATE_EVERY:
            self._seconds_left, self._estimated = self._core_seconds_left() / self._executor.cores, time.monotonic()
        return Progress(
            done=len(standing.results),
            failed=len(standing.failures),
            running=self._executor.running,
            total=len(self._planned),
            seconds_left=self._seconds_left,
            news=news,
        )

    def _core_seconds_left(self) -> float:
        standing, left = self._standing, 0.0
        for run in self._planned:
            if run.folder not in standing.results and run.folder not in standing.failures:
                taken = trained_steps(self._runs, run.folder) if run.folder in standing.running else 0
                left += self._estimate.core_seconds(run, max(run.steps - taken, 0))
        return left

    def _report(self) -> Report:
        folders = [run.folder for run in self._planned]
        results, failures = self._standing.results, self._standing.failures
        return Report(
            {folder: results[folder] for folder in folders if folder in results},
            {folder: failures[folder] for folder in folders if folder in failures},
        )

    def _write(self) -> None:
        self._written = time.monotonic()
        write_results(self._sweep, self._planned, self._report(), self._runs)


def results_folder(runs: Path, sweep: Sweep) -> Path:
    """Where the gathered results and the logs of a sweep are."""
    return runs / "sweeps" / sweep.name


def log_file(runs: Path, sweep: Sweep, folder: str) -> Path:
    """What a run had to say."""
    return results_folder(runs, sweep) / "logs" / f"{folder}.log"


def write_results(sweep: Sweep, planned: Sequence[PlannedRun], report: Report, runs: Path) -> list[Path]:
    """One row per finished run, as JSON and as CSV; each file is whole or not there."""
    folder = results_folder(runs, sweep)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_row(run, report.results[run.folder]) for run in planned if run.folder in report.results]
    table = {
        "sweep": sweep.name,
        "planned": len(planned),
        "finished": len(rows),
        "failed": dict(report.failures),
        "versions": versions(),
        "runs": rows,
    }
    write_json(folder / "results.json", table)
    measures = list(dict.fromkeys(name for row in rows for name in row["measures"]))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["folder", *COLUMNS, *measures])
    for row in rows:
        cells = [row[name] for name in ("folder", *COLUMNS)]
        writer.writerow(
            [*cells, *(repr(row["measures"][name]) if name in row["measures"] else "" for name in measures)]
        )
    partial = folder / "results.csv.partial"
    partial.write_text(text.getvalue())
    partial.replace(folder / "results.csv")
    return [folder / "results.json", folder / "results.csv"]


def _row(run: PlannedRun, results: Mapping[str, Any]) -> dict[str, Any]:
    settings = {f"objective.{name}": value for name, value in run.objective}
    settings |= {f"backbone.{name}": value for name, value in run.backbone}
    values = {name: {**vars(run), "skill_strategy": run.skill or OWN}[name] for name in COLUMNS}
    return {"folder": run.folder, **values, "settings": settings, "measures": results["measures"]}
