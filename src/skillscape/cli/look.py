"""``skillscape evaluate`` and ``plot``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from skillscape.cli.naming import allow_run
from skillscape.errors import UserError

if TYPE_CHECKING:
    from skillscape.evaluation.summary import Summary


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure a run. In mazes: coverage, reach, I(S;Z) in nats, skill accuracy; elsewhere the return of each skill."""

    run: tyro.conf.Positional[Path]
    """Run folder, of one seed or of several."""
    json: bool = False
    """Print one JSON object: {"coverage": {"mean", "interval", "per_seed"}, …}; the interval of one seed is null, and
    so is a measure that tells skills apart where there is only one."""
    rollouts: int | None = None
    """Episodes per skill; as in training if not given."""
    env: str | None = None
    """Environment of the run, said again to allow the import of its module: gym/module:ID of a run that you trust."""


@dataclass(frozen=True)
class PlotOptions:
    """Draw a run: trajectories per skill over the walls, and density maps of each skill."""

    run: tyro.conf.Positional[Path]
    """Run folder, of one seed or of several."""
    out: Path | None = None
    """Folder for the pictures; RUN/plots if not given."""


def evaluate_command(arguments: list[str]) -> None:
    """Print the measures of a run, or the return of each of its skills."""
    from skillscape.api import in_maze, is_job, load, load_jobs, skill_returns, summarise_runs
    from skillscape.evaluation.summary import few_seeds_note

    options = tyro.cli(EvaluateOptions, args=arguments, prog="skillscape evaluate")
    if options.rollouts is not None and options.rollouts < 2:
        raise UserError(
            f"--rollouts must be at least 2, not {options.rollouts}: accuracy is measured on held-out ones."
        )
    allow_run(options.run, options.env)
    runs: Sequence[Any] = load_jobs(options.run) if is_job(options.run) else load(options.run)
    if not in_maze(runs[0]):
        _print_returns(skill_returns(options.run, episodes=options.rollouts), options.json)
        return
    summaries = summarise_runs(runs, per_skill=options.rollouts)
    if options.json:
        print(json.dumps({name: summary and summary.to_json() for name, summary in summaries.items()}))
        return
    config = runs[0].config
    seeds = max(len(summary.per_seed) for summary in summaries.values() if summary is not None)
    print(f"{config.objective.name} in {config.env}, {_steps(runs)}, {seeds} seed{'s' * (seeds > 1)}")
    for name in (name for name in summaries if not name.endswith("_error")):
        print(f"  {name:<20}{_in_words(name, summaries[name], summaries.get(f'{name}_error'))}")
    if note := few_seeds_note([seeds]):
        print(note)


def _in_words(name: str, summary: "Summary | None", error: "Summary | None") -> str:
    """A measure with its unit, its standard error over rollouts, and its interval over seeds where there is one."""
    if summary is None:
        return "–"
    unit = " nats" if name == "distinguishability" else ""
    precision = "" if error is None else f" ± {error.mean:.3f} over rollouts"
    spread = "" if summary.interval is None else "  95 % interval {:.3f} to {:.3f}".format(*summary.interval)
    return f"{summary.mean:.3f}{unit}{precision}{spread}"


def _steps(runs: Sequence[Any]) -> str:
    """The steps that were trained, which are not the budget while a run is under way."""
    from skillscape.training.several import each_possible

    trained = each_possible(runs, lambda run: run.trained_steps)
    low, high = min(trained), max(trained)
    between = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{between}{'' if low >= runs[0].end else f' of {runs[0].end:,}'} steps"


def _print_returns(found: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Returns of every skill of every seed."""
    if as_json:
        print(json.dumps(found))
        return
    for run in found:
        print(
            f"{run['method']} in {run['task']}, {run['steps']:,} steps, seed {run['seed']}, mean return of each skill"
        )
        for skill, returns in run["returns"].items():
            mean = sum(returns) / len(returns)
            kept = "   fine-tuned" if skill == run["finetuned"] != "fine-tuned" else ""
            print(f"  {skill:<12}{mean:9.1f}   episodes {min(returns):.1f} to {max(returns):.1f}{kept}")


def plot_command(arguments: list[str]) -> None:
    """Draw a run and print where the pictures are."""
    from skillscape.api import is_job, load, load_jobs
    from skillscape.experiments.pictures import draw_jobs, draw_runs

    options = tyro.cli(PlotOptions, args=arguments, prog="skillscape plot")
    folder = options.out or options.run / "plots"
    try:
        written = (
            draw_jobs(load_jobs(options.run), folder) if is_job(options.run) else draw_runs(load(options.run), folder)
        )
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; choose another --out.") from error
    for path in written:
        print(path)
