"""Ranges of settings as metadata of their fields: ``width: Annotated[int, POSITIVE] = 256``."""

import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from skillscape.errors import UserError

LARGEST_INTEGER = 2**31 - 1
"""Upper bound of integer settings: steps are counted in 32 bits."""


@dataclass(frozen=True)
class Range:
    """The valid range of a number, or of each entry of a tuple; None is always valid."""

    words: str
    """The range as text, after "must be"."""
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """Whether ``low`` itself is excluded."""

    def holds(self, value: float) -> bool:
        """Whether a number is in the range."""
        return (value > self.low if self.above else value >= self.low) and value <= self.high


POSITIVE = Range("above zero", 0, above=True)
NON_NEGATIVE = Range("zero or more", 0)
FRACTION = Range("between 0 and 1", 0, 1)
_NO_FLAGS: Mapping[str, str] = MappingProxyType({})


def check_ranges(settings: Any, prefix: str = "", flags: Mapping[str, str] = _NO_FLAGS) -> None:  # noqa: ANN401
    """Refuse numbers of a dataclass, and of those nested in it, that are not finite or outside their range.

    ``prefix``: prefix of the flags; ``flags``: fields whose flag has another name.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        value = getattr(settings, field.name)
        name = flags.get(field.name, field.name.replace("_", "-"))
        flag = f"--{prefix}{'.' if prefix else ''}{name}"
        if is_dataclass(value):
            check_ranges(value, flag.removeprefix("--"))
            continue
        metadata = getattr(hints[field.name], "__metadata__", ())
        ranges = [entry for entry in metadata if isinstance(entry, Range)]
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, bool) or not isinstance(entry, (int, float)):
                continue
            if not math.isfinite(entry):
                raise UserError(f"{flag} must be a finite number, not {entry}.")
            if isinstance(entry, int) and abs(entry) > LARGEST_INTEGER:
                raise UserError(f"{flag} must be at most {LARGEST_INTEGER}, not {entry}.")
            for allowed in ranges:
                if not allowed.holds(entry):
                    raise UserError(f"{flag} must be {allowed.words}, not {entry}.")
