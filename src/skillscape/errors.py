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

    def __str__(self) -> str:
        return f"{self.what}{self.where}: {self.advice}."


class Unwritable(UserError):
    """A log of a run cannot be written; the run saves what it can and stops."""


class Notice(UserWarning):
    """What a user is told while the work goes on."""


class Interrupted(Exception):
    """Training was asked to stop and has saved its state."""


def choose(kind: str, name: str, known: Iterable[str], command: str) -> None:
    """Refuse a name that is not among the known ones, suggesting the nearest; ``command`` lists them."""
    names = list(known)
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}."
    raise UserError(f"There is no {kind} {name!r}: {hint} `{command}` lists them.")
