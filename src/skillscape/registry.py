"""Registries of classes: those of a package, of installed plug-ins, and of ``register``."""

import importlib
import inspect
import pkgutil
import typing
import warnings
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from skillscape.errors import Notice, UserError


class Named(Protocol):
    """A class with a name."""

    name: ClassVar[str]


T = TypeVar("T", bound=Named)


_later: dict[str, list[str]] = {}


def name_module(group: str, module: str) -> None:
    """Name a module whose classes belong to the registry of ``group`` and are loaded when that is first used.

    For classes that need more of the library than the registry's own layer may import.
    """
    if module not in _later.setdefault(group, []):
        _later[group].append(module)


class Registry(Generic[T]):
    """The concrete subclasses of ``base`` by name.

    They come from the modules and folders of ``package``, from modules given to ``name_module``, from entry points
    ``group`` of installed packages, and from ``register``. A name in a file of a run never causes an import: its class
    must already be registered.
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
            raise UserError(f"{kind!r} cannot be registered; give a subclass of {self._base.__name__}.")
        if missing := self._missing(kind):
            raise UserError(f"{kind.__name__} does not define {', '.join(missing)}; define them to register the class.")
        taken = self._known().get(kind.name)
        # A class that is defined again, as in a notebook cell, replaces the earlier definition.
        if taken is not None and _origin(taken) != _origin(kind):
            raise UserError(
                f"The name {kind.name!r} of {_origin(kind)} is taken by {_origin(taken)}; choose another name."
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
        """The classes that the package defines; of a folder, those that its ``__init__`` imports. Then named ones."""
        kinds: dict[str, type[T]] = {}
        inside = pkgutil.iter_modules(importlib.import_module(self._package).__path__, f"{self._package}.")
        for module in (*(info.name for info in inside), *_later.get(self._group, ())):
            for value in vars(importlib.import_module(module)).values():
                if self._is_concrete(value) and f"{value.__module__}.".startswith(f"{module}."):
                    kinds[value.name] = value
        return kinds

    def _is_concrete(self, value: Any) -> bool:  # noqa: ANN401  anything that a module holds
        return inspect.isclass(value) and issubclass(value, self._base) and not inspect.isabstract(value)

    def _load_plugins(self) -> list[str]:
        """Register the plug-ins of installed packages; returns an error message for each that fails."""
        problems = []
        for point in sorted(entry_points(group=self._group), key=lambda point: point.name):
            try:
                self.register(point.load())
            except Exception as error:  # a plug-in may fail in any way, and must not disable the others
                problems.append(
                    f"The plug-in {point.name!r} ({point.value}) of {self._group} is skipped: "
                    f"{type(error).__name__}: {error}"
                )
        return problems


def _origin(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
