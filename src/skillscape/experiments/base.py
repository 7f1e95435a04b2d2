"""What an experiment of `skillscape reproduce` is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typing_extensions import Doc

from skillscape.experiments.grid import Grid
from skillscape.experiments.results import Results

Seeds = Annotated[int, Doc("Number of seeds per method.")]
Preset = Annotated[str | None, Doc("Named settings, as for `skillscape pretrain`; its default if not given.")]
Steps = Annotated[int | None, Doc("Environment steps of pre-training; the preset's if not given.")]


@dataclass(frozen=True)
class Experiment(ABC):
    """A table or a figure: its fields are the options, a grid is what is trained, and the results are analysed."""

    name: ClassVar[str]

    @abstractmethod
    def grids(self) -> list[Grid]:
        """What is trained; the results of each grid go to a folder of its name."""

    @abstractmethod
    def identity(self, grid: Grid) -> dict[str, Any]:
        """What sets results apart from others of the same name: values of raw.json, and its methods and tasks."""

    @abstractmethod
    def analyse(self, grid: Grid, results: Results, folder: Path, command: str) -> list[Path]:
        """Write numbers, tables and figures. ``command``: the command line that makes them, kept with the numbers."""
