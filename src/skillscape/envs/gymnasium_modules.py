"""Imports for ``gym/module:ID``, which are limited to modules that the user has named.

A run folder may come from anybody, and its config.json names an environment. Reading it must not run code, so a module
is imported only if the user has named the environment; one that is already imported needs no permission.
"""

import importlib
import sys

from skillscape.errors import EnvFault, UserError

PREFIX = "gym/"
"""Prefix of the IDs of Gymnasium environments."""

_trusted: set[str] = set()


def trust(env: str) -> bool:
    """Allow the import of the module in an ID that the user has given; returns whether the ID names a module."""
    module, separator, _ = env.removeprefix(PREFIX).partition(":")
    if not (env.startswith(PREFIX) and separator):
        return False
    _trusted.add(module)
    return True


def import_env_module(identifier: str) -> str:
    """Import the module of ``module:ID``, if there is one, and return the ID."""
    module, separator, name = identifier.rpartition(":")
    valid = not separator or all(part.isidentifier() for part in module.split("."))
    if not valid or not name or "\0" in name:
        raise UserError(
            f"{PREFIX + identifier!r} is not a valid environment ID: write {PREFIX}ID or {PREFIX}module:ID, "
            f"such as {PREFIX}my_envs:MyEnv-v0."
        )
    if module and module not in sys.modules:
        _import(module, identifier)
    return name


def _import(module: str, identifier: str) -> None:
    if module not in _trusted:
        raise UserError(
            f"{PREFIX}{identifier} is made by the module {module!r}, which a run folder alone may not import: "
            f"say --env {PREFIX}{identifier} if you trust it; in Python, import {module} first."
        )
    try:
        importlib.import_module(module)
    except ImportError as error:
        # A module that exists may itself lack a package, which needs other advice.
        absent = isinstance(error, ModuleNotFoundError) and error.name is not None
        if not absent or not f"{module}.".startswith(f"{error.name}."):
            raise missing_package(identifier, error) from error
        raise UserError(
            f"The module {module} of {identifier} cannot be imported: install it, run the command in its folder, or "
            f"put its folder on PYTHONPATH."
        ) from error
    except (Exception, SystemExit) as error:
        raise EnvFault(f"{identifier} {raised(error)} when its module {module} was imported") from error


def missing_package(identifier: str, error: Exception) -> UserError:
    """The error for an environment that lacks a package."""
    text = " ".join(str(error).split())
    # Gymnasium's own advice would install a MuJoCo that is incompatible with our dm_control.
    if any(f"{name}'" in text or f"{name} is not installed" in text for name in ("imageio", "mujoco", "MuJoCo")):
        return UserError(f'{identifier} needs imageio and mujoco: run `pip install "skillscape[gym]"`.')
    return UserError(f"{identifier} needs a package that is not installed ({text}): install it and try again.")


def raised(error: BaseException) -> str:
    """An exception as part of a sentence: raised ValueError (too large)."""
    if isinstance(error, SystemExit):
        return "called exit()"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__} ({text})" if text else f"raised {type(error).__name__}"
