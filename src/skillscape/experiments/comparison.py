"""Comparisons of pre-trainings on equal seeds and budget: raw numbers, a table and figures."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from typing_extensions import Doc

from skillscape import presets
from skillscape.api import rollouts
from skillscape.config import RunConfig
from skillscape.envs.registry import family_of
from skillscape.errors import UserError, choose
from skillscape.evaluation.costs import NOTE as COST_NOTE
from skillscape.evaluation.costs import Cost, cost_of, known_columns
from skillscape.evaluation.goals import MAZE_MEASURE, goals_reached, measure_goals
from skillscape.evaluation.summary import Summary, few_seeds_note, median_index, summarise
from skillscape.experiments.base import Experiment, Preset, Seeds, Steps
from skillscape.experiments.grid import Grid, Pairs, Variant
from skillscape.experiments.results import Results
from skillscape.formatting import counted
from skillscape.objectives import registry, trainable
from skillscape.plots.curves import MEASURES, OPTIONAL_MEASURES, Curve, MeasureLabel, curves_figure
from skillscape.plots.mazes import PANELS_IN_A_ROW, Panel, caption, trajectory_figure
from skillscape.training.run import Run
from skillscape.training.versions import versions, versions_of

Entropy = Annotated[float | None, Doc("PPO's entropy weight for every method; the preset's if not given.")]
UNKNOWN = Cost()


@dataclass(frozen=True)
class Arm:
    """The measures of one column over its seeds, and the episodes of the seed that is plotted."""

    label: str
    config: RunConfig
    summaries: Mapping[str, Summary]
    """Measure → summary over seeds; measures that are undefined, as I(S;Z) is without skills, are left out."""
    curves: Mapping[str, Curve]
    versions: Mapping[str, Sequence[str]]
    """Package → versions that the runs were trained with."""
    shown_seed: int
    measures: Mapping[str, float]
    """Measure → value of the seed that is plotted."""
    positions: Float[np.ndarray, "k r t p"]
    cost: Cost = UNKNOWN


class Subject(NamedTuple):
    """What is measured and drawn of skills: in mazes, or of bodies (``experiments.bodies``)."""

    measures: Mapping[str, MeasureLabel]
    """Columns of the table, and the names under which runs log them."""
    optional: Mapping[str, MeasureLabel]
    """Columns that a table has only if a run was measured so."""
    curves: Sequence[str]
    shown_by: Sequence[str]
    """The plotted seed has the median of the first of these measures that the method has."""
    goal_measure: str
    """The measure of goals.json that is "goals reached"."""
    episodes: Callable[[Run], Float[np.ndarray, "k r t p"]]
    """Positions of every skill's episodes."""
    draw: Callable[[Sequence[Arm], Path], list[str]]
    """Draws the episodes of all columns into a folder; returns the names of what it wrote."""


@dataclass(frozen=True)
class Comparison(Experiment):
    """Pre-trainings compared by the coverage and the discriminability of their skills."""

    seeds: Seeds = 10
    steps: Steps = None
    preset: Preset = None

    def grid(self, name: str, env: str, variants: Sequence[Variant]) -> Grid:
        """The grid of these columns; a preset or budget other than the default becomes part of its name."""
        benchmark = family_of(env).benchmark(env)
        default = presets.default_preset(benchmark)
        preset = self.preset or default
        budget = presets.get(None, benchmark, env, preset).steps
        words = [
            name,
            *([preset] if preset != default else []),
            *([f"{self.steps}"] if self.steps not in (None, budget) else []),
        ]
        if self.seeds < 1:
            raise UserError(f"--seeds must be at least 1, not {self.seeds}.")
        return Grid(
            "-".join(words), tuple(variants), (env,), (), tuple(range(self.seeds)), preset, self.steps or budget
        )

    def identity(self, grid: Grid) -> dict[str, Any]:
        """Maze, budget, seeds and columns."""
        return {**_setting(grid), "methods": sorted(variant.label for variant in grid.variants)}

    def analyse(self, grid: Grid, results: Results, folder: Path, command: str) -> list[Path]:
        """The raw per-seed numbers, the table, the trajectories and the learning curves."""
        subject = self.subject()
        arms = [measured(variant.label, results, subject) for variant in grid.variants]
        return write(grid, arms, folder, command, subject)

    def measure(self, run: Run) -> None:
        """The goals that its skills reach."""
        measure_goals(run, self.subject().goal_measure)

    def subject(self) -> Subject:
        """What is measured and drawn."""
        return MAZES


@dataclass(frozen=True)
class Ablation(Comparison):
    """SD3 in the square maze with several settings."""

    columns: ClassVar[tuple[tuple[str, Pairs], ...]]
    """Label of each column, and the settings of SD3 in place of the preset's."""
    entropy: Entropy = None

    def grids(self) -> list[Grid]:
        """One comparison of all columns."""
        variants = [column("sd3", self.entropy, settings, label) for label, settings in self.columns]
        return [self.grid(with_entropy(self.name, self.entropy), "maze/square_a", variants)]


def column(method: str, entropy: float | None = None, objective: Pairs = (), label: str | None = None) -> Variant:
    """The column of a pre-trained method; a backbone alone is refused, since a maze comparison has no task."""
    choose("method", method, trainable(), "skillscape methods")
    settings = () if entropy is None else (("entropy", entropy),)
    return Variant(label or registry()[method].label, method, objective=objective, settings=settings)


def with_entropy(name: str, entropy: float | None) -> str:
    """The name of an experiment, with the entropy weight if it is not the preset's."""
    return name if entropy is None else f"{name}-entropy-{entropy:g}"


def _setting(grid: Grid) -> dict[str, Any]:
    return {"env": grid.envs[0], "steps": grid.steps, "seeds": len(grid.seeds)}


def measured(label: str, results: Results, subject: Subject) -> Arm:
    """The final measures of a column, and the episodes of its median seed."""
    own = results.where(label)
    names = [name for name in subject.measures if name in own.logs[0]]
    names += [name for name in own.logs[0] if name.removesuffix("_error") in names and name not in names]
    summaries = {name: summarise(own.last(name)) for name in names}
    shown = median_index(next(summaries[name] for name in subject.shown_by if name in summaries).per_seed)
    folders = [own.runs / spec.folder for spec in own.specs]
    run = Run(folders[shown])
    for folder in folders:
        measure_goals(Run(folder), subject.goal_measure)
    goals = goals_reached(folders, subject.goal_measure)
    summaries |= {} if goals is None else {"goals": summarise(goals)}
    return Arm(
        label=label,
        config=run.config,
        summaries=summaries,
        curves={name: own.curve(name) for name in names},
        versions=versions_of(folders),
        shown_seed=run.config.seed,
        measures={name: summary.per_seed[shown] for name, summary in summaries.items()},
        positions=subject.episodes(run),
        cost=cost_of(folders),
    )


def write(grid: Grid, arms: Sequence[Arm], folder: Path, command: str, subject: Subject) -> list[Path]:
    """Write raw.json, table.md, the plotted positions, their figures and curves.png to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {
        "experiment": grid.name,
        "command": command,
        **_setting(grid),
        "drawn_with": versions(),
        "arms": [_raw(arm) for arm in arms],
    }
    (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (folder / "table.md").write_text(table(grid, arms, subject))
    # Half precision resolves a thousandth of a cell, at a fifth of a figure's size.
    positions: dict[str, Any] = {arm.label: arm.positions.astype(np.float16) for arm in arms}
    np.savez_compressed(folder / "trajectories.npz", **positions)
    drawn = subject.draw(arms, folder)
    curves = {name: {arm.label: arm.curves[name] for arm in arms if name in arm.curves} for name in subject.curves}
    note = f"{_budget_line(grid, arms)}{', mean and 95 % interval' if len(grid.seeds) > 1 else ''}"
    curves_figure(curves, folder / "curves.png", note)
    return [folder / name for name in ("raw.json", "table.md", "trajectories.npz", *drawn, "curves.png")]


def draw_in_maze(arms: Sequence[Arm], folder: Path) -> list[str]:
    """trajectories.png; of more than four columns, trajectories/ has a figure of each."""
    layout = arms[0].config.layout
    if layout is None:
        raise UserError(f"{arms[0].config.env} is not a maze: give a maze/ or maze-pixels/ environment.")
    panels = [Panel(arm.label, arm.positions, f"{caption(arm.measures)} · seed {arm.shown_seed}") for arm in arms]
    trajectory_figure(panels, layout, folder / "trajectories.png")
    if len(panels) <= PANELS_IN_A_ROW:
        return ["trajectories.png"]
    for panel in panels:
        trajectory_figure([panel], layout, folder / "trajectories" / f"{file_name(panel.title)}.png")
    return ["trajectories.png", "trajectories"]


MAZES = Subject(
    MEASURES,
    OPTIONAL_MEASURES,
    ("coverage", "reach", "mutual_information"),
    ("mutual_information", "coverage"),
    MAZE_MEASURE,
    rollouts,
    draw_in_maze,
)


def file_name(label: str) -> str:
    """A column's label in lower case, with hyphens for all but letters, digits and points."""
    return re.sub(r"[^\w.]+", "-", label.lower()).strip("-")


def _raw(arm: Arm) -> dict[str, Any]:
    config = arm.config.to_json()
    parts = {
        part: {name: value for name, value in config[part].items() if name != "name"}
        for part in ("objective", "backbone")
    }
    return {
        "label": arm.label,
        "method": arm.config.method,
        **parts,
        "versions": dict(arm.versions),
        **arm.cost.to_json(),
        "measures": {name: summary.to_json() for name, summary in arm.summaries.items()},
        "curves": {
            name: {"step": steps.tolist(), "per_seed": np.round(values, 4).tolist()}
            for name, (steps, values) in arm.curves.items()
        },
    }


def table(grid: Grid, arms: Sequence[Arm], subject: Subject) -> str:
    """A Markdown table: mean and 95 % bootstrap interval over seeds; for one seed, its values.

    Measures that are optional, and costs, have a column if a run recorded them.
    """
    shown = ": mean [95 % bootstrap interval]" if len(grid.seeds) > 1 else ", hence no intervals"
    optional = {name: label for name, label in subject.optional.items() if any(name in arm.summaries for arm in arms)}
    measures, costs = {**subject.measures, **optional}, known_columns(arm.cost for arm in arms)
    heads = [*(measure.column for measure in measures.values()), *costs]
    lines = [f"{_budget_line(grid, arms)}{shown}", "", f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for arm in arms:
        cells = [_cell(arm.summaries.get(name)) for name in measures]
        cells += [arm.cost.cells().get(name, "–") for name in costs]
        lines.append(f"| {arm.label} | {' | '.join(cells)} |")
    notes = (measure.note for measure in measures.values())
    for note in (few_seeds_note([len(grid.seeds)]), *notes, COST_NOTE if costs else ""):
        lines += ["", note] if note else []
    return "\n".join(lines) + "\n"


def _cell(summary: Summary | None) -> str:
    """Mean and interval to two decimals, and small values to two significant digits."""
    if summary is None:
        return "–"
    digits = 2 if summary.mean == 0 or abs(summary.mean) >= 0.1 else 1 - math.floor(math.log10(abs(summary.mean)))
    spread = "" if summary.interval is None else " [{:.{d}f}, {:.{d}f}]".format(*summary.interval, d=digits)
    return f"{summary.mean:.{digits}f}{spread}"


def _budget_line(grid: Grid, arms: Sequence[Arm]) -> str:
    """Environment, number of skills, steps and seeds on one line."""
    counts = sorted({len(arm.positions) for arm in arms} - {1})
    skills = f"{' or '.join(f'{count}' for count in counts)} skills, " if counts else ""
    return f"{grid.envs[0]}, {skills}{grid.steps:,} steps, {counted(len(grid.seeds), 'seed')}"
