"""Objectives. This folder is the registry: a file ``name.py`` holds one final class with that ``name``."""

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from skillscape.objectives.base import Objective


@cache
def registry() -> dict[str, type[Objective[Any]]]:
    """Every objective of the folder by name, alphabetically."""
    found: dict[str, type[Objective[Any]]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name == "base":
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, Objective) and value.__module__ == module.__name__:
                found[value.name] = value
    return found


def trainable() -> dict[str, type[Objective[Any]]]:
    """The objectives that pre-training can have: all but the task's own reward, which it goes without."""
    return {name: kind for name, kind in registry().items() if name != "extrinsic"}
