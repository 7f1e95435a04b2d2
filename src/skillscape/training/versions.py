"""Versions of the packages that a run was trained with."""

import importlib.metadata
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

from skillscape.training.files import read_json

VERSIONED = ("skillscape", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "mujoco", "dm_control")


def versions() -> dict[str, str]:
    """Versions that can change results: Python, libraries, and the commit of a source checkout."""
    installed = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        here = Path(__file__).parent
        commit = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        installed["git"] = commit.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return installed


def versions_of(folders: Iterable[Path]) -> dict[str, list[str]]:
    """All versions that the runs in these folders were trained with; folders without versions.json are skipped."""
    used: dict[str, set[str]] = {}
    for folder in folders:
        path = folder / "versions.json"
        recorded = read_json(path, advice="restore it or train that run again with --force") if path.exists() else {}
        for name, version in recorded.items():
            used.setdefault(name, set()).add(str(version))
    return {name: sorted(values) for name, values in used.items()}
