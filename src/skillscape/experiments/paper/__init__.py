"""The tables and figures of the paper. This folder is the registry of `skillscape reproduce`: one short file each."""

from skillscape.experiments.base import Experiment
from skillscape.registry import Registry

registry: Registry[Experiment] = Registry(__name__, Experiment, "skillscape.experiments")  # type: ignore[type-abstract]
"""Every experiment by name: of this folder, of installed packages that offer some, and what ``register`` was given."""
