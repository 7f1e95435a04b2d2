"""Import of modules that the user names on the command line, also from the current folder."""

import os
import sys
from pathlib import Path

from skillscape.errors import UserError

PLUGIN = "--plugin"


def load_plugins(arguments: list[str]) -> list[str]:
    """Import every module that ``--plugin`` names, and return the arguments without them."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        flag, separator, name = argument.partition("=")
        if flag != PLUGIN:
            kept.append(argument)
            continue
        name = name if separator else next(rest, "")
        if not name:
            raise UserError(f"{PLUGIN} has no value; name a module, such as {PLUGIN} my_methods.")
        from skillscape.plugins import load_plugin

        _add_current_folder()
        load_plugin(name)
    return kept


def _add_current_folder() -> None:
    # At the end: a file in the current folder must not shadow an installed package.
    if os.getcwd() not in sys.path:  # noqa: PTH109  (a string is wanted)
        sys.path.append(os.getcwd())  # noqa: PTH109


def allow(env: str) -> None:
    """Allow the import of the module of an environment ID that the user has named."""
    from skillscape.envs.gymnasium_modules import trust

    if trust(env):
        _add_current_folder()


def allow_run(folder: Path, env: str | None) -> None:
    """Allow the import of the module of a run's environment, which ``--env`` must name."""
    from skillscape.training.run import read_config, run_folders

    if env is None:
        return
    for path in run_folders(folder):
        trained = read_config(path).get("env")
        if trained != env:
            raise UserError(f"--env is {env}, but {path} was trained on {trained}; give that ID, or leave --env out.")
    allow(env)
