"""``skillscape methods``, ``envs``, ``backbones`` and ``doctor``: what there is and what works."""

import tyro

from skillscape.cli.display import first_sentence, print_table
from skillscape.errors import UserError
from skillscape.formatting import counted


def methods_command(arguments: list[str]) -> None:
    """List the methods that can be trained, one line each."""
    from skillscape.objectives import trainable

    _parse("methods", arguments, "List the methods that can be trained, one line each.")
    print_table([(name, first_sentence(kind.__doc__)) for name, kind in trainable().items()])


def envs_command(arguments: list[str]) -> None:
    """List the environments, one line each."""
    from skillscape.envs.registry import families

    _parse("envs", arguments, "List the environments, one line each.")
    print_table([row for family in families().values() for row in family.describe()])


def backbones_command(arguments: list[str]) -> None:
    """List the backbones, one line each."""
    from skillscape.backbones import registry

    _parse("backbones", arguments, "List the RL algorithms that skills can be trained with, one line each.")
    print_table([(name, first_sentence(kind.__doc__)) for name, kind in registry().items()])


def doctor_command(arguments: list[str]) -> None:
    """Print the result of each check; raise an error if one fails."""
    from skillscape.doctor import examine

    text = "Load, reset and step every environment, check versions and rendering, and say what to install."
    _parse("doctor", arguments, text)
    failed = 0
    for check in examine():
        failed += not check.ok
        mark = "ok  " if check.ok and not check.advice else ("note" if check.ok else "FAIL")
        advice = f"\n      → {check.advice}" if check.advice else ""
        print(f"{mark}  {check.name}: {check.detail}{advice}", flush=True)
    if failed:
        raise UserError(f"{counted(failed, 'check')} failed; follow the advice after each arrow.")


def _parse(command: str, arguments: list[str], description: str) -> None:
    """Handle ``--help`` of a command without options, and refuse anything else."""
    tyro.cli(lambda: None, args=arguments, prog=f"skillscape {command}", description=description)
