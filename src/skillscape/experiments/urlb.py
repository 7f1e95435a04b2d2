"""State-based URLB as one command: pre-train every method in every domain, fine-tune it on every task, one table."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skillscape.api import OnProgress, finetune, pretrain, train_from_scratch
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import UserError, choose
from skillscape.objectives import registry
from skillscape.plots.mazes import Curve, curves_figure
from skillscape.presets import HOSTED_PRESETS, hosted_settings
from skillscape.training.jobs import JobRun
from skillscape.training.log import read_metrics
from skillscape.training.runs import versions

SCRATCH = "ddpg"
"""The row without pre-training."""


@dataclass(frozen=True)
class Benchmark:
    """What is compared, where, and for how long."""

    name: str
    methods: tuple[str, ...]
    domains: tuple[str, ...]
    seeds: int
    preset: str
    steps: int | None
    """Steps of pre-training; the preset's if None."""
    finetuning_steps: int | None
    """Steps of fine-tuning, and of training from scratch; the preset's if None."""
    command: str
    """The command line that makes these results, kept with them."""

    def check(self) -> None:
        """Refuse what does not exist."""
        choose("preset", self.preset, HOSTED_PRESETS, "skillscape reproduce urlb --help")
        for method in self.methods:
            choose(
                "method", method, [SCRATCH, *(name for name in registry() if name != "extrinsic")], "skillscape methods"
            )
        for domain in self.domains:
            choose("domain", domain, DOMAINS, "skillscape envs")
        if self.seeds < 1 or not self.methods or not self.domains:
            raise UserError("A benchmark needs at least one method, one domain and one seed.")


class Part(NamedTuple):
    """One run of the benchmark: the pre-training where ``task`` is None, else a fine-tuning."""

    method: str
    domain: str
    task: str | None
    seed: int

    @property
    def label(self) -> str:
        """In words."""
        return f"{self.method} · {self.task or f'{self.domain} without reward'} · seed {self.seed}"

    def folder(self, runs: Path) -> Path:
        """Where the run lives."""
        return runs / f"{self.method}-{self.task or self.domain}" / f"seed_{self.seed}"


class Score(NamedTuple):
    """A row of the long table: the return of the last evaluation, and all of them with their steps."""

    method: str
    task: str
    seed: int
    score: float
    steps: list[int]
    returns: list[float]


def parts(benchmark: Benchmark) -> Iterator[Part]:
    """All runs in an order in which a fine-tuning comes after what it needs, seed by seed."""
    for seed in range(benchmark.seeds):
        for domain in benchmark.domains:
            for method in benchmark.methods:
                if method != SCRATCH:
                    yield Part(method, domain, None, seed)
                for task in DOMAINS[domain].tasks:
                    yield Part(method, domain, task, seed)


def run_benchmark(
    benchmark: Benchmark, runs: Path, on_progress: OnProgress, on_part: Callable[[str], None]
) -> list[Score]:
    """Train what is not trained yet and read every score. Interrupted, it goes on where it stopped."""
    benchmark.check()
    every = list(parts(benchmark))
    budgets = {part: _budget(benchmark, part) for part in every}
    left = sum(budgets[part] for part in every if not (part.folder(runs) / "results.json").exists())
    scores = []
    for number, part in enumerate(every, 1):
        if not (part.folder(runs) / "results.json").exists():
            on_part(f"run {number} of {len(every)}: {part.label} ({left:,} environment steps left in all)")
            left -= budgets[part]
        run = _train(benchmark, part, runs, on_progress)
        if part.task is not None:
            scores.append(_score(part.method, part.task, run))
    return scores


def _budget(benchmark: Benchmark, part: Part) -> int:
    chosen = hosted_settings(None, part.domain, benchmark.preset)
    wanted = benchmark.steps if part.task is None else benchmark.finetuning_steps
    return wanted or (chosen.steps if part.task is None else chosen.finetuning_steps)


def _train(benchmark: Benchmark, part: Part, runs: Path, on_progress: OnProgress) -> JobRun:
    common: dict[str, Any] = {
        "out": part.folder(runs),
        "steps": _budget(benchmark, part),
        "seed": part.seed,
        "resume": True,
        "on_progress": on_progress,
    }
    if part.task is None:
        made: JobRun = pretrain(part.method, part.domain, preset=benchmark.preset, **common)[0]
        return made
    if part.method == SCRATCH:
        return train_from_scratch(part.domain, part.task, preset=benchmark.preset, **common)
    return finetune(part._replace(task=None).folder(runs), part.task, **common)[0]


def _score(method: str, task: str, run: JobRun) -> Score:
    log = read_metrics(run.folder / "evaluation.csv")
    steps = [int(step) for step in log["step"]]
    return Score(method, task, run.config.seed, log["return"][-1], steps, log["return"])


def write_benchmark(benchmark: Benchmark, scores: Sequence[Score], folder: Path) -> list[Path]:
    """The raw per-seed numbers, the table and the learning curves."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {
        "experiment": benchmark.name,
        "command": benchmark.command,
        "preset": benchmark.preset,
        "pretraining_steps": _budget(benchmark, Part("", benchmark.domains[0], None, 0)),
        "finetuning_steps": _budget(benchmark, Part("", benchmark.domains[0], "task", 0)),
        "seeds": benchmark.seeds,
        "versions": versions(),
        "scores": [score._asdict() for score in scores],
    }
    (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (folder / "table.md").write_text(score_table(benchmark, scores))
    curves_figure(_curves(scores), folder / "curves.png", budget_note(benchmark))
    return [folder / name for name in ("raw.json", "table.md", "curves.png")]


def budget_note(benchmark: Benchmark) -> str:
    """The line that says how much was spent on these numbers."""
    pretraining = _budget(benchmark, Part("", benchmark.domains[0], None, 0))
    finetuning = _budget(benchmark, Part("", benchmark.domains[0], "task", 0))
    return (
        f"preset {benchmark.preset}: {pretraining:,} steps without reward, then {finetuning:,} with; "
        f"{benchmark.seeds} seed{'s' if benchmark.seeds > 1 else ''}"
    )


def _curves(scores: Sequence[Score]) -> Mapping[str, Mapping[str, Curve]]:
    tasks = list(dict.fromkeys(score.task for score in scores))
    methods = list(dict.fromkeys(score.method for score in scores))
    return {
        task: {
            method: (np.array(rows[0].steps), np.array([row.returns for row in rows]))
            for method in methods
            if (rows := [score for score in scores if (score.task, score.method) == (task, method)])
        }
        for task in tasks
    }


def score_table(benchmark: Benchmark, scores: Sequence[Score]) -> str:
    """A Markdown table of returns: mean ± standard error over the seeds, tasks down, methods across."""
    tasks = list(dict.fromkeys(score.task for score in scores))
    methods = list(dict.fromkeys(score.method for score in scores))
    lines = [
        f"Return of the last evaluation, mean ± standard error. {budget_note(benchmark)}.",
        "",
        f"| | {' | '.join(methods)} |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for task in tasks:
        cells = []
        for method in methods:
            values = np.array([score.score for score in scores if (score.task, score.method) == (task, method)])
            error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.0f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.0f}{error}")
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
