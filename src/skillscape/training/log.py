"""Metrics as CSV files, and the text of progress lines."""

import contextlib
import csv
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from skillscape.errors import Notice, Unwritable, UserError
from skillscape.formatting import duration
from skillscape.training.files import read_bytes

LARGEST_STEP = 2**53
"""Largest step that a float represents exactly."""


class CsvLog:
    """Rows of named numbers by step in a CSV file; a row that cannot be written raises ``Unwritable``.

    It holds no wall-clock times, so that a resumed run writes the same file as an uninterrupted one.
    """

    def __init__(self, path: Path, resume_at: int) -> None:
        """Open the file, dropping rows after step ``resume_at``, which will be written again."""
        self._path = path
        self._columns: list[str] = []
        try:
            self._keep_until(resume_at)
            self._file = self._path.open("a", newline="")
        except OSError as error:
            raise self._unwritable(error) from error

    def _keep_until(self, step: int) -> None:
        if not self._path.exists():
            return
        table = _read_table(self._path)
        kept = [row for row in table.rows if int(row[0]) <= step]
        if table.unreadable:
            _warn_skipped(self._path, table.unreadable)
        self._columns = table.columns if kept else []
        temporary = self._path.with_suffix(".partial")
        temporary.unlink(missing_ok=True)
        with temporary.open("x", newline="") as file:
            csv.writer(file).writerows([table.columns, *kept] if kept else [])
        temporary.replace(self._path)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Append one row; of a file that was begun without some of its columns, the columns of the file."""
        columns = ["step", *row]
        if self._columns:
            columns = [name for name in columns if name in self._columns]
        if self._columns and columns != self._columns:
            raise UserError(
                f"{self._path} has other columns than this run writes; restore it, or delete it to continue without it."
            )
        try:
            writer = csv.writer(self._file)
            if not self._columns:
                self._columns = columns
                writer.writerow(columns)
            # repr keeps every digit of a float.
            writer.writerow([step, *(repr(row[name]) for name in columns[1:])])
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Unwritable:
        return Unwritable(
            f"{self._path} cannot be written ({error.strerror}), so training stopped; fix the cause and continue with "
            "--resume."
        )

    def __enter__(self) -> "CsvLog":
        return self

    def __exit__(self, *_: object) -> None:
        # All rows are flushed already; only the rest of a row that could not be written is left.
        with contextlib.suppress(OSError):
            self._file.close()


class _Table(NamedTuple):
    """The readable part of a CSV file: rows as long as the columns, with numbers only."""

    columns: list[str]
    rows: list[list[str]]
    unreadable: int
    """Number of unreadable lines."""
    is_cut: bool
    """Whether the last line is incomplete, as after a kill."""


def _read_table(path: Path) -> _Table:
    """The readable rows of a log; a file without a header is refused."""
    # Damaged bytes become characters that are not numbers, and affect no other line.
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
        f"{path} is damaged: its first line does not name the columns; restore it, or delete it to continue without it."
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


def _warn_skipped(path: Path, number: int) -> None:
    warnings.warn(f"{path} is damaged: {number} unreadable row(s) are skipped.", Notice, stacklevel=3)


def read_metrics(path: Path) -> dict[str, list[float]]:
    """The columns of a metrics CSV; damaged lines are skipped with a ``Notice``."""
    if not path.exists():
        raise UserError(f"{path} is missing: the run has not written metrics yet; train it further with --resume.")
    table = _read_table(path)
    if unreadable := table.unreadable + table.is_cut:
        if table.columns and not table.rows:
            raise UserError(f"{path} is damaged: none of its rows can be read; restore it or train again with --force.")
        _warn_skipped(path, unreadable)
    return {name: [float(row[index]) for row in table.rows] for index, name in enumerate(table.columns)}


def common_curve(
    logs: Sequence[Mapping[str, Sequence[float]]], name: str
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, "s m"]]:
    """One column of several logs, at the steps that all of them have."""
    columns = [dict(zip(log["step"], log[name], strict=True)) for log in logs]
    steps = sorted(set(columns[0]).intersection(*columns[1:]))
    return np.array(steps, np.int64), np.array([[column[step] for step in steps] for column in columns], np.float64)


class Pace:
    """Steps per second, and the estimated time left."""

    def __init__(self, start: int, total: int) -> None:
        """Begin counting at step ``start`` of ``total``."""
        self._start, self._total = start, total
        self._began = time.perf_counter()

    def rate(self, step: int) -> float:
        """Steps per second since the beginning."""
        return (step - self._start) / max(time.perf_counter() - self._began, 1e-9)

    def describe(self, step: int) -> str:
        """Progress as text: 125,000/250,000 steps · 5,210 steps/s · 24 s left."""
        rate = self.rate(step)
        left = (self._total - step) / rate if rate > 0 else float("inf")
        remaining = "–" if left == float("inf") else duration(left)
        return f"{step:,}/{self._total:,} steps · {rate:,.0f} steps/s · {remaining} left"
