"""Registries of classes: the modules of a package, plug-ins that are installed, and what a user registers."""

import importlib
import inspect
import pkgutil
import typing
import warnings
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from skillscape.errors import Notice, UserError


class Named(Protocol):
    """What a class needs to be found by name."""

    name: ClassVar[str]


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """The concrete subclasses of ``base`` by name.

    They are those that the modules and folders of ``package`` define, those that installed packages offer as entry
    points of ``group``, and those that were registered. A name alone never makes anything be imported: what a file of
    a run names must already be here.
    """

    def __init__(self, package: str, base: type[T], group: str) -> None:
        self._package, self._base, self._group = package, base, group
        self._kinds: dict[str, type[T]] | None = None

    def __call__(self) -> dict[str, type[T]]:
        """Every class by name: the package's own alphabetically, then plug-ins, then registered ones."""
        return dict(self._known())

    def register(self, kind: type[T]) -> type[T]:
        """Add a class under its ``name``; returns it, so that this also works as a decorator."""
        if not (inspect.isclass(kind) and issubclass(kind, self._base)):
            raise UserError(f"Only subclasses of {self._base.__name__} can be registered, not {kind!r}.")
        if missing := self._missing(kind):
            raise UserError(f"{kind.__name__} does not define {', '.join(missing)}; define what is missing.")
        taken = self._known().get(kind.name)
        # A class that is defined again, as by a cell of a notebook, replaces its older self.
        if taken is not None and _origin(taken) != _origin(kind):
            raise UserError(
                f"The name {kind.name!r} of {_origin(kind)} belongs to {_origin(taken)}; choose another name."
            )
        self._known()[kind.name] = kind
        return kind

    def _missing(self, kind: type[T]) -> list[str]:
        """Methods that are still abstract, and class variables of the base that have no value."""
        abstract: frozenset[str] = vars(kind).get("__abstractmethods__", frozenset())
        defined = {name for parent in kind.__mro__ for name in vars(parent)}
        origins: dict[str, Any] = {
            name: typing.get_origin(hint) for name, hint in inspect.get_annotations(self._base).items()
        }
        declared = {name for name, origin in origins.items() if origin is ClassVar}
        return sorted(abstract | (declared - defined))

    def _known(self) -> dict[str, type[T]]:
        if self._kinds is None:
            self._kinds = self._own()
            for problem in self._load_plugins():
                warnings.warn(problem, Notice, stacklevel=4)
        return self._kinds

    def _own(self) -> dict[str, type[T]]:
        """The classes that the package defines; a folder is asked for those that its ``__init__`` names."""
        found: dict[str, type[T]] = {}
        for info in pkgutil.iter_modules(importlib.import_module(self._package).__path__, f"{self._package}."):
            for value in vars(importlib.import_module(info.name)).values():
                if self._is_concrete(value) and f"{value.__module__}.".startswith(f"{info.name}."):
                    found[value.name] = value
        return found

    def _is_concrete(self, value: Any) -> bool:  # noqa: ANN401  anything that a module holds
        return inspect.isclass(value) and issubclass(value, self._base) and not inspect.isabstract(value)

    def _load_plugins(self) -> list[str]:
        """Register what installed packages offer; what is wrong with those that cannot be, in sentences."""
        problems = []
        for point in sorted(entry_points(group=self._group), key=lambda point: point.name):
            try:
                self.register(point.load())
            except Exception as error:  # a plug-in may fail in any way, and must not take the rest along
                problems.append(
                    f"The plug-in {point.name!r} ({point.value}) of {self._group} is left out: "
                    f"{type(error).__name__}: {error}"
                )
        return problems


def _origin(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
