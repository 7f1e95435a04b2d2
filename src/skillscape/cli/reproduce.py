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
PLACES = ("--out", "--runs", "--records", "--workers", "--on", "--address")
"""Flags that do not change the results, only where they are computed and stored."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(Execution, Generic[Experiment]):
    """Executor of the runs, and folder of the results."""

    inline = True
    experiment: Annotated[Experiment, tyro.conf.arg(name="")]
    """Settings of the experiment."""
    out: Path = Path("results")
    """Folder for raw numbers, tables and figures, in one sub-folder per comparison. Results of other settings are never
    overwritten: the sub-folder then gets a longer name."""


def reproduce_command(arguments: list[str]) -> None:
    """Train, evaluate and plot an experiment. Finished runs are skipped, so the same command resumes it."""
    from skillscape.experiments.engine import Resources
    from skillscape.experiments.paper import registry
    from skillscape.experiments.results import Results

    experiments = registry()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape reproduce NAME [--seeds K] [--preset PRESET] [--out DIR] …\n")
        print_table([(name, first_sentence(kind.__doc__)) for name, kind in experiments.items()])
        print("\n`skillscape reproduce NAME --help` lists every option.")
        if not arguments:
            raise UserError("No experiment given; name one, for example `skillscape reproduce maze`.")
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
    check_complete(options.train(f"reproduce-{name}", specs, Resources(), experiment.measure))
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
        """Whole numbers, also as 250_000 or 2.5e5."""
        return WHOLE_NUMBER if info.type is int else None

    generic: Any = ReproduceOptions
    prog, description = f"skillscape reproduce {name}", first_sentence(kind.__doc__)
    return tyro.cli(generic[kind], args=arguments, prog=prog, description=description, registry=numbers)
