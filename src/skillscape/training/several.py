"""Several runs at once: a damaged or unknown run does not stop the others."""

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from skillscape.errors import LeftOut, UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


def each_possible(items: Sequence[Item], make: Callable[[Item], Result]) -> list[Result]:
    """``make`` of each item; items that raise are skipped with a warning. If all raise, so does this."""
    results: list[Result] = []
    errors: list[UserError] = []
    for item in items:
        try:
            results.append(make(item))
        except UserError as error:
            errors.append(error)
    if errors and not results:
        raise errors[0]
    for reason in errors:
        warnings.warn(LeftOut(f"left out: {reason}"), stacklevel=3)
    return results
