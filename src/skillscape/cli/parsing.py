"""Values on the command line: numbers as people write them (250_000, 2.5e5), and KEY=VALUE pairs."""

import ast
from collections.abc import Sequence
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec

from skillscape.errors import UserError


def whole_number(text: str) -> int:
    """A whole number, also with thousands separators or an exponent."""
    plain = text.replace(",", "").replace("_", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        value = float("nan")
    # Beyond 2^53 a float no longer holds every whole number.
    if not (abs(value) <= 2**53 and value == int(value)):
        raise ValueError(f"{text!r} is not a whole number; write it as 250000, 250_000 or 2.5e5")
    return int(value)


WHOLE_NUMBER: PrimitiveConstructorSpec[int] = PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=lambda given: whole_number(given[0]),
    is_instance=lambda value: isinstance(value, int),
    str_from_instance=lambda value: [f"{value}"],
)

Count = Annotated[int, WHOLE_NUMBER]
"""A whole number on the command line."""


def keyword_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs with Python literals as values; anything else is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key.isidentifier():
            raise UserError(f"--env.kwargs cannot be {pair!r}; give KEY=VALUE pairs, such as frame_skip=2.")
        try:
            values[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[key] = text
    return values
