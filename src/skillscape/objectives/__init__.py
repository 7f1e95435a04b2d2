"""Objectives. This folder is the registry: a file ``name.py`` holds one final class with that ``name``."""

from typing import Any

from skillscape.objectives.base import Objective
from skillscape.registry import Registry

registry: Registry[Objective[Any]] = Registry(__name__, Objective, "skillscape.objectives")  # type: ignore[type-abstract]
"""Every objective by name: those of this folder, of installed plug-ins, and of ``register``."""
register = registry.register


def trainable() -> dict[str, type[Objective[Any]]]:
    """The objectives of pre-training: all but the task reward."""
    return {name: kind for name, kind in registry().items() if name != "extrinsic"}
