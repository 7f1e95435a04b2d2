"""``skillscape methods``, ``envs``, ``backbones`` and ``doctor``."""

import tyro

from skillscape.cli.display import first_sentence, print_table
from skillscape.errors import UserError


def methods_command(arguments: list[str]) -> None:
    """List the methods, one line each."""
    from skillscape.objectives import trainable

    tyro.cli(_methods_options, args=arguments, prog="skillscape methods")
    print_table([(name, first_sentence(kind.__doc__)) for name, kind in trainable().items()])


def _methods_options() -> None:
    """List the skill discovery methods, one line each."""


def envs_command(arguments: list[str]) -> None:
    """List the environments, one line each."""
    from skillscape.envs.registry import families

    tyro.cli(_envs_options, args=arguments, prog="skillscape envs")
    print_table([row for family in families().values() for row in family.describe()])


def backbones_command(arguments: list[str]) -> None:
    """List the backbones, one line each."""
    from skillscape.backbones import registry

    tyro.cli(_backbones_options, args=arguments, prog="skillscape backbones")
    print_table([(name, first_sentence(kind.__doc__)) for name, kind in registry().items()])


def _backbones_options() -> None:
    """List the RL algorithms (backbones), one line each."""


def _envs_options() -> None:
    """List the environments and their tasks, one line each."""


def doctor_command(arguments: list[str]) -> None:
    """Print the result of each check; raise an error if one fails."""
    from skillscape.doctor import examine

    tyro.cli(_doctor_options, args=arguments, prog="skillscape doctor")
    failed = 0
    for check in examine():
        failed += not check.ok
        mark = "ok  " if check.ok and not check.advice else ("note" if check.ok else "FAIL")
        print(
            f"{mark}  {check.name}: {check.detail}" + (f"\n      → {check.advice}" if check.advice else ""), flush=True
        )
    if failed:
        raise UserError(f"{failed} check{'s' if failed > 1 else ''} failed; follow the advice after each arrow.")


def _doctor_options() -> None:
    """Check package versions, environments and rendering on this machine, and say what to install."""
