"""A comparison in a maze: several settings, the same seeds and budget, one table, one picture, the raw numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skillscape.api import layout_of, pretrain, rollouts
from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.ppo import PPO
from skillscape.envs.layouts import Layout
from skillscape.evaluation.mazes import MazeMeasures, measure
from skillscape.evaluation.summary import Summary, few_seeds_note, summarise_measured
from skillscape.experiments.pictures import caption
from skillscape.objectives.base import Objective
from skillscape.plots.mazes import Curve, Panel, curves_figure, trajectory_figure
from skillscape.training.jobs import JobRun
from skillscape.training.log import common_curve, read_metrics
from skillscape.training.loop import OnProgress
from skillscape.training.runs import Run, versions, versions_of


@dataclass(frozen=True)
class Arm:
    """One row of the table and one panel of the picture."""

    label: str
    folder: str
    method: str
    objective: Objective[Any]
    backbone: PPO | ReplayedBackbone[Any, Any]


@dataclass(frozen=True)
class Comparison:
    """What is compared, in which maze, seen or not, and for how long."""

    name: str
    env: str
    arms: tuple[Arm, ...]
    steps: int
    seeds: int
    preset: str
    command: str
    """The command line that makes these results, kept with them."""


@dataclass(frozen=True)
class ArmResult:
    """What one arm's seeds measured, and the episodes of the seed that is drawn."""

    arm: Arm
    layout: Layout
    summaries: Mapping[str, Summary]
    """Of the measures that say something of the arm: a method without skills has none to tell apart."""
    shown_seed: int
    positions: np.ndarray
    measures: MazeMeasures
    curves: Mapping[str, Curve]
    versions: Mapping[str, Sequence[str]]
    """What its runs were trained with."""


def compare(
    comparison: Comparison, runs_folder: Path, on_progress: OnProgress, on_arm: Callable[[str], None]
) -> list[ArmResult]:
    """Train what is not trained yet and measure every arm. Interrupted, it goes on where it stopped."""
    results = []
    for arm in comparison.arms:
        on_arm(arm.label)
        runs = pretrain(
            arm.method,
            comparison.env,
            out=runs_folder / arm.folder,
            preset=comparison.preset,
            steps=comparison.steps,
            seeds=comparison.seeds,
            objective=arm.objective,
            backbone=arm.backbone,
            resume=True,
            on_progress=on_progress,
        )
        results.append(_measured(arm, runs))
    return results


def _measured(arm: Arm, runs: Sequence[Run] | Sequence[JobRun]) -> ArmResult:
    layout = layout_of(runs[0])
    positions = [rollouts(run) for run in runs]
    measures = [measure(one, layout) for one in positions]
    every = {name: summarise_measured([getattr(one, name) for one in measures]) for name in MazeMeasures._fields}
    summaries = {name: summary for name, summary in every.items() if summary is not None}
    # The seed drawn is the one in the middle, not the prettiest.
    order = summaries.get("distinguishability", summaries["coverage"]).per_seed
    shown = int(np.argsort(order)[(len(runs) - 1) // 2])
    logs = [read_metrics(run.folder / "evaluation.csv") for run in runs]
    curves = {name: common_curve(logs, name) for name in summaries}
    return ArmResult(
        arm=arm,
        layout=layout,
        summaries=summaries,
        shown_seed=runs[shown].config.seed,
        positions=positions[shown],
        measures=measures[shown],
        curves=curves,
        versions=versions_of(run.folder for run in runs),
    )


def write(comparison: Comparison, results: Sequence[ArmResult], folder: Path) -> list[Path]:
    """The raw per-seed numbers, the table, the picture and the learning curves."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {
        "experiment": comparison.name,
        "command": comparison.command,
        "env": comparison.env,
        "steps": comparison.steps,
        "seeds": comparison.seeds,
        "drawn_with": versions(),
        "arms": [
            {
                "label": result.arm.label,
                "method": result.arm.method,
                "objective": _plain(result.arm.objective),
                "backbone": _plain(result.arm.backbone),
                "versions": dict(result.versions),
                "measures": {name: summary.to_json() for name, summary in result.summaries.items()},
                "curves": {
                    name: {"step": steps.tolist(), "per_seed": np.round(values, 4).tolist()}
                    for name, (steps, values) in result.curves.items()
                },
            }
            for result in results
        ],
    }
    (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (folder / "table.md").write_text(table(comparison, results))
    panels = [
        Panel(result.arm.label, result.positions, f"{_caption(result)} · seed {result.shown_seed}")
        for result in results
    ]
    trajectory_figure(panels, results[0].layout, folder / "trajectories.png")
    curves = {
        name: {result.arm.label: result.curves[name] for result in results if name in result.curves}
        for name in ("coverage", "reach", "distinguishability")
    }
    note = f"{_budget_line(comparison, results)}{', mean and 95 % interval' if comparison.seeds > 1 else ''}"
    curves_figure(curves, folder / "curves.png", note)
    return [folder / name for name in ("raw.json", "table.md", "trajectories.png", "curves.png")]


def table(comparison: Comparison, results: Sequence[ArmResult]) -> str:
    """A Markdown table: mean and 95 % bootstrap interval over the seeds; of one seed, what it measured."""
    several = comparison.seeds > 1
    shown = ": mean [95 % bootstrap interval]" if several else ", hence no intervals"
    heads = {
        "reach": "reach",
        "coverage": "coverage",
        "distinguishability": "I(S;Z), nats",
        "skill_accuracy": "accuracy",
    }
    lines = [
        f"{_budget_line(comparison, results)}{shown}",
        "",
        "| | " + " | ".join(heads.values()) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for result in results:
        cells = []
        for name in heads:
            summary = result.summaries.get(name)
            spread = (
                "" if summary is None or summary.interval is None else " [{:.2f}, {:.2f}]".format(*summary.interval)
            )
            cells.append("–" if summary is None else f"{summary.mean:.2f}{spread}")
        lines.append(f"| {result.arm.label} | " + " | ".join(cells) + " |")
    if note := few_seeds_note([comparison.seeds]):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _budget_line(comparison: Comparison, results: Sequence[ArmResult]) -> str:
    """Where, with how many skills, for how long and how often."""
    counts = sorted({len(result.positions) for result in results} - {1})
    skills = f"{' or '.join(f'{count}' for count in counts)} skills, " if counts else ""
    seeds = f"{comparison.seeds} seed{'s' if comparison.seeds > 1 else ''}"
    return f"{comparison.env}, {skills}{comparison.steps:,} steps, {seeds}"


def _caption(result: ArmResult) -> str:
    return caption(result.measures, skills=len(result.positions))


def _plain(part: Any) -> dict[str, Any]:  # noqa: ANN401  any dataclass
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(part).items()}
