"""What the commands share: progress, tables, and looking at arguments before they are parsed."""

import itertools
import sys
import time
from collections.abc import Sequence


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


def values_of(arguments: list[str], flag: str) -> list[str]:
    """The values of a flag that takes several, looked for likewise."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return [argument.partition("=")[2]]
        if argument == flag:
            return list(itertools.takewhile(lambda value: not value.startswith("--"), arguments[index + 1 :]))
    return []


def positional(arguments: list[str], switches: Sequence[str]) -> str | None:
    """The first argument that is neither a flag nor the value of one; ``switches`` are flags that take none."""
    before = ""
    for argument in arguments:
        takes_value = before.startswith("--") and "=" not in before and before not in switches
        if not argument.startswith("-") and not takes_value:
            return argument
        before = argument
    return None


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
