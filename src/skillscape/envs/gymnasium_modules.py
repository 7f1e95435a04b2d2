"""Which modules the name of an environment may bring in: those of names that the user gave.

A run folder may come from anybody, and its config.json names an environment. Reading it must not run code, so
``gym/module:ID`` imports its module only if the user has named that environment, or has imported the module already.
"""

import importlib
import sys

from skillscape.errors import EnvFault, UserError

PREFIX = "gym/"
"""What stands before the ID of an environment of Gymnasium."""

_trusted: set[str] = set()


def trust(env: str) -> bool:
    """Allow the module of an environment that the user has named; whether it has one at all."""
    module, separator, _ = env.removeprefix(PREFIX).partition(":")
    if not (env.startswith(PREFIX) and separator):
        return False
    _trusted.add(module)
    return True


def bring_in(identifier: str) -> str:
    """The ID in ``module:ID`` or plain ``ID``, after its module, if there is one, was imported."""
    *modules, name = identifier.split(":")
    if (
        len(modules) > 1
        or not name
        or "\0" in name
        or not all(part.isidentifier() for module in modules for part in module.split("."))
    ):
        raise UserError(
            f"{PREFIX + identifier!r} is not the name of an environment: write {PREFIX}ID or "
            f"{PREFIX}module:ID, such as {PREFIX}my_envs:MyEnv-v0."
        )
    for module in modules:
        if module not in sys.modules:
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
    except ModuleNotFoundError as error:
        # A module that is there may itself lack a package, which is another story.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise missing(identifier, error) from error
        raise UserError(
            f"The module {module} of {identifier} cannot be imported: install it, run the command in its folder, or "
            f"put its folder on PYTHONPATH."
        ) from error
    except ImportError as error:
        raise missing(identifier, error) from error
    except (Exception, SystemExit) as error:
        raise EnvFault(f"{identifier} {raised(error)} when its module {module} was imported") from error


def missing(identifier: str, error: Exception) -> UserError:
    """What to say of an environment that lacks a package."""
    text = " ".join(str(error).split())
    # Gymnasium's own advice would bring a MuJoCo that does not fit the dm_control of the other environments.
    ours = any(f"{name}'" in text or f"{name} is not installed" in text for name in ("imageio", "mujoco", "MuJoCo"))
    if ours:
        return UserError(f'{identifier} needs imageio and mujoco: run `pip install "skillscape[gym]"`.')
    return UserError(f"{identifier} needs a package that is not there ({text}): install it and try again.")


def raised(error: BaseException) -> str:
    """An exception in the words of a sentence: raised ValueError (too large)."""
    if isinstance(error, SystemExit):
        return "called exit()"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__} ({text})" if text else f"raised {type(error).__name__}"
