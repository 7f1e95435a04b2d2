"""Metrics on disk (CSV and TensorBoard), and the words of a progress line. Printing is the command line's business."""

import csv
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tensorboardX import SummaryWriter

from skillscape.errors import UserError


class MetricsLog:
    """Rows of named numbers by step, as CSV and as TensorBoard scalars.

    Wall-clock times go to TensorBoard only, so that the CSV of a resumed run equals an uninterrupted one's.
    """

    def __init__(self, folder: Path, name: str, resume_at: int) -> None:
        """Open ``folder``/``name``.csv, dropping rows after step ``resume_at``: they belong to work that was lost."""
        self._path = folder / f"{name}.csv"
        self._name = name
        self._columns: list[str] = []
        self._keep_until(resume_at)
        self._file = self._path.open("a", newline="")
        # Files are named by the second, so two logs opened together would write over each other without a suffix.
        self._board = SummaryWriter(
            str(folder / "tensorboard"),
            purge_step=resume_at + 1 if resume_at else None,
            filename_suffix=f".{name}",
        )

    def _keep_until(self, step: int) -> None:
        if not self._path.exists():
            return
        with self._path.open(newline="") as file:
            rows = list(csv.reader(file))
        # A kill may have cut the last line short; whole lines of kept steps are all that matters.
        kept = [row for row in rows[1:] if len(row) == len(rows[0]) and row[0].isdigit() and int(row[0]) <= step]
        self._columns = rows[0] if kept else []
        temporary = self._path.with_suffix(".partial")
        with temporary.open("w", newline="") as file:
            csv.writer(file).writerows([rows[0], *kept] if kept else [])
        temporary.replace(self._path)

    def write(self, step: int, row: Mapping[str, float], times: Mapping[str, float] | None = None) -> None:
        """Append one row. ``times`` are wall-clock figures."""
        columns = ["step", *row]
        writer = csv.writer(self._file)
        if not self._columns:
            self._columns = columns
            writer.writerow(columns)
        if columns != self._columns:
            raise ValueError(f"columns changed from {self._columns} to {columns}")
        # repr keeps every digit of a float.
        writer.writerow([step, *(repr(value) for value in row.values())])
        self._file.flush()
        for key, value in {**row, **(times or {})}.items():
            self._board.add_scalar(f"{self._name}/{key}", value, step)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._board.close()


def read_metrics(path: Path) -> dict[str, list[float]]:
    """The columns of a metrics CSV; an empty place, which stands for a measure that says nothing, is NaN."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing: the run has not written metrics yet.") from error
    if not rows:
        return {}
    return {name: [float(row[index] or "nan") for row in rows[1:]] for index, name in enumerate(rows[0])}


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
