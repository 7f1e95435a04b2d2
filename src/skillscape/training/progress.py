"""Progress on standard error: one line that is rewritten on a terminal, plain lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import final

from skillscape.training.callbacks import Callback
from skillscape.training.run import Run

QUIET_SECONDS = 60.0
"""Maximum time between two progress lines if standard error is not a terminal."""
SHOWN = ("reward", "coverage", "reach", "mutual_information", "return")


@final
class Progress(Callback):
    """Prints progress on standard error: rewritten on a terminal, elsewhere a line per evaluation or minute."""

    def __init__(self, out: Path, seeds: int) -> None:
        """Start the clock."""
        self._out = out
        self._terminal = sys.stderr.isatty()
        self._seeds = seeds
        self._lock = threading.Lock()
        self._began = self._printed = time.perf_counter()
        self._done: set[int] = set()

    def announce(self) -> None:
        """Print the folder of the run, and that compiling comes first."""
        self._print(f"training in {self._out}; compiling first, which takes up to a minute the first time\n")

    def begin(self, label: str) -> None:
        """Print the label of the next row of an experiment."""
        with self._lock:
            self._done = set()
        self._print(f"{chr(10) if self._terminal else ''}{label}\n")

    def on_progress(self, run: Run, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Print the progress of a seed."""
        seed = run.config.seed
        numbers = " · ".join(f"{name} {row[name]:.2f}" for name in SHOWN if name in row)
        own = f"seed {seed} · " if self._seeds > 1 else ""
        with self._lock:
            if step == run.end:
                self._done.add(seed)
            count = f"{len(self._done)}/{self._seeds} seeds done · " if self._seeds > 1 else ""
            line = f"{count}{own}{pace} · {numbers}"
            if self._terminal:
                width = os.get_terminal_size(sys.stderr.fileno()).columns
                self._print(f"\r\033[K{line[: width - 1]}")
            elif run.due(step) or time.perf_counter() - self._printed >= QUIET_SECONDS:
                self._printed = time.perf_counter()
                self._print(f"{line}\n")

    def finish(self, sentence: str) -> None:
        """Print the last line, with the time taken."""
        seconds = time.perf_counter() - self._began
        self._print(f"{chr(10) if self._terminal else ''}{sentence} ({seconds:.0f} s)\n")

    def _print(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
