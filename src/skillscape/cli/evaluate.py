"""``skillscape evaluate`` and ``plot``."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from skillscape.cli.parsing import Count
from skillscape.cli.plugins import allow, allow_run

if TYPE_CHECKING:
    from skillscape.evaluation.evaluators import Evaluation
    from skillscape.evaluation.summary import Summary

UNITS = {"mutual_information": " nats", "model_information": " nats"}


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate a run: where its skills go, the return of each skill outside mazes, the skill accuracy of states, and
    how well the method's own model identifies discrete skills.
    """

    run: tyro.conf.Positional[Path]
    """Run folder, with one seed or several, or zoo/NAME."""
    json: bool = False
    """Print one JSON object: {"measures": {NAME: {"mean", "interval", "per_seed"}}, "runs": [...]}. The interval of a
    single seed is null, and so is a measure that does not apply to the method."""
    task: str | None = None
    """Task whose return is measured; the run's own if not given."""
    episodes: int | None = None
    """Episodes per skill; --evaluation.episodes of the run if not given."""
    coverage_episodes: int | None = None
    """Deterministic episodes counted by policy state coverage, split equally among the skills, 48 in METRA's protocol;
    0 counts those of --episodes; --evaluation.coverage-episodes of the run if not given."""
    infer: Count | None = None
    """Environment steps with task reward, under skills from the prior, from which the method infers a skill; its return
    is measured in place of every skill's. For APS; 10000 is usual. No skill is inferred if not given."""
    env: str | None = None
    """Environment ID of the run; optional, except to allow the import of a gym/module:ID whose module you trust."""


@dataclass(frozen=True)
class PlotOptions:
    """Plot a run: learning curves; in mazes also trajectories, visitation and density maps of each skill; elsewhere the
    paths of the skills, where the environment gives the position of the body.
    """

    run: tyro.conf.Positional[Path]
    """Run folder, with one seed or several, or zoo/NAME."""
    out: Path | None = None
    """Folder for the figures; if not given RUN/plots, or runs/zoo-NAME/plots of zoo/NAME."""


def evaluate_command(arguments: list[str]) -> None:
    """Print the measures of a run and the return of each skill."""
    from skillscape.api import load_seeds
    from skillscape.evaluation.evaluators import evaluate
    from skillscape.evaluation.summary import few_seeds_note, summarise_measures
    from skillscape.training.several import each_possible

    options = tyro.cli(EvaluateOptions, args=arguments, prog="skillscape evaluate")
    allow_run(options.run, options.env)
    allow(options.task or "")
    runs = load_seeds(options.run)
    asked: dict[str, Any] = {
        "task": options.task,
        "episodes": options.episodes,
        "coverage_episodes": options.coverage_episodes,
        "infer": options.infer,
    }
    evaluated = each_possible(runs, lambda run: (run, evaluate(run, **asked)))
    summaries = summarise_measures([each.measures for _, each in evaluated])
    if options.json:
        measures = {name: summary and summary.to_json() for name, summary in summaries.items()}
        print(
            json.dumps(
                {"measures": measures, "runs": [{"seed": run.config.seed, **asdict(each)} for run, each in evaluated]}
            )
        )
        return
    config = runs[0].config
    place = ", ".join(dict.fromkeys([config.env, options.task or config.task or config.env]))
    print(f"{config.method} in {place}, {_steps(evaluated)}, {len(evaluated)} seed{'s' * (len(evaluated) > 1)}")
    names = [name for name in summaries if not name.endswith("_error")]
    width = max(20, *(len(name) + 2 for name in names))
    for name in names:
        print(f"  {name:<{width}}{_in_words(name, summaries[name], summaries.get(f'{name}_error'))}")
    for run, each in evaluated:
        _print_returns(run.config.seed, each, len(evaluated) > 1)
    if note := few_seeds_note([len(evaluated)]):
        print(note)


def _in_words(name: str, summary: "Summary | None", error: "Summary | None") -> str:
    """A measure with its unit, its standard error over rollouts, and its interval over seeds where there is one."""
    if summary is None:
        return "–"
    precision = "" if error is None else f" ± {error.mean:.3f} over rollouts"
    spread = "" if summary.interval is None else "  95 % interval {:.3f} to {:.3f}".format(*summary.interval)
    return f"{summary.mean:.3f}{UNITS.get(name, '')}{precision}{spread}"


def _steps(evaluated: "Sequence[tuple[Any, Evaluation]]") -> str:
    """The steps trained so far; an unfinished run also shows its budget."""
    trained = [each.step for _, each in evaluated]
    low, high, end = min(trained), max(trained), evaluated[0][0].end
    between = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{between}{'' if low >= end else f' of {end:,}'} steps"


def _print_returns(seed: int, evaluation: "Evaluation", several: bool) -> None:
    """Print the return of each skill of a seed."""
    if evaluation.returns:
        print(f"  mean return of each skill{f', seed {seed}' if several else ''}")
    for skill, returns in evaluation.returns.items():
        mean = sum(returns) / len(returns)
        kept = "   fine-tuned" if skill == evaluation.finetuned != "fine-tuned" else ""
        print(f"    {skill:<12}{mean:9.1f}   episodes {min(returns):.1f} to {max(returns):.1f}{kept}")


def plot_command(arguments: list[str]) -> None:
    """Plot a run and print the paths of the figures."""
    from skillscape.api import load_seeds
    from skillscape.reporting.figures import draw_runs
    from skillscape.zoo import locate, output_folder

    options = tyro.cli(PlotOptions, args=arguments, prog="skillscape plot")
    out = options.out or output_folder(locate(options.run)) / "plots"
    for path in draw_runs(load_seeds(options.run), out):
        print(path)
