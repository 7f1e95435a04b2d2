"""With which versions a run was made."""

import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

from skillscape.training.files import read_json

VERSIONED = ("skillscape", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "mujoco", "dm_control")


def versions() -> dict[str, str]:
    """Versions of all that can change a number: Python, libraries, and the commit of a source checkout."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        here = Path(__file__).parent
        commit = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        found["git"] = commit.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return found


def versions_of(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Every version that the runs in these folders were made with; a folder that does not say is passed over."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        path = folder / "versions.json"
        told = read_json(path, advice="restore it or train that run again with --force") if path.exists() else {}
        for name, version in told.items():
            found.setdefault(name, set()).add(str(version))
    return {name: sorted(each) for name, each in found.items()}
