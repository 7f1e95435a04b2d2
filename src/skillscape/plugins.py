"""User-defined objectives, backbones and environment families, registered directly or by importing a module."""

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
    """Register a class under its name for all commands and functions; also a class decorator.

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
    """Import a module, which registers its classes. Workers of a sweep import it too."""
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UserError(
                f"The plug-in {module} was not found; install it, or run the command in its folder."
            ) from error
        raise UserError(f"The plug-in {module} imports a missing package ({error}); install that package.") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"The plug-in {module} {raised(error)} on import; correct the module.") from error
    loaded = [name for name in os.environ.get(VARIABLE, "").split(",") if name]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*loaded, module]))


def load_named_plugins() -> None:
    """Import the modules in the environment variable; for worker processes."""
    for module in os.environ.get(VARIABLE, "").split(","):
        if module:
            load_plugin(module)
