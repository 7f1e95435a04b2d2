"""``skillscape reproduce``: a table or figure of the paper in one command."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from skillscape.cli.display import first_sentence, print_table, without
from skillscape.cli.execution import Execution, check_complete
from skillscape.cli.parsing import WHOLE_NUMBER
from skillscape.errors import UserError, choose
from skillscape.training.files import writing_to

Experiment = TypeVar("Experiment")
PLACES = ("--out", "--runs", "--workers", "--on", "--address")
"""Flags that change where results are made and kept, but not the results."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Execution, Generic[Experiment]):
    """Where it is trained, and where the results go."""

    inline = True
    experiment: Annotated[Experiment, tyro.conf.arg(name="")]
    """What is compared."""
    out: Path = Path("results")
    """Folder for the raw numbers, tables and pictures, in a sub-folder each; results of other settings that stand there
    are never replaced: the sub-folder then gets a longer name."""


def reproduce_command(arguments: list[str]) -> None:
    """Train, measure and draw an experiment. Stopped, the same command goes on; finished runs are skipped."""
    from skillscape.experiments.engine import Resources
    from skillscape.experiments.paper import registry
    from skillscape.experiments.results import Results

    experiments = registry()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape reproduce NAME [--seeds K] [--preset PRESET] [--out DIR] …\n")
        print_table([(name, first_sentence(kind.__doc__)) for name, kind in experiments.items()])
        print("\n`skillscape reproduce NAME --help` lists every option.")
        if not arguments:
            raise UserError("Say what to reproduce, for example `skillscape reproduce maze`.")
        return
    name, *rest = arguments
    choose("experiment", name, experiments, "skillscape reproduce --help")
    options = _parsed(name, experiments[name], rest)
    options.check()
    experiment, command = options.experiment, " ".join(["skillscape", "reproduce", name, *without(rest, PLACES)])
    grids = experiment.grids()
    folders = [experiment.results_folder(grid, options.out) for grid in grids]
    for grid, folder in zip(grids, folders, strict=True):
        if folder.name != grid.name:
            print(f"{folder.parent / grid.name} holds results of other settings; these go to {folder}", file=sys.stderr)
    specs = [spec for grid in grids for spec in grid.specs]
    check_complete(options.train(f"reproduce-{name}", specs, Resources()))
    for grid, folder in zip(grids, folders, strict=True):
        with writing_to(options.out):
            written = experiment.analyse(grid, Results.read(grid.specs, options.runs), folder, command)
        for path in written:
            if path.suffix == ".md":
                print(path.read_text())
        print(*written, sep="\n")


def _parsed(name: str, kind: type, arguments: list[str]) -> Any:  # noqa: ANN401  ReproduceOptions of the experiment
    numbers = ConstructorRegistry()

    @numbers.primitive_rule
    def _(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
        """Whole numbers as people write them."""
        return WHOLE_NUMBER if info.type is int else None

    generic: Any = ReproduceOptions
    prog, told = f"skillscape reproduce {name}", first_sentence(kind.__doc__)
    return tyro.cli(generic[kind], args=arguments, prog=prog, description=told, registry=numbers)
