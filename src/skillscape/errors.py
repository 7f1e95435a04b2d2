"""Errors and warnings for the user. Imports nothing of the library, so that every module can raise them."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A user's mistake: one sentence on what is wrong, what was got and what to do; exit code 2."""


class Busy(UserError):
    """The run is being trained by another process."""


class EnvFault(UserError):
    """An environment broke its contract.

    ``what`` happened, ``where``, and the ``advice`` are clauses; training adds the step of the run.
    """

    def __init__(self, what: str, where: str = "", advice: str = "correct the environment") -> None:
        self.what, self.where, self.advice = what, where, advice
        self.step = 0
        """Step of the run at which it happened, set by training."""

    def __str__(self) -> str:
        return f"{self.what}{self.where}: {self.advice}."


class Unwritable(UserError):
    """A log of a run cannot be written; the run saves what it can and stops."""


class Notice(UserWarning):
    """A warning to the user in one sentence, which the command line prints."""


class LeftOut(Notice):
    """A run was skipped; the command line continues with the others and exits with code 2."""


class Interrupted(Exception):
    """Training was interrupted and has saved its state."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The most similar known name, ignoring case, or None."""
    names = {entry.lower(): entry for entry in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def choose(kind: str, name: str, known: Iterable[str], command: str | None = None) -> None:
    """Refuse an unknown name and suggest the nearest; ``command``: the one that lists the known names."""
    names = list(known)
    if name in names:
        return
    near, listed = nearest(name, names), ", ".join(names)
    hints = [f"did you mean {near!r}?" if near else f"known are {listed}."]
    if command is not None:
        hints.append(f"`{command}` lists them.")
    elif near:
        hints.append(f"There are {listed}.")
    raise UserError(f"There is no {kind} {name!r}: {' '.join(hints)}")
