"""What an environment that the user names on the command line may do: bring in its module."""

import os
import sys
from pathlib import Path

from skillscape.errors import UserError


def allow(env: str) -> None:
    """Let an environment that the user has named import its module, also from the current folder."""
    from skillscape.envs.modules import trust

    # At the end: a file of the user must not stand in for an installed package.
    if trust(env) and os.getcwd() not in sys.path:  # noqa: PTH109  (a string is wanted)
        sys.path.append(os.getcwd())  # noqa: PTH109


def allow_run(folder: Path, env: str | None) -> None:
    """The same for ``--env`` of a command that reads runs: it must be the environment they were trained on."""
    from skillscape.training.runs import read_config, run_folders

    if env is None:
        return
    for path in run_folders(folder):
        found = read_config(path).get("env")
        if found != env:
            raise UserError(f"{path} was trained on {found}, not on {env}: give that one, or leave --env out.")
    allow(env)
