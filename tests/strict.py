"""The run-time type checker of the suite: beartype, with an ``int`` where a ``float`` is asked (PEP 484)."""

from collections.abc import Callable
from types import UnionType
from typing import Any, Generic, Self, Union, get_args, get_origin

from beartype import BeartypeConf, beartype

_checker = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, refusing arguments and results of the wrong type or shape."""
    hints = {name: _understood(hint) for name, hint in getattr(function, "__annotations__", {}).items()}
    if hints:
        function.__annotations__ = hints
    return _checker(function)


def _understood(hint: Any) -> Any:
    """The hint without what beartype 0.23 cannot read: generic named tuples (``TrainState[MLP]``), Self in a method."""
    if hint is Self:
        return Any
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, tuple) and issubclass(kind, Generic):
        return tuple
    if kind in (Union, UnionType):
        return Union[tuple(map(_understood, get_args(hint)))]  # noqa: UP007  as many as there are
    return tuple[tuple(map(_understood, get_args(hint)))] if kind is tuple and get_args(hint) else hint
