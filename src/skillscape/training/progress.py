"""Progress on the terminal: one line that rewrites itself, or plain lines where nobody watches."""

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
"""Between two evaluations, how long a run that is not watched on a terminal may be silent."""
SHOWN = ("reward", "coverage", "reach", "mutual_information", "return")


@final
class Progress(Callback):
    """Tells on standard error how far runs are: on a terminal in one line, elsewhere at every evaluation at least."""

    def __init__(self, out: Path, seeds: int) -> None:
        """Begin to count the time."""
        self._out = out
        self._terminal = sys.stderr.isatty()
        self._seeds = seeds
        self._lock = threading.Lock()
        self._began = self._spoken = time.perf_counter()
        self._done: set[int] = set()

    def announce(self) -> None:
        """Say where the run goes and that compiling comes first."""
        self._say(f"training in {self._out}; compiling first, which takes up to a minute the first time\n")

    def begin(self, label: str) -> None:
        """Say which row of an experiment comes next."""
        with self._lock:
            self._done = set()
        self._say(f"{chr(10) if self._terminal else ''}{label}\n")

    def on_progress(self, run: Run, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Tell how far one seed is."""
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
                self._say(f"\r\033[K{line[: width - 1]}")
            elif run.due(step) or time.perf_counter() - self._spoken >= QUIET_SECONDS:
                self._spoken = time.perf_counter()
                self._say(f"{line}\n")

    def finish(self, sentence: str) -> None:
        """The last line."""
        seconds = time.perf_counter() - self._began
        self._say(f"{chr(10) if self._terminal else ''}{sentence} ({seconds:.0f} s)\n")

    def _say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
