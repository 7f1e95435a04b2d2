"""``skillscape zoo`` and ``export``: runs that come with the package, and runs to share."""

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from skillscape.errors import choose

SHOWN = {
    "coverage": "coverage",
    "reach": "reach",
    "mutual_information": "I(S;Z)",
    "policy_coverage": "policy coverage",
    "distance": "distance",
    "skill_accuracy": "accuracy",
}
"""Measure → its name in the table of `skillscape zoo`."""


@dataclass(frozen=True)
class ZooOptions:
    """List the runs that come with the package; every command that takes a run folder takes zoo/NAME."""

    name: tyro.conf.Positional[str | None] = None
    """Name of an entry, to show its command, seed, versions and measures; all entries in a table if not given."""
    json: bool = False
    """Print one JSON object: {"zoo/NAME": {"env", "method", "steps", "seed", "command", "measures", ...}}."""


@dataclass(frozen=True)
class ExportOptions:
    """Write a finished run without optimiser states and replay buffer, to share it. The export loads like any run and
    acts as the run does; it can be measured, drawn and fine-tuned, but not resumed.
    """

    run: tyro.conf.Positional[Path]
    """Run folder, with one seed."""
    out: tyro.conf.Positional[Path]
    """Folder for the exported run."""
    model: bool = True
    """Include the model of the method, which `goals`, --infer and density maps need."""
    force: bool = False
    """Replace the run in the folder, if there is one."""


@dataclass(frozen=True)
class Entry:
    """What `skillscape zoo` shows of an entry."""

    env: str
    method: str
    backbone: str
    steps: int
    """Environment steps of the pre-training."""
    seed: int
    command: str | None
    model: bool
    measures: dict[str, float]
    versions: dict[str, str]
    """Versions of Python and the packages, and under git the commit."""
    bytes: int


def zoo_command(arguments: list[str]) -> None:
    """Print the table of entries, or all about one of them."""
    from skillscape.zoo import PREFIX, names

    options = tyro.cli(ZooOptions, args=arguments, prog="skillscape zoo")
    entries = {f"{PREFIX}/{name}": _entry(name) for name in names()}
    if options.name is not None:
        wanted = f"{PREFIX}/{options.name.removeprefix(f'{PREFIX}/')}"
        choose("run", wanted, entries)
        entries = {wanted: entries[wanted]}
    if options.json:
        print(json.dumps({name: asdict(entry) for name, entry in entries.items()}))
    elif options.name is not None:
        for name, entry in entries.items():
            _print_entry(name, entry)
    else:
        _print_table(entries)


def _entry(name: str) -> Entry:
    """An entry as its files have it, read without starting JAX."""
    from skillscape.training.files import EXPORT_FILE, read_json
    from skillscape.zoo import ZOO

    advice = "install skillscape again"
    config, results, versions, about = (
        read_json(ZOO / name / file, advice=advice)
        for file in ("config.json", "results.json", "versions.json", EXPORT_FILE)
    )
    return Entry(
        env=config["env"],
        method=config["objective"]["name"],
        backbone=config["backbone"]["name"],
        steps=results["steps"],
        seed=config["seed"],
        command=about["command"],
        model=about["model"],
        measures=results["measures"],
        versions=versions,
        bytes=size_of(ZOO / name),
    )


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _print_table(entries: dict[str, Entry]) -> None:
    rows = [("name", "environment", "method", "steps", "measures", "size")]
    for name, entry in entries.items():
        shown = [f"{label} {entry.measures[key]:.3g}" for key, label in SHOWN.items() if key in entry.measures]
        rows.append(
            (name, entry.env, entry.method, f"{entry.steps:,}", " · ".join(shown), f"{entry.bytes / 1e3:.0f} kB")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_entry(name: str, entry: Entry) -> None:
    facts: dict[str, Any] = {
        "environment": entry.env,
        "method": f"{entry.method} with {entry.backbone}",
        "steps": f"{entry.steps:,}",
        "seed": entry.seed,
        "command": entry.command,
        "commit": entry.versions.get("git", "unknown"),
        "versions": ", ".join(f"{key} {value}" for key, value in entry.versions.items() if key != "git"),
        "size": f"{entry.bytes / 1e3:.0f} kB{'' if entry.model else ', without the model of the method'}",
    }
    print(name)
    for key, value in [*facts.items(), *((key, f"{value:.4g}") for key, value in entry.measures.items())]:
        print(f"  {key:<26}{value}")


def export_command(arguments: list[str]) -> None:
    """Export a run, and print its size and how to use it."""
    options = tyro.cli(ExportOptions, args=arguments, prog="skillscape export")

    from skillscape.api import load
    from skillscape.export import export_run

    run = export_run(load(options.run), options.out, model=options.model, force=options.force)
    folder = shlex.quote(str(run.folder))
    print(f"{run.folder}: {size_of(run.folder) / 1e3:,.0f} kB; see `skillscape evaluate {folder}`")
