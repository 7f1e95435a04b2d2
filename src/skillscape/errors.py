"""What a user is meant to be told. Imports nothing of the library, so that every module can raise it."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake of the user, told in one sentence that says what to do; the command line exits with 2."""


class Busy(UserError):
    """The run is being trained by another process."""


class EnvFault(UserError):
    """An environment of the user did what it must not.

    ``what`` it did, ``where``, and the ``advice`` are clauses: training says them again with the step of the run.
    """

    def __init__(self, what: str, where: str = "", advice: str = "correct the environment") -> None:
        self.what, self.where, self.advice = what, where, advice
        self.step = 0
        """Step of the run at which it did, once training has said so."""

    def __str__(self) -> str:
        return f"{self.what}{self.where}: {self.advice}."


class Unwritable(UserError):
    """A log of a run cannot be written; the run saves what it can and stops."""


class Notice(UserWarning):
    """What a user should know though the work goes on, in one sentence; the command line prints it."""


class LeftOut(Notice):
    """A run was left out of what was asked for; the command line exits with 2 when it has done the rest."""


class Interrupted(Exception):
    """Training was asked to stop and has saved its state."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name that is most like a name, whatever their capitals; None where none is."""
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def choose(kind: str, name: str, known: Iterable[str], command: str | None = None) -> None:
    """Refuse a name that is not among the known ones, suggesting the nearest; ``command`` lists them, if any does."""
    names = list(known)
    if name in names:
        return
    near, listed = nearest(name, names), ", ".join(names)
    told = [f"did you mean {near!r}?" if near else f"known are {listed}."]
    if command is not None:
        told.append(f"`{command}` lists them.")
    elif near:
        told.append(f"There are {listed}.")
    raise UserError(f"There is no {kind} {name!r}: {' '.join(told)}")
