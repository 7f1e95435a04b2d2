"""Backbones: ways to learn to act. This folder is the registry: a file or folder holds one final class."""

from typing import Any

from skillscape.backbones.base import Backbone
from skillscape.registry import Registry

registry: Registry[Backbone[Any, Any]] = Registry(__name__, Backbone, "skillscape.backbones")  # type: ignore[type-abstract]
"""Every backbone by name: of this folder, of installed packages that offer some, and what ``register`` was given."""
register = registry.register
