"""``skillscape goals``: zero-shot goal reaching."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from skillscape.cli.plugins import allow_run
from skillscape.formatting import counted

if TYPE_CHECKING:
    from skillscape.evaluation.summary import Summary


@dataclass(frozen=True)
class GoalOptions:
    """Measure zero-shot goal reaching: the policy of a pre-training acts under the skill z(s, g) that its method
    chooses for a goal g, at every step (adaptive) or once (single). Writes RUN/goals.json and a figure, of zoo/NAME to
    the folder runs/zoo-NAME.
    """

    run: tyro.conf.Positional[Path]
    """Run folder of a pre-training, with one seed or several, or zoo/NAME."""
    goals: int | None = None
    """Number of goals; if not given 50, and in mazes the centres of all cells."""
    range: Annotated[float | None, tyro.conf.arg(name="range")] = None
    """Half width R of the box [−R, R] around the start that goals are uniform in, in the environment's unit of length;
    if not given 50 for ant, 100 for half_cheetah. Mazes have goals in all cells."""
    within: tuple[float, ...] = ()
    """Distances to a goal that count as reaching it, in the environment's unit of length; if empty 3 and 1, in mazes
    0.5, half a cell."""
    episodes: int = 1
    """Episodes of each goal; more than one is useful with --explore."""
    explore: bool = False
    """Sample actions from the policy instead of taking its mean action."""
    hindsight: bool = False
    """Try every discrete skill for every goal too, and measure the best one in hindsight: an upper bound of what
    choosing one skill for each goal could reach."""
    seed: int = 0
    """Random seed of goals and episodes."""
    json: bool = False
    """Print one JSON object: {"measures": {NAME: {"mean", "interval", "per_seed"}}, "runs": [...]}."""
    out: Path | None = None
    """File of the figure; if not given RUN/plots/goals.png, or runs/zoo-NAME/plots/goals.png of zoo/NAME."""
    env: str | None = None
    """Environment ID of the run; optional, except to allow the import of a gym/module:ID whose module you trust."""


def goals_command(arguments: list[str]) -> None:
    """Print how often goals are reached, and write the numbers and a figure."""
    from skillscape.api import goals, load_seeds
    from skillscape.evaluation.goals import FILE
    from skillscape.evaluation.summary import few_seeds_note, summarise
    from skillscape.reporting.goals import draw_goals
    from skillscape.training.files import write_json, writing_to
    from skillscape.training.several import each_possible
    from skillscape.zoo import locate, output_folder

    options = tyro.cli(GoalOptions, args=arguments, prog="skillscape goals")
    allow_run(options.run, options.env)
    asked: dict[str, Any] = {
        "number": options.goals,
        "goal_range": options.range,
        "within": options.within or None,
        "episodes": options.episodes,
        "explore": options.explore,
        "hindsight": options.hindsight,
        "seed": options.seed,
    }
    by_seed = each_possible(load_seeds(options.run), lambda run: (run, goals(run, **asked)))
    for run, each in by_seed:
        folder = output_folder(run.folder)
        with writing_to(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / FILE, each.to_json())
    figure = options.out or output_folder(locate(options.run)) / "plots" / "goals.png"
    draw_goals(by_seed, figure)
    summaries = {name: summarise([each.measures[name] for _, each in by_seed]) for name in by_seed[0][1].measures}
    if options.json:
        measures = {name: summary.to_json() for name, summary in summaries.items()}
        runs = [{"seed": run.config.seed, **each.to_json()} for run, each in by_seed]
        print(json.dumps({"measures": measures, "runs": runs}))
        return
    first, each = by_seed[0]
    number, seeds = counted(len(each.goals) // options.episodes, "goal"), counted(len(by_seed), "seed")
    print(f"{first.config.method} in {first.config.env}, {each.step:,} steps, {seeds}, {number}")
    _print_table(list(each.modes), summaries)
    if note := few_seeds_note([len(by_seed)]):
        print(note)
    print(figure)


def _print_table(modes: Sequence[str], summaries: "dict[str, Summary]") -> None:
    """One row for each measure, one column for each mode."""
    print(f"  {'':<16}" + "".join(f"{mode:<26}" for mode in modes).rstrip())
    for name in (name.removeprefix(f"{modes[0]}_") for name in summaries if name.startswith(modes[0])):
        cells = [_in_words(summaries[f"{mode}_{name}"]) for mode in modes]
        print(f"  {name:<16}" + "".join(f"{cell:<26}" for cell in cells).rstrip())


def _in_words(summary: "Summary") -> str:
    """The mean, and its interval over seeds where there is one."""
    interval = "" if summary.interval is None else " ({:.3f} to {:.3f})".format(*summary.interval)
    return f"{summary.mean:.3f}{interval}"
