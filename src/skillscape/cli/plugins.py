"""What a user who names a module on the command line allows: its import, also from the current folder."""

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
            raise UserError(f"{PLUGIN} takes the name of a module, such as {PLUGIN} my_methods.")
        from skillscape.plugins import load_plugin

        _look_here()
        load_plugin(name)
    return kept


def _look_here() -> None:
    # At the end: a file of the user must not stand in for an installed package.
    if os.getcwd() not in sys.path:  # noqa: PTH109  (a string is wanted)
        sys.path.append(os.getcwd())  # noqa: PTH109


def allow(env: str) -> None:
    """Let an environment that the user has named import its module, also from the current folder."""
    from skillscape.envs.gymnasium_modules import trust

    if trust(env):
        _look_here()


def allow_run(folder: Path, env: str | None) -> None:
    """The same for ``--env`` of a command that reads runs: it must be the environment they were trained on."""
    from skillscape.training.run import read_config, run_folders

    if env is None:
        return
    for path in run_folders(folder):
        found = read_config(path).get("env")
        if found != env:
            raise UserError(f"{path} was trained on {found}, not on {env}: give that one, or leave --env out.")
    allow(env)
