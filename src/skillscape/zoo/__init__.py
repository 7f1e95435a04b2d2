"""The zoo: exported runs that come with the package, named zoo/NAME wherever a run folder is.

A run folder zoo/NAME below the current folder is meant before an entry of the same name. Entries are never written to.
"""

import warnings
from pathlib import Path

from skillscape.errors import Notice, UserError, choose

ZOO = Path(__file__).parent
PREFIX = ZOO.name


def names() -> list[str]:
    """The names of the entries, without zoo/."""
    return sorted(path.parent.name for path in ZOO.glob("*/config.json"))


def locate(folder: str | Path) -> Path:
    """The folder of a run: that of an entry for zoo/NAME, all entries for zoo, and any other path as it is."""
    path = Path(folder)
    if path.parts[:1] != (PREFIX,):
        return path
    if len(path.parts) == 1:
        return path if path.is_dir() else ZOO
    name, entry = path.parts[1], ZOO.joinpath(*path.parts[1:])
    if _holds_run(path):
        if name in names() and path.resolve() != entry.resolve():
            warnings.warn(
                Notice(
                    f"{path} is the run in the current folder, not that of the package; rename it to use the other."
                ),
                stacklevel=2,
            )
        return path
    if not path.is_dir() or name in names():
        choose("run", f"{PREFIX}/{name}", [f"{PREFIX}/{each}" for each in names()])
        return entry
    return path


def entry_name(folder: Path) -> str | None:
    """The name zoo/NAME of an entry's folder; None for any other folder."""
    inside = folder.resolve()
    return f"{PREFIX}/{inside.name}" if inside.parent == ZOO.resolve() else None


def output_folder(folder: Path) -> Path:
    """Where commands write what they make of a run: its folder, and for an entry of the zoo runs/zoo-NAME."""
    name = entry_name(folder)
    return folder if name is None else Path("runs") / name.replace("/", "-")


def check_output(out: Path) -> None:
    """Refuse to write a run to zoo/…, or into the folder of the entries."""
    if out.parts[:1] == (PREFIX,) or out.resolve().is_relative_to(ZOO.resolve()):
        raise UserError(f"{out} cannot be written, since zoo/ names the runs of the package; choose another --out.")


def _holds_run(path: Path) -> bool:
    """Whether a folder is a run, its seeds, or a shared policy."""
    return any((path / name).exists() for name in ("config.json", "arrays.json")) or any(
        path.glob("seed_*/config.json")
    )
