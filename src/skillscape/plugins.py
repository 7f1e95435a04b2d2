"""Objectives, backbones and environment families of the user's own: registered as objects, or by a module's import."""

import importlib
import os
from typing import TypeVar

from skillscape.backbones import register as register_backbone
from skillscape.backbones.base import Backbone
from skillscape.envs.base import EnvFamily
from skillscape.envs.gymnasium_modules import raised
from skillscape.envs.registry import register_family
from skillscape.errors import UserError
from skillscape.objectives import register as register_objective
from skillscape.objectives.base import Objective

Plugin = TypeVar("Plugin")
VARIABLE = "SKILLSCAPE_PLUGINS"
"""Environment variable with the modules that worker processes import too, separated by commas."""


def register(plugin: type[Plugin]) -> type[Plugin]:
    """Make a class of the user's known by its name, in every command and function; also a class decorator.

    ``plugin``: a subclass of ``Objective``, ``Backbone`` or ``EnvFamily``.
    """
    if isinstance(plugin, type) and issubclass(plugin, Objective):
        register_objective(plugin)
    elif isinstance(plugin, type) and issubclass(plugin, Backbone):
        register_backbone(plugin)
    elif isinstance(plugin, type) and issubclass(plugin, EnvFamily):
        register_family(plugin)
    else:
        raise UserError(f"{plugin!r} cannot be registered; give a subclass of Objective, Backbone or EnvFamily.")
    return plugin


def load_plugin(module: str) -> None:
    """Import a module that the user has named; it registers what it brings. Workers of a sweep import it too."""
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UserError(
                f"The plug-in {module} cannot be imported: install it, or run the command in its folder."
            ) from error
        raise UserError(f"The plug-in {module} needs a package that is not there ({error}): install it.") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"The plug-in {module} {raised(error)} when it was imported: correct it.") from error
    named = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*named, module]))


def load_named_plugins() -> None:
    """Import what the environment variable names; for worker processes."""
    for module in os.environ.get(VARIABLE, "").split(","):
        if module:
            load_plugin(module)
