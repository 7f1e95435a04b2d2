"""Metrics on disk (CSV and TensorBoard), and the words of a progress line. Printing is the command line's business."""

import contextlib
import csv
import os
import socket
import struct
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from skillscape.errors import Notice, Unwritable, UserError
from skillscape.training.files import read_bytes

LARGEST_STEP = 2**53
"""Up to here a float is the integer that was written."""


class MetricsLog:
    """Rows of named numbers by step, as CSV and as TensorBoard scalars.

    Wall-clock times go to TensorBoard only, so that the CSV of a resumed run equals an uninterrupted one's. Without
    TensorBoard the run goes on; a CSV that cannot be written raises ``Unwritable``.
    """

    def __init__(self, folder: Path, name: str, resume_at: int) -> None:
        """Open ``folder``/``name``.csv, dropping rows after step ``resume_at``: they belong to work that was lost."""
        self._path = folder / f"{name}.csv"
        self._name = name
        self._columns: list[str] = []
        try:
            self._keep_until(resume_at)
            self._file = self._path.open("a", newline="")
        except OSError as error:
            raise self._unwritable(error) from error
        self._board = _Board(folder / "tensorboard", name, resume_at + 1 if resume_at else None)

    def _keep_until(self, step: int) -> None:
        if not self._path.exists():
            return
        table = _read_table(self._path)
        kept = [row for row in table.rows if int(row[0]) <= step]
        if table.unreadable:
            _say_left_out(self._path, table.unreadable)
        self._columns = table.columns if kept else []
        temporary = self._path.with_suffix(".partial")
        temporary.unlink(missing_ok=True)
        with temporary.open("x", newline="") as file:
            csv.writer(file).writerows([table.columns, *kept] if kept else [])
        temporary.replace(self._path)

    def write(self, step: int, row: Mapping[str, float], times: Mapping[str, float] | None = None) -> None:
        """Append one row. ``times`` are wall-clock figures."""
        columns = ["step", *row]
        if self._columns and columns != self._columns:
            raise UserError(
                f"{self._path} has other columns than this run writes; restore it, or delete it to go on without it."
            )
        try:
            writer = csv.writer(self._file)
            if not self._columns:
                self._columns = columns
                writer.writerow(columns)
            # repr keeps every digit of a float.
            writer.writerow([step, *(repr(value) for value in row.values())])
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        self._board.write(step, {f"{self._name}/{key}": value for key, value in {**row, **(times or {})}.items()})

    def _unwritable(self, error: OSError) -> Unwritable:
        return Unwritable(
            f"{self._path} cannot be written ({error.strerror}), so training stopped; put that right and go on "
            "with --resume."
        )

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # All rows were flushed when they were written; what is left is the end of one that could not be.
        with contextlib.suppress(OSError):
            self._file.close()
        self._board.close()


class _Board:
    """An event file of TensorBoard that this thread writes itself.

    tensorboardX's own writer hands events to a thread. That thread dies of a full disk, and the run would then wait
    for it for ever.
    """

    def __init__(self, folder: Path, name: str, first_step: int | None) -> None:
        """Open a new file; events of earlier files from ``first_step`` on are to be forgotten."""
        self._file: BinaryIO | None = None
        # Two logs of a run are opened in the same second, and perhaps by the same process twice.
        path = folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{name}"
        self._path = path
        try:
            folder.mkdir(exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            self._give_up(error)
        self._put(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if first_step is not None:
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
            f"{self._path} cannot be written ({error.strerror}); the run goes on without TensorBoard.",
            Notice,
            stacklevel=2,
        )

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None


def _checksum(content: bytes) -> bytes:
    return struct.pack("<I", masked_crc32c(content))


class _Table(NamedTuple):
    """What can be read of a CSV file: rows are as long as the columns, and all their entries are numbers."""

    columns: list[str]
    rows: list[list[str]]
    unreadable: int
    """Lines that are no such rows."""
    is_cut: bool
    """Whether the file ends within a line, which a kill can leave behind."""


def _read_table(path: Path) -> _Table:
    """The rows of a log that can be read; a file that is no log at all is refused."""
    # Damaged bytes become characters that are no number, and spoil no other line.
    *lines, rest = read_bytes(path).decode(errors="replace").split("\n")
    if not lines:
        if not rest.startswith("step"[: len(rest)]):
            raise _no_table(path)
        return _Table([], [], 0, bool(rest))
    columns = _entries(lines[0])
    if not columns or columns[0] != "step" or len(set(columns)) < len(columns):
        raise _no_table(path)
    rows = [row for row in map(_entries, lines[1:]) if len(row) == len(columns) and _are_numbers(row)]
    return _Table(columns, rows, len(lines) - 1 - len(rows), bool(rest))


def _no_table(path: Path) -> UserError:
    return UserError(
        f"{path} is damaged: its first line does not name the columns; restore it, or delete it to go on without it."
    )


def _entries(line: str) -> list[str]:
    try:
        return next(csv.reader([line.removesuffix("\r")]), [])
    except csv.Error:
        return []


def _are_numbers(row: Sequence[str]) -> bool:
    step = row[0]
    if not (step.isascii() and step.isdigit() and len(step) < 17 and int(step) <= LARGEST_STEP):
        return False
    try:
        return bool([float(entry) for entry in row])
    except ValueError:
        return False


def _say_left_out(path: Path, number: int) -> None:
    warnings.warn(f"{path} is damaged: {number} row(s) that cannot be read are left out.", Notice, stacklevel=3)


def read_metrics(path: Path) -> dict[str, list[float]]:
    """The columns of a metrics CSV; a line that is damaged is left out with a ``Notice``."""
    if not path.exists():
        raise UserError(f"{path} is missing: the run has not written metrics yet.")
    table = _read_table(path)
    if unreadable := table.unreadable + table.is_cut:
        if table.columns and not table.rows:
            raise UserError(f"{path} is damaged: none of its rows can be read; restore it or train again with --force.")
        _say_left_out(path, unreadable)
    return {name: [float(row[index]) for row in table.rows] for index, name in enumerate(table.columns)}


def common_curve(
    logs: Sequence[Mapping[str, Sequence[float]]], name: str
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, "s m"]]:
    """One column of several logs, at the steps that all of them have."""
    columns = [dict(zip(log["step"], log[name], strict=True)) for log in logs]
    steps = sorted(set(columns[0]).intersection(*columns[1:]))
    return np.array(steps, np.int64), np.array([[column[step] for step in steps] for column in columns], np.float64)


class Pace:
    """How fast steps go by, and how long the rest will take."""

    def __init__(self, start: int, total: int) -> None:
        """Begin counting at step ``start`` of ``total``."""
        self._start, self._total = start, total
        self._began = time.perf_counter()

    def rate(self, step: int) -> float:
        """Steps per second since the beginning."""
        return (step - self._start) / max(time.perf_counter() - self._began, 1e-9)

    def describe(self, step: int) -> str:
        """In words: 125,000/250,000 steps · 5,210 steps/s · 24 s left."""
        rate = self.rate(step)
        left = (self._total - step) / rate if rate > 0 else float("inf")
        remaining = "–" if left == float("inf") else _duration(left)
        return f"{step:,}/{self._total:,} steps · {rate:,.0f} steps/s · {remaining} left"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
