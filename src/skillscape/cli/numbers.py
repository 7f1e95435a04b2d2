"""Numbers as people write them: 250000, 250_000, 250,000 or 2.5e5."""

from typing import Annotated

from tyro.constructors import PrimitiveConstructorSpec


def whole_number(text: str) -> int:
    """A whole number, also with separators of thousands or with an exponent."""
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
        raise ValueError(f"{text!r} is no whole number; write it as 250000, 250_000 or 2.5e5")
    return int(value)


_SPEC: PrimitiveConstructorSpec[int] = PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=lambda given: whole_number(given[0]),
    is_instance=lambda value: isinstance(value, int),
    str_from_instance=lambda value: [f"{value}"],
)

Count = Annotated[int, _SPEC]
"""A whole number on the command line."""
