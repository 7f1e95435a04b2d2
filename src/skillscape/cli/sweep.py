"""``skillscape sweep``: a grid of runs from a specification."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from skillscape.cli.execution import Execution, check_complete
from skillscape.cli.plugins import allow
from skillscape.errors import Interrupted, UserError

if TYPE_CHECKING:
    from skillscape.experiments.cost import CostModel
    from skillscape.experiments.grid import RunSpec


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Execution):
    """Train a grid of runs, each pre-training before its fine-tunings. The same command resumes a sweep."""

    inline = False
    spec: tyro.conf.Positional[Path]
    """TOML file that specifies the grid; see docs/guides/sweeps.md and the folder sweeps/."""
    dry_run: bool = False
    """Print the number of runs, their dependencies and the estimated core hours, and train nothing."""


def sweep_command(arguments: list[str]) -> None:
    """Train the runs that are not finished and collect the results."""
    from skillscape.experiments.grid import distinct
    from skillscape.experiments.results import results_folder
    from skillscape.experiments.spec import read_sweep

    options = tyro.cli(SweepOptions, args=arguments, prog="skillscape sweep")
    options.check()
    sweep = read_sweep(options.spec)
    name = sweep.grid.name
    for env in sweep.grid.envs:
        allow(env)
    try:
        specs = distinct(sweep.grid.specs)
    except UserError as error:
        raise UserError(f"{options.spec}: {error}") from error
    if options.dry_run:
        _print_plan(name, specs, options.runs)
        return
    try:
        report = options.train(name, specs, sweep.resources)
    except Interrupted:
        print("skillscape: interrupted and saved; run the same command to continue.", file=sys.stderr)
        sys.exit(130)
    print(f"{len(report.results)} of {len(specs)} runs are finished.")
    for file in ("results.json", "results.csv"):
        print(results_folder(options.runs, name) / file)
    check_complete(report)


def _print_plan(name: str, specs: "Sequence[RunSpec]", runs: Path) -> None:
    from skillscape.experiments.cost import CostModel, shipped_rates
    from skillscape.training.files import read_results

    estimate = CostModel(runs)
    number = Counter(spec.config.phase for spec in specs)
    left: list[RunSpec] = []
    damaged = []
    for spec in specs:
        try:
            if read_results(runs / spec.folder) is None:
                left.append(spec)
        except UserError as error:
            damaged.append(str(error))
    done = len(specs) - len(left) - len(damaged)
    print(
        f"{name}: {len(specs):,} runs = {number['pretrain']:,} pre-trainings + {number['finetune']:,} fine-tunings + "
        f"{number['train']:,} from scratch; {done:,} are finished in {runs}"
    )
    print()
    _print_graph(specs, estimate)
    print(f"\n{_core_time(estimate.total(specs))} in all, {_core_time(estimate.total(left))} of them left.")
    print(f"Rates: {estimate.measured} kinds of runs measured in {runs}; for the rest {shipped_rates()['machine']}.")
    for sentence in damaged:
        print(f"skillscape: {sentence}", file=sys.stderr)
    if damaged:
        raise UserError(f"{len(damaged)} of {len(specs)} runs are damaged; fix the errors above.")


def _core_time(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} core hours" if seconds >= 3600 else f"{seconds / 60:,.1f} core minutes"


def _print_graph(specs: "Sequence[RunSpec]", estimate: "CostModel") -> None:
    """One line per environment, and one per pre-training: its number of runs, and of fine-tunings that follow."""
    groups: dict[str, dict[str, list[RunSpec]]] = {}
    for spec in specs:
        scratch = spec.config.phase == "train"
        source = spec.label if scratch else Path(spec.needs or spec.folder).parent.name
        groups.setdefault(spec.config.env, {}).setdefault(source, []).append(spec)
    width = max(len(source) for sources in groups.values() for source in sources)
    for env, sources in groups.items():
        tasks = dict.fromkeys(spec.config.task for own in sources.values() for spec in own if spec.config.task)
        print(f"{env}{': ' if tasks else ''}{', '.join(tasks)}")
        for source, own in sources.items():
            number = Counter(spec.config.phase for spec in own)
            what = f"{number['train']} from scratch" if number["train"] else f"{number['pretrain']} pre-trainings"
            then = f" → {number['finetune']} fine-tunings" if number["finetune"] else ""
            print(f"  {source:<{width}}  {what + then:<40}{_core_time(estimate.total(own)):>24}")
