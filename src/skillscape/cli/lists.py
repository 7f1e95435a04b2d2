"""``skillscape methods``, ``envs`` and ``doctor``: what there is and what works."""

import tyro

from skillscape.cli.display import first_sentence, print_table
from skillscape.errors import UserError


def methods_command(arguments: list[str]) -> None:
    """List the methods, one line each."""
    from skillscape.objectives import trainable

    tyro.cli(_methods_options, args=arguments, prog="skillscape methods")
    print_table([(name, first_sentence(kind.__doc__)) for name, kind in trainable().items()])


def _methods_options() -> None:
    """List the methods that can be trained, one line each."""


def envs_command(arguments: list[str]) -> None:
    """List the environments, one line each."""
    from skillscape.envs.host import HOST_ENVS
    from skillscape.envs.layouts import builtin_layouts, load_layout
    from skillscape.envs.urlb.tasks import DOMAINS

    tyro.cli(_envs_options, args=arguments, prog="skillscape envs")
    rows = []
    for name in builtin_layouts():
        layout = load_layout(name)
        size = f"{len(layout.cells)} cells, farthest {layout.farthest_distance} moves away"
        rows.append((f"maze/{name}", f"{layout.note} ({size})"))
    rows.append(("maze/PATH.txt", "your own maze, drawn in characters: # solid cell, . free cell, S start"))
    for name, text in HOST_ENVS:
        tasks = f" Tasks: {', '.join(DOMAINS[name].tasks)}." if name in DOMAINS else ""
        rows.append((name, f"{text}{tasks}"))
    print_table(rows)


def _envs_options() -> None:
    """List the environments, one line each."""


def doctor_command(arguments: list[str]) -> None:
    """Print every check as it is made; fail if one of them does."""
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
        raise UserError(f"{failed} check{'s' if failed > 1 else ''} failed; the arrows say what to do.")


def _doctor_options() -> None:
    """Load, reset and step every environment, check versions and rendering, and say what to install."""
