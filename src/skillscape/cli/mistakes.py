"""What the parser refuses, as one sentence on what is wrong, what was given and what to do."""

import contextlib
import io
import re
from collections.abc import Callable

from tyro import _errors as refusals

from skillscape.errors import UserError, nearest


class UnknownOption(Exception):
    """An argument that the command does not have. The parser does not say here which it has; its help does."""

    def __init__(self, given: str, program: str) -> None:
        self.given, self.program = given, program


def refuse(event: refusals.ParseErrorEvent) -> None:
    """Raise what the parser refuses as a sentence; what is not known here is left to the parser's own message."""
    more = f"`{event.prog} --help` explains it."
    match event:
        case refusals.UnrecognizedArgs():
            raise UnknownOption(event.tokens[0].partition("=")[0], event.prog)
        case refusals.MissingArgs():
            names = " and ".join(missing.arg.field.intern_name.upper() for missing in event.missing_arguments)
            raise UserError(f"`{event.prog}` needs {names}; {more}")
        case refusals.InvalidChoice():
            near, known = nearest(event.value, event.choices), ", ".join(event.choices)
            hint = f"did you mean {near!r}? " if near else ""
            raise UserError(f"{event.argument.display_name()} cannot be {event.value!r}: {hint}It takes {known}.")
        case refusals.BadValue(reason="too_few_values"):
            name, kind = event.argument.display_name(), _in_words(event.argument.lowered.metavar or "a value")
            raise UserError(f"{name} has no value; give {kind}. {more}")
        case refusals.InstantiationFailure() if event.argument is not None:
            name, kind = event.argument.display_name(), _in_words(event.argument.lowered.metavar or "a value")
            raise UserError(f"{name} takes {kind}: {_reason(event.message)}.")


def explained(unknown: UnknownOption, show_help: Callable[[], None]) -> str:
    """A sentence on an option that is not known, with the nearest one in the help of the same command."""
    page = io.StringIO()
    with contextlib.redirect_stdout(page), contextlib.suppress(SystemExit):
        show_help()
    options = sorted(set(re.findall(r"--[a-z][\w.-]*", page.getvalue())))
    listed = f"`{unknown.program} --help` lists the options."
    if not unknown.given.startswith("-"):
        hint = f" An environment is given as `--env {unknown.given}`." if "--env" in options else ""
        return f"{unknown.given!r} belongs to no option.{hint} {listed}"
    near = nearest(unknown.given, options, cutoff=0.6)
    hint = f"did you mean {near}? " if near else "settings depend on the environment, method and backbone. "
    return f"There is no option {unknown.given} here: {hint}{listed}"


def _in_words(metavar: str) -> str:
    """The values that an option takes, from the parser's notation."""
    words = {"INT": "a whole number", "FLOAT": "a number", "STR": "text", "PATH": "a path"}
    if several := re.fullmatch(r"\[(\w+) \[\1 \.\.\.\]\]", metavar):
        return {"INT": "whole numbers", "FLOAT": "numbers"}.get(several[1], "values")
    kinds = [words.get(kind, kind) for kind in metavar.split("|") if kind != "{None}"]
    return " or ".join([*kinds, *(["None"] if "{None}" in metavar else [])])


def _reason(message: str) -> str:
    """Why a value was refused, without the names of Python's types."""
    last = message.rsplit("\n- ", 1)[-1]
    last = re.sub(r"^(<class '[^']*'>|.*\)\]): ", "", last)
    for pattern, words in (
        (r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number"),
        (r"could not convert string to float: (.*)", r"\1 is not a number"),
        (r"Could not find valid parse for arguments: \[(.*)\]", r"it cannot be \1"),
    ):
        last = re.sub(pattern, words, last)
    return last
