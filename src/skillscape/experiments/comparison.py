"""Comparisons in a maze: several columns, the same seeds and budget, one table, one picture, the raw numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from skillscape import presets
from skillscape.api import rollouts
from skillscape.config import RunConfig
from skillscape.envs.registry import family_of
from skillscape.errors import UserError
from skillscape.evaluation.mazes import MazeMeasures
from skillscape.evaluation.summary import Summary, few_seeds_note, median_index, summarise
from skillscape.experiments.base import Experiment, Preset, Seeds, Steps
from skillscape.experiments.grid import Grid, Variant
from skillscape.experiments.results import Results
from skillscape.formatting import counted
from skillscape.plots.curves import MEASURES, Curve, curves_figure
from skillscape.plots.mazes import Panel, caption, trajectory_figure
from skillscape.training.run import Run
from skillscape.training.versions import versions, versions_of

CURVES = ("coverage", "reach", "mutual_information")


@dataclass(frozen=True)
class Arm:
    """What the seeds of one column measured, and the episodes of the seed that is drawn."""

    label: str
    config: RunConfig
    summaries: Mapping[str, Summary]
    """Of the measures that say something of the column: a method without skills has none to tell apart."""
    curves: Mapping[str, Curve]
    versions: Mapping[str, Sequence[str]]
    """What its runs were trained with."""
    shown_seed: int
    measures: Mapping[str, float]
    """Of the seed that is drawn."""
    positions: Float[np.ndarray, "k r t 2"]


@dataclass(frozen=True)
class Comparison(Experiment):
    """Pre-trainings in a maze, compared by where skills go and how well they can be told apart."""

    seeds: Seeds = 10
    steps: Steps = None
    preset: Preset = None

    def grid(self, name: str, env: str, variants: Sequence[Variant]) -> Grid:
        """The grid of these columns; another preset or budget is another experiment, with results of its own."""
        benchmark = family_of(env).benchmark(env)
        usual = presets.default_preset(benchmark)
        preset = self.preset or usual
        budget = presets.get(None, benchmark, env, preset).steps
        words = [
            name,
            *([preset] if preset != usual else []),
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
        """The raw per-seed numbers, the table, the picture and the learning curves."""
        return write(grid, [measured(variant.label, results) for variant in grid.variants], folder, command)


def _setting(grid: Grid) -> dict[str, Any]:
    return {"env": grid.envs[0], "steps": grid.steps, "seeds": len(grid.seeds)}


def measured(label: str, results: Results) -> Arm:
    """What the seeds of a column measured at the end."""
    own = results.where(label=label)
    names = [name for name in MazeMeasures._fields if name in own.values("measure")]
    by_measure = {name: own.where(measure=name) for name in names}
    summaries = {name: summarise(rows.last()) for name, rows in by_measure.items()}
    shown = median_index(summaries.get("mutual_information", summaries["coverage"]).per_seed)
    run = Run(own.runs / own.specs[shown].folder)
    return Arm(
        label=label,
        config=run.config,
        summaries=summaries,
        curves={name: rows.curve() for name, rows in by_measure.items()},
        versions=versions_of(own.runs / spec.folder for spec in own.specs),
        shown_seed=run.config.seed,
        measures={name: summary.per_seed[shown] for name, summary in summaries.items()},
        positions=rollouts(run),
    )


def write(grid: Grid, arms: Sequence[Arm], folder: Path, command: str) -> list[Path]:
    """Everything about a comparison, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {
        "experiment": grid.name,
        "command": command,
        **_setting(grid),
        "drawn_with": versions(),
        "arms": [_raw(arm) for arm in arms],
    }
    (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (folder / "table.md").write_text(table(grid, arms))
    panels = [Panel(arm.label, arm.positions, f"{caption(arm.measures)} · seed {arm.shown_seed}") for arm in arms]
    layout = arms[0].config.layout
    if layout is None:
        raise UserError(f"{grid.envs[0]} is not a maze.")
    trajectory_figure(panels, layout, folder / "trajectories.png")
    curves = {name: {arm.label: arm.curves[name] for arm in arms if name in arm.curves} for name in CURVES}
    note = f"{_budget_line(grid, arms)}{', mean and 95 % interval' if len(grid.seeds) > 1 else ''}"
    curves_figure(curves, folder / "curves.png", note)
    return [folder / name for name in ("raw.json", "table.md", "trajectories.png", "curves.png")]


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
        "measures": {name: summary.to_json() for name, summary in arm.summaries.items()},
        "curves": {
            name: {"step": steps.tolist(), "per_seed": np.round(values, 4).tolist()}
            for name, (steps, values) in arm.curves.items()
        },
    }


def table(grid: Grid, arms: Sequence[Arm]) -> str:
    """A Markdown table: mean and 95 % bootstrap interval over the seeds; of one seed, what it measured."""
    shown = ": mean [95 % bootstrap interval]" if len(grid.seeds) > 1 else ", hence no intervals"
    lines = [
        f"{_budget_line(grid, arms)}{shown}",
        "",
        "| | " + " | ".join(measure.column for measure in MEASURES.values()) + " |",
        "|---" * (len(MEASURES) + 1) + "|",
    ]
    lines += [f"| {arm.label} | {' | '.join(_cell(arm.summaries.get(name)) for name in MEASURES)} |" for arm in arms]
    if note := few_seeds_note([len(grid.seeds)]):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    spread = "" if summary.interval is None else " [{:.2f}, {:.2f}]".format(*summary.interval)
    return f"{summary.mean:.2f}{spread}"


def _budget_line(grid: Grid, arms: Sequence[Arm]) -> str:
    """Where, with how many skills, for how long and how often."""
    counts = sorted({len(arm.positions) for arm in arms} - {1})
    skills = f"{' or '.join(f'{count}' for count in counts)} skills, " if counts else ""
    return f"{grid.envs[0]}, {skills}{grid.steps:,} steps, {counted(len(grid.seeds), 'seed')}"
