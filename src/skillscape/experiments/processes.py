"""Runs as processes of this machine, each pinned to its own cores."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from skillscape.errors import UserError
from skillscape.experiments.engine import Executor, Load, Resources, make_job
from skillscape.experiments.grid import RunSpec
from skillscape.experiments.worker import Job, Outcome

COMMAND = (sys.executable, "-m", "skillscape.experiments.worker")
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Linux: memory in huge pages, which are cleared faster; a learning step of Dreamer takes 0.8 of the time."""
LOOK_EVERY = 0.05
SAVING = 120.0
"""Seconds that runs have to save when they are stopped."""


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if platform.system() == "Linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def slots(workers: int | None, threads: int) -> list[tuple[int, ...]]:
    """The cores of each worker; as many workers as fit if None, and workers beyond that share cores."""
    cores = available_cores()
    number = workers or max(1, len(cores) // threads)
    return [
        tuple(sorted({cores[(index * threads + offset) % len(cores)] for offset in range(threads)}))
        for index in range(number)
    ]


@dataclass
class _Worker:
    """A process and its run."""

    spec: RunSpec
    job: Job
    attempts: int = 0
    process: "subprocess.Popen[str]" = field(init=False)

    def start(self) -> None:
        """Start, or restart from the newest checkpoint."""
        self.attempts += 1
        log = Path(self.job.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            self.process = subprocess.Popen(
                [*COMMAND, json.dumps(self.job._asdict())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**ENVIRONMENT, **os.environ},
                # Ctrl-C in the terminal is for the driver, which then asks each worker once.
                start_new_session=True,
            )

    def outcome(self) -> Outcome | None:
        """The outcome that the ended process printed, or None if it died before."""
        output, _ = self.process.communicate()
        if not output.endswith("\n"):
            return None
        return Outcome(**json.loads(output.splitlines()[-1]))


@final
class ProcessExecutor(Executor):
    """A fixed number of worker processes; one that dies is restarted and resumes its run."""

    def __init__(self, resources: Resources, workers: int | None, runs: Path) -> None:
        """``workers``: runs at the same time, as many as the cores allow if None; ``runs``: folder of all runs."""
        if workers is not None and workers < 1:
            raise UserError(f"--workers must be at least 1, not {workers}.")
        self._resources, self._runs = resources, runs
        self._free = slots(workers, resources.cpus)
        self._cores = min(len(self._free) * resources.cpus, len(available_cores()))
        self._workers: list[_Worker] = []

    @property
    def load(self) -> Load:
        """Workers without a run, workers with a run, and the cores of all workers."""
        return Load(len(self._free), len(self._workers), self._cores)

    @property
    def processes(self) -> Sequence[int]:
        """IDs of the running processes."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, spec: RunSpec, log: Path) -> None:
        """Start a process on the cores of a free worker."""
        worker = _Worker(spec, make_job(spec, self._runs, log, self._resources, self._free.pop(0)))
        self._workers.append(worker)
        worker.start()

    def wait(self, seconds: float) -> list[tuple[RunSpec, Outcome]]:
        """The runs whose processes have ended and are not restarted."""
        until = time.monotonic() + seconds
        while not (ended := self._ended()) and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        return ended

    def _ended(self) -> list[tuple[RunSpec, Outcome]]:
        ended = []
        for worker in [worker for worker in self._workers if worker.process.poll() is not None]:
            outcome = worker.outcome()
            if outcome is None and worker.attempts <= self._resources.retries:
                worker.start()
                continue
            self._workers.remove(worker)
            self._free.append(worker.job.cores)
            ended.append((worker.spec, outcome or Outcome(None, self._loss(worker))))
        return ended

    def _loss(self, worker: _Worker) -> str:
        code = worker.process.returncode
        how = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        times = f"{worker.attempts} times" if worker.attempts > 1 else "once"
        return f"its process was lost {times}, the last time {how}"

    def stop(self) -> None:
        """Ask every process to save; those that do not end in time, or at a second Ctrl-C, are killed."""
        for worker in self._workers:
            worker.process.send_signal(signal.SIGINT)
        try:
            until = time.monotonic() + SAVING
            for worker in self._workers:
                worker.process.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            pass
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.communicate()
            self._workers = []
