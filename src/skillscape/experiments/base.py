"""What an experiment of `skillscape reproduce` is, and where its results go."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typing_extensions import Doc

from skillscape.errors import UserError
from skillscape.experiments.grid import Grid
from skillscape.experiments.results import Results
from skillscape.formatting import counted
from skillscape.training.run import Run

Seeds = Annotated[int, Doc("Number of seeds per method.")]
Preset = Annotated[str | None, Doc("Named settings, as for `skillscape pretrain`; its default if not given.")]
Steps = Annotated[int | None, Doc("Environment steps of pre-training; the preset's if not given.")]


@dataclass(frozen=True)
class Experiment(ABC):
    """A table or a figure: its fields are the options, its grids are trained, and their results are analysed."""

    name: ClassVar[str]

    @abstractmethod
    def grids(self) -> list[Grid]:
        """The grids of runs; the results of each go to a folder of its name."""

    @abstractmethod
    def identity(self, grid: Grid) -> dict[str, Any]:
        """What distinguishes these results from others of the same name: values of raw.json, methods and tasks."""

    @abstractmethod
    def analyse(self, grid: Grid, results: Results, folder: Path, command: str) -> list[Path]:
        """Write numbers, tables and figures. ``command``: the command line, stored with the numbers."""

    def measure(self, run: Run) -> None:
        """Add to a finished run what ``analyse`` needs its weights for; by default nothing."""
        del run

    def results_folder(self, grid: Grid, out: Path) -> Path:
        """The folder of the grid's name, or a longer name that lists all settings where that has other results."""
        identity = self.identity(grid)
        if not identity:
            return out / grid.name
        methods = dict.fromkeys(variant.method or str(variant.backbone) for variant in grid.variants)
        budgets = [f"{identity[name]}" for name in ("pretraining_steps", "finetuning_steps") if name in identity]
        seeds = counted(identity["seeds"], "seed").replace(" ", "-")
        short, full = out / grid.name, out / "-".join([grid.name, *methods, *budgets, seeds])
        for folder in (short, full):
            if not (folder / "raw.json").exists() or _stored_identity(folder, identity) == identity:
                return folder
        raise UserError(f"{short} and {full} hold other results; choose another --out.")


def _stored_identity(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The identity of the results in a folder, with the keys of ``identity``; None if raw.json cannot be read."""
    try:
        raw = json.loads((folder / "raw.json").read_text())
        rows = raw["scores"] if "scores" in raw else [{"method": arm["label"]} for arm in raw["arms"]]
        # Results do not depend on the order in which methods were named.
        listed = {f"{key}s": sorted({row[key] for row in rows if key in row}) for key in ("method", "task")}
        return {key: listed.get(key, raw.get(key)) for key in identity}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
