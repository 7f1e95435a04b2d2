"""Helpers of the commands: progress, tables, and reading arguments before they are parsed."""

import itertools
import sys
import time
from collections.abc import Sequence


class Countdown:
    """Progress through a known number of equal parts, with the estimated time left."""

    def __init__(self, parts: int) -> None:
        """Start the clock."""
        self._parts = parts
        self._begun = 0
        self._began = time.perf_counter()

    def next(self, label: str) -> None:
        """Print that the next part begins, which ends the one before it."""
        done, self._begun = self._begun, self._begun + 1
        seconds = time.perf_counter() - self._began
        left = f" · about {max(1, round(seconds / done * (self._parts - done)))} s left" if done else ""
        print(f"{label} · {self._begun} of {self._parts}{left}", file=sys.stderr, flush=True)


def first_sentence(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and descriptions in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


def value_of(arguments: list[str], flag: str, default: str) -> str:
    """The value of a flag that decides other defaults, read before the arguments are parsed."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
    return default


def values_of(arguments: list[str], flag: str) -> list[str]:
    """The values of a flag that takes several, read before the arguments are parsed."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return [argument.partition("=")[2]]
        if argument == flag:
            return list(itertools.takewhile(lambda value: not value.startswith("--"), arguments[index + 1 :]))
    return []


def positional(arguments: list[str], switches: Sequence[str]) -> str | None:
    """The first argument that is neither a flag nor a flag's value; ``switches`` are flags without a value."""
    before = ""
    for argument in arguments:
        takes_value = before.startswith("--") and "=" not in before and before not in switches
        if not argument.startswith("-") and not takes_value:
            return argument
        before = argument
    return None


def without(arguments: list[str], flags: tuple[str, ...]) -> list[str]:
    """The arguments without some flags and their values."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.partition("=")[0] in flags:
            skip = not skip and "=" not in argument
            continue
        kept.append(argument)
    return kept
