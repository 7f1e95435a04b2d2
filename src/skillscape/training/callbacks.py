"""Callbacks of training for progress, metrics and evaluations, and the loggers built on them."""

import contextlib
import os
import socket
import struct
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, final

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from skillscape.errors import Notice, UserError
from skillscape.training.run import Run

Log: TypeAlias = Literal["metrics", "evaluation"]


class Callback:
    """Base class with hooks of training; override those you need.

    Seeds may be trained in threads, so hooks of different runs may be called concurrently.
    """

    def on_start(self, run: Run, step: int) -> None:
        """Training starts or resumes at this step."""

    def on_log(self, run: Run, log: Log, step: int, row: Mapping[str, float]) -> None:
        """A row of metrics, or of an evaluation; the rows of metrics.csv and evaluation.csv."""

    def on_progress(self, run: Run, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Regular progress: the step, the pace as text, the newest metrics and measures."""

    def on_end(self, run: Run) -> None:
        """Training has ended, at the end of its budget or before."""


class Callbacks:
    """All callbacks of one run."""

    def __init__(self, callbacks: Sequence[Callback], run: Run) -> None:
        self._callbacks, self._run = callbacks, run

    def log(self, log: Log, step: int, row: Mapping[str, float]) -> None:
        """Pass on a row of metrics."""
        for callback in self._callbacks:
            callback.on_log(self._run, log, step, row)

    def progress(self, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Pass on progress."""
        for callback in self._callbacks:
            callback.on_progress(self._run, step, pace, row)


@contextmanager
def calling(callbacks: Sequence[Callback], run: Run, step: int) -> Iterator[Callbacks]:
    """The callbacks of a run, with ``on_start`` and ``on_end`` called around the context."""
    with ExitStack() as stack:
        for callback in callbacks:
            callback.on_start(run, step)
            stack.callback(callback.on_end, run)
        yield Callbacks(callbacks, run)


@final
class TensorBoard(Callback):
    """Scalars in the folder ``tensorboard/`` of each run. If they cannot be written, the run continues without."""

    def __init__(self) -> None:
        self._boards: dict[Path, _Board] = {}

    def on_start(self, run: Run, step: int) -> None:
        """Open an event file."""
        # A run that was killed before its first checkpoint starts again, and so do its events.
        saved = step > 0 or run.checkpoints.exists()
        self._boards[run.folder] = _Board(run.folder / "tensorboard", step + 1 if saved else 0)

    def on_log(self, run: Run, log: Log, step: int, row: Mapping[str, float]) -> None:
        """One event with all scalars of a row."""
        self._boards[run.folder].write(step, {f"{log}/{name}": value for name, value in row.items()})

    def on_end(self, run: Run) -> None:
        """Close the file."""
        self._boards.pop(run.folder).close()


@final
class WeightsAndBiases(Callback):
    """Scalars and configuration to Weights & Biases; one W&B run per run, resumed under the same ID."""

    def __init__(self, project: str = "skillscape") -> None:
        """Check that wandb is installed."""
        try:
            import wandb
        except ImportError as error:
            raise UserError("--log wandb needs the package wandb; run `pip install 'skillscape[wandb]'`.") from error
        self._wandb: Any = wandb
        self._project = project
        self._runs: dict[Path, Any] = {}

    def on_start(self, run: Run, step: int) -> None:
        """Start or resume the W&B run of the same name."""
        del step
        name = run.folder.resolve().as_posix().strip("/").replace("/", "-")[-64:]
        config = run.config
        try:
            self._runs[run.folder] = self._wandb.init(
                project=self._project,
                id=name,
                name=run.folder.name,
                group=f"{config.method} {config.task or config.env}",
                config=config.to_json(),
                resume="allow",
                reinit="create_new",
            )
        except Exception as error:  # wandb raises errors of many types
            text = " ".join(str(error).split())
            raise UserError(
                f"--log wandb cannot start a run ({type(error).__name__}: {text}); run `wandb login`, or leave it out."
            ) from error

    def on_log(self, run: Run, log: Log, step: int, row: Mapping[str, float]) -> None:
        """Log a row against environment steps."""
        self._runs[run.folder].log({f"{log}/{name}": value for name, value in row.items()} | {"step": step})

    def on_end(self, run: Run) -> None:
        """Finish the W&B run."""
        self._runs.pop(run.folder).finish()


LOGGERS: dict[str, type[Callback]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
"""Loggers by the names of ``--log``; CSV files are always written."""


class _Board:
    """A TensorBoard event file, written in the calling thread.

    tensorboardX's writer uses a thread that ends on a full disk, after which the run would wait forever.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        """Open a new file, which invalidates events of earlier files from ``first_step`` on."""
        self._file: BinaryIO | None = None
        # A run may be opened twice in the same second by the same process.
        path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = path
        resumed = folder.is_dir() and any(folder.iterdir())
        try:
            folder.mkdir(exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            self._give_up(error)
        self._put(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if resumed:
            started = SessionLog(status=SessionLog.START)
            self._put(Event(wall_time=time.time(), step=first_step, session_log=started))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """One event with all scalars of a step."""
        event = Event(wall_time=time.time(), step=step)
        for tag, value in scalars.items():
            event.summary.value.add(tag=tag, simple_value=value)
        self._put(event)

    def _put(self, event: Event) -> None:
        if self._file is None:
            return
        content = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        record = length + _checksum(length) + content + _checksum(content)
        try:
            self._file.write(record)
            self._file.flush()
        except OSError as error:
            self.close()
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        # A logger must never stop a run.
        warnings.warn(
            f"{self._path} cannot be written ({error.strerror}); the run continues without TensorBoard.",
            Notice,
            stacklevel=2,
        )

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None


def _checksum(content: bytes) -> bytes:
    return struct.pack("<I", masked_crc32c(content))
