"""Comparisons on tasks: pre-train, fine-tune on every task, tables of returns and of expert-normalised scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from typing_extensions import Doc

from skillscape import presets
from skillscape.envs.registry import family_of
from skillscape.errors import UserError, choose
from skillscape.evaluation.aggregate import STATISTICS
from skillscape.evaluation.costs import NOTE as COST_NOTE
from skillscape.evaluation.costs import PARAMETERS, SECONDS, Cost, cost_of, known_columns
from skillscape.evaluation.scoreboard import Scoreboard, scoreboard
from skillscape.experiments.base import Experiment, Preset, Seeds, Steps
from skillscape.experiments.grid import Grid, Variant, variant
from skillscape.experiments.results import Results
from skillscape.formatting import counted
from skillscape.plots.aggregates import aggregate_figure
from skillscape.plots.curves import curves_figure
from skillscape.training.versions import versions, versions_of

STATES = ("walker", "quadruped", "jaco")
IMAGES = ("walker-pixels", "quadruped-pixels")


class Score(NamedTuple):
    """A long-form row: the return of the last evaluation, and the steps and returns of all evaluations."""

    method: str
    """Label of the column."""
    task: str
    seed: int
    score: float
    steps: list[int]
    returns: list[float]


@dataclass(frozen=True)
class Benchmark(Experiment):
    """Methods compared on the tasks of the Unsupervised RL Benchmark."""

    paper_methods: ClassVar[tuple[str, ...]]
    paper_domains: ClassVar[tuple[str, ...]] = STATES
    methods: Annotated[
        tuple[str, ...],
        Doc(
            "Methods to compare; the experiment's own if not given. A backbone, such as ddpg, is training from scratch."
        ),
    ] = ()
    domains: Annotated[
        tuple[str, ...],
        Doc("Domains, each with all its tasks; the experiment's own, or those of --tasks, if not given."),
    ] = ()
    tasks: Annotated[tuple[str, ...], Doc("Tasks to fine-tune on; all of the domains' if not given.")] = ()
    seeds: Seeds = 10
    preset: Preset = None
    steps: Steps = None
    finetuning_steps: Annotated[
        int | None, Doc("Environment steps of fine-tuning, and of training from scratch; the preset's if not given.")
    ] = None

    def columns(self, method: str) -> list[Variant]:
        """The variants of a method that are compared; by default the method as it comes."""
        return [variant(method)]

    def more(self, board: Scoreboard) -> list[str]:
        """Further lines at the end of table.md."""
        del board
        return []

    def grids(self) -> list[Grid]:
        """One grid; a part of the experiment, or another preset, has its own name."""
        domains = self._domains()
        benchmarks = {family_of(domain).benchmark(domain) for domain in domains}
        if len(benchmarks) > 1:
            raise UserError(
                f"State and image domains cannot be compared; got {', '.join(domains)}: give one kind only."
            )
        default = presets.default_preset(benchmarks.pop())
        preset = self.preset or default
        budget = presets.get(None, family_of(domains[0]).benchmark(domains[0]), domains[0], preset)
        places = self.tasks or (() if domains == self.paper_domains else domains)
        grid = Grid(
            "-".join([self.name, *places, *([] if preset == default else [preset])]),
            tuple(column for method in self.methods or self.paper_methods for column in self.columns(method)),
            domains,
            self.tasks or None,
            tuple(range(self.seeds)),
            preset,
            self.steps or budget.steps,
            self.finetuning_steps or budget.finetuning_steps,
        )
        for domain in domains if grid.specs else ():  # ``specs`` refuses tasks that no domain has
            if not grid.tasks_of(domain):
                raise UserError(
                    f"None of --tasks belongs to the domain {domain}: leave it out, or add one of its tasks."
                )
        return [grid]

    def _domains(self) -> tuple[str, ...]:
        for domain in self.domains:
            choose("domain", domain, [*STATES, *IMAGES], "skillscape envs")
        tasks = set(self.tasks)
        with_tasks = tuple(domain for domain in self.paper_domains if tasks & set(family_of(domain).tasks(domain)))
        return self.domains or with_tasks or self.paper_domains

    def identity(self, grid: Grid) -> dict[str, Any]:
        """Preset, budgets, seeds, columns and tasks."""
        return {
            "preset": grid.preset,
            "pretraining_steps": grid.steps,
            "finetuning_steps": grid.finetuning_steps,
            "seeds": len(grid.seeds),
            "methods": sorted(variant.label for variant in grid.variants),
            "tasks": sorted(task for env in grid.envs for task in grid.tasks_of(env)),
        }

    def analyse(self, grid: Grid, results: Results, folder: Path, command: str) -> list[Path]:
        """The raw per-seed numbers, the table, the learning curves and the aggregates."""
        scores = scores_of(results)
        settings = {name: value for name, value in self.identity(grid).items() if name not in ("methods", "tasks")}
        board = scoreboard((score.method, score.task, score.seed, score.score) for score in scores)
        folder.mkdir(parents=True, exist_ok=True)
        raw = {
            "experiment": grid.name,
            "command": command,
            **settings,
            "versions": versions_of(results.runs / spec.folder for spec in results.specs),
            "drawn_with": versions(),
            "scores": [score._asdict() for score in scores],
        }
        costs = {label: _costs(results, label) for label in board.methods}
        if known := {label: stages for label, stages in costs.items() if any(map(Cost.to_json, stages.values()))}:
            raw["costs"] = {
                label: {stage: cost.to_json() for stage, cost in stages.items()} for label, stages in known.items()
            }
        (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
        (folder / "table.md").write_text("\n".join([*table(grid, board), *cost_table(costs), *self.more(board)]) + "\n")
        curves = {
            task: {label: results.where(label, task).curve("return") for label in board.methods} for task in board.tasks
        }
        curves_figure(curves, folder / "curves.png", budget_note(grid))
        aggregate_figure(board.aggregates, folder / "aggregates.png", budget_note(grid))
        return [folder / name for name in ("raw.json", "table.md", "curves.png", "aggregates.png")]


def scores_of(results: Results) -> list[Score]:
    """The returns of all runs with a task, in the order of the runs."""
    scores = []
    for spec, log in zip(results.specs, results.logs, strict=True):
        if spec.config.task is not None:
            steps, returns = [int(step) for step in log["step"]], log["return"]
            scores.append(Score(spec.label, spec.config.task, spec.config.seed, returns[-1], steps, returns))
    return scores


def budget_note(grid: Grid) -> str:
    """Preset, steps and seeds on one line."""
    return (
        f"preset {grid.preset}: {grid.steps:,} steps without reward, then {grid.finetuning_steps:,} with; "
        f"{counted(len(grid.seeds), 'seed')}"
    )


def table(grid: Grid, board: Scoreboard) -> list[str]:
    """Markdown tables: returns, mean ± standard error over the seeds, tasks down, methods across; then aggregates."""
    several = len(grid.seeds) > 1
    spread = ", mean ± standard error" if several else ""
    lines = [f"Return of the last evaluation{spread}. {budget_note(grid)}.", "", *head("", board.methods)]
    for task in board.tasks:
        cells = [board.cells[method, task] for method in board.methods]
        texts = [f"{cell.mean:.0f}" + ("" if cell.error is None else f" ± {cell.error:.0f}") for cell in cells]
        lines.append(f"| {task} | {' | '.join(texts)} |")
    intervals = "with 95 % stratified-bootstrap intervals" if several else "one seed, hence without intervals"
    lines += ["", f"Shares of the expert's score over {counted(len(board.tasks), 'task')}, {intervals}.", ""]
    lines += head("", tuple(STATISTICS))
    for method in board.methods:
        estimates = [board.aggregates[method, name] for name in STATISTICS]
        ends = ["" if each.interval is None else " [{:.3f}, {:.3f}]".format(*each.interval) for each in estimates]
        texts = [f"{estimate.value:.3f}{interval}" for estimate, interval in zip(estimates, ends, strict=True)]
        lines.append(f"| {method} | {' | '.join(texts)} |")
    return lines


def _costs(results: Results, label: str) -> dict[str, Cost]:
    """The costs of a column: of its pre-trainings, and of its runs on tasks."""
    own = [spec for spec in results.specs if spec.label == label]
    return {
        "pre-training": cost_of(results.runs / spec.folder for spec in own if spec.config.task is None),
        "task": cost_of(results.runs / spec.folder for spec in own if spec.config.task is not None),
    }


def cost_table(costs: Mapping[str, Mapping[str, Cost]]) -> list[str]:
    """Lines of a Markdown table of what each column costs; none if no run recorded it."""
    wanted = [(PARAMETERS, "pre-training"), (SECONDS, "pre-training"), (SECONDS, "task")]
    known = [(name, stage) for name, stage in wanted if known_columns((each[stage] for each in costs.values()), [name])]
    if not known:
        return []
    heads = [name if name == PARAMETERS else f"{name}, {stage}" for name, stage in known]
    lines = ["", COST_NOTE, "", *head("", heads)]
    for label, stages in costs.items():
        cells = [stages[stage].cells().get(name, "–") for name, stage in known]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def head(corner: str, columns: Sequence[str]) -> list[str]:
    """The first two lines of a Markdown table."""
    return [f"| {corner}{' ' * bool(corner)}| {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
