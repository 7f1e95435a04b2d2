"""Several runs at once: one that is damaged or unknown never stops the others."""

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from skillscape.errors import LeftOut, UserError

Item = TypeVar("Item")
Made = TypeVar("Made")


def each_possible(items: Sequence[Item], make: Callable[[Item], Made]) -> list[Made]:
    """What is made of each item; of several, one that cannot be is left out with a warning. None is an error."""
    made: list[Made] = []
    errors: list[UserError] = []
    for item in items:
        try:
            made.append(make(item))
        except UserError as error:
            errors.append(error)
    if errors and not made:
        raise errors[0]
    for reason in errors:
        warnings.warn(LeftOut(f"left out: {reason}"), stacklevel=3)
    return made
