"""What the commands share: progress, tables, and looking at arguments before they are parsed."""

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

QUIET_SECONDS = 60.0
"""Between two evaluations, how long a run that is not watched on a terminal may be silent."""


class Display:
    """Progress: one line that rewrites itself on a terminal; elsewhere plain lines, at every evaluation at least."""

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
        print(f"training in {self._out}; compiling first, which takes up to a minute the first time", file=sys.stderr)

    def begin(self, label: str) -> None:
        """Say which row of an experiment comes next."""
        with self._lock:
            self._done = set()
        print(f"{chr(10) if self._terminal else ''}{label}", file=sys.stderr)

    def show(self, run: Any, step: int, pace: str, metrics: Mapping[str, float]) -> None:  # noqa: ANN401
        """Tell about one iteration of one seed."""
        config = run.config
        end, evaluated = run.end, run.due(step)
        names = ("reward", "coverage", "reach", "distinguishability", "return")
        numbers = " · ".join(f"{name} {metrics[name]:.2f}" for name in names if name in metrics)
        seed = f"seed {config.seed} · " if self._seeds > 1 else ""
        with self._lock:
            if step == end:
                self._done.add(config.seed)
            count = f"{len(self._done)}/{self._seeds} seeds done · " if self._seeds > 1 else ""
            line = f"{count}{seed}{pace} · {numbers}"
            if self._terminal:
                width = os.get_terminal_size(sys.stderr.fileno()).columns
                print(f"\r\033[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)
            elif evaluated or time.perf_counter() - self._spoken >= QUIET_SECONDS:
                self._spoken = time.perf_counter()
                print(line, file=sys.stderr, flush=True)

    def finish(self, sentence: str) -> None:
        """The last line."""
        seconds = time.perf_counter() - self._began
        print(f"{chr(10) if self._terminal else ''}{sentence} ({seconds:.0f} s)", file=sys.stderr)


class Countdown:
    """What comes next of a known number of equal parts, and about how long all of it still takes."""

    def __init__(self, parts: int) -> None:
        """Begin to count the time."""
        self._parts = parts
        self._begun = 0
        self._began = time.perf_counter()

    def next(self, label: str) -> None:
        """Say that a part begins; the one before it is done."""
        done, self._begun = self._begun, self._begun + 1
        seconds = time.perf_counter() - self._began
        left = f" · about {max(1, round(seconds / done * (self._parts - done)))} s left" if done else ""
        print(f"{label} · {self._begun} of {self._parts}{left}", file=sys.stderr, flush=True)


def first_sentence(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and what they mean in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


def value_of(arguments: list[str], flag: str, default: str) -> str:
    """The value of a flag that decides the defaults of all others, so it is looked for before they are parsed."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
    return default


def without(arguments: list[str], flags: tuple[str, ...]) -> list[str]:
    """The arguments less some flags and their values: where results go does not belong to how they are made."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.partition("=")[0] in flags:
            skip = not skip and "=" not in argument
            continue
        kept.append(argument)
    return kept


def folder_name(env: str) -> str:
    """What stands for an environment in the name of a run: square_a, walker, Pendulum-v1."""
    return Path(env.partition("/")[2] or env).stem.replace(":", "-")
