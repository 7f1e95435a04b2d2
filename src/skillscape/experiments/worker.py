"""One run in its own process: `python -m skillscape.experiments.worker`, or a Ray task.

The imports at the top do not load JAX: cores and threads of the process must be set before JAX counts them.
"""

import fcntl
import json
import os
import platform
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from skillscape.errors import Busy, Interrupted, UserError
from skillscape.training.files import read_results

PATIENCE = 600.0
"""Seconds to wait for a run that another process holds, such as a worker that has lost its driver and will soon end."""
PAUSE = 0.5


class Job(NamedTuple):
    """The input of a worker, as plain values."""

    spec: dict[str, Any]
    """A ``RunSpec``."""
    runs: str
    """Folder of all runs."""
    log: str
    """Log file of the run."""
    threads: int
    gpus: float = 0.0
    cores: tuple[int, ...] = ()
    """Cores to pin the process to; any core if empty."""
    plugins: str = ""
    """Plug-in modules to import, in the format of ``plugins.VARIABLE``."""


class Outcome(NamedTuple):
    """The outcome of a run: its results, or the reason why there are none."""

    results: dict[str, Any] | None
    reason: str = ""


def bookkeeping(runs: Path, kind: str, folder: str) -> Path:
    """A file about a run outside its folder: its lock, or its measured rate."""
    path = runs / "sweeps" / kind / folder
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def perform(job: Job) -> Outcome:
    """Train a run to its end, from its newest checkpoint if there is one. A finished run is only read."""
    _limit_resources(job)
    Path(job.log).parent.mkdir(parents=True, exist_ok=True)
    with Path(job.log).open("a") as log:
        _note(log, f"process {os.getpid()} on {socket.gethostname()}")
        try:
            results = _train_when_free(job, log)
        except UserError as error:
            _note(log, f"failed: {error}")
            if error.__cause__ is not None:
                log.write("".join(traceback.format_exception(error.__cause__)))
            return Outcome(None, str(error))
        except (Interrupted, KeyboardInterrupt) as stop:
            _note(log, "stopped and saved" if isinstance(stop, Interrupted) else "stopped")
            raise Interrupted from None
        except Exception as error:
            log.write(traceback.format_exc())
            return Outcome(None, " ".join(f"{type(error).__name__}: {error}".split()))
        _note(log, "finished")
        return Outcome(results)


def perform_values(values: dict[str, Any]) -> dict[str, Any]:
    """``perform`` as a Ray task, which has its own process: plain values in and out."""
    return perform(Job(**values))._asdict()


def sees(path: str, content: str) -> bool:
    """Whether this node can read a file of the driver, that is, shares the folder of all runs."""
    try:
        return Path(path).read_text() == content
    except OSError:
        return False


def _limit_resources(job: Job) -> None:
    """Pin the process to its cores and limit its threads; libraries read these variables when they are loaded."""
    if job.cores and platform.system() == "Linux":
        os.sched_setaffinity(0, job.cores)
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    if 0 < job.gpus < 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * job.gpus:.3f}")


def _train_when_free(job: Job, log: TextIO) -> dict[str, Any]:
    """The results of the run, waiting up to ``PATIENCE`` seconds for another process that trains it."""
    runs, folder = Path(job.runs), job.spec["folder"]
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with _locked(bookkeeping(runs, "locks", f"{folder}.lock"), runs / folder):
                if read_results(runs / folder) is None:
                    _train(job, log)
                results = read_results(runs / folder)
                if results is None:
                    raise UserError(f"{folder} ended without results; see its log.")
                return results
        except Busy:
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE)


@contextmanager
def _locked(path: Path, folder: Path) -> Iterator[None]:
    """Lock a run until its results are written; the lock of the run itself is released before that."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"{folder} is being trained by another process; run the sweep again when it is done.") from error
        except OSError as error:
            raise UserError(
                f"{path} cannot be locked ({error.strerror}); choose --runs on another file system."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
        yield


def _train(job: Job, log: TextIO) -> None:
    from skillscape.experiments.grid import RunSpec
    from skillscape.experiments.inline import ProgressForwarder, train
    from skillscape.plugins import VARIABLE, load_named_plugins

    os.environ[VARIABLE] = job.plugins
    load_named_plugins()
    train([RunSpec.from_json(job.spec)], Path(job.runs), [ProgressForwarder(lambda line: _note(log, line))])


def trained_steps(runs: Path, folder: str) -> int:
    """Step of the newest checkpoint of a run, 0 if it has none."""
    names = (path.name for path in (runs / folder / "checkpoints").glob("[0-9]*"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def _note(log: TextIO, text: str) -> None:
    log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    log.flush()


def main() -> None:
    """Perform the job in the first argument and print its outcome on standard output, as one line of JSON.

    Standard input closes when the driver ends; the run is then saved and stopped.
    """
    channel = os.fdopen(os.dup(1), "w")
    # The output of libraries goes to the log, like standard error.
    os.dup2(2, 1)
    # A driver in the background of a shell would pass on that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    job = Job(**json.loads(sys.argv[1]))
    try:
        outcome = perform(job)
    except Interrupted:
        return
    channel.write(json.dumps(outcome._asdict()) + "\n")
    channel.flush()


def _end_with_driver() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
