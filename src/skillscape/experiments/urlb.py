"""Experiments on URLB, from states and from images, one command each: pre-train, fine-tune on every task, one table."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skillscape.api import OnProgress, finetune, pretrain, train_from_scratch
from skillscape.envs.host import PIXEL_DOMAINS
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import UserError, choose
from skillscape.evaluation.aggregate import STATISTICS
from skillscape.evaluation.scoreboard import scoreboard
from skillscape.objectives import trainable
from skillscape.plots.aggregates import aggregate_figure
from skillscape.plots.mazes import Curve, curves_figure
from skillscape.presets import hosted_settings
from skillscape.training.jobs import JobRun
from skillscape.training.log import Pace, read_metrics
from skillscape.training.runs import versions, versions_of

SCRATCH, SEEN_SCRATCH = "ddpg", "dreamer"
"""The rows without pre-training: the learner alone, from states and from images."""
LEARNERS = (SCRATCH, SEEN_SCRATCH)
NOISY = ", noisy"
NOISE = 0.1
"""Deviation of the paper's robustness experiment."""


def methods_compared(methods: Sequence[str]) -> tuple["Variant", ...]:
    """Every method as it comes: a table of the paper."""
    return tuple(Variant(method, method) for method in methods)


def noise_compared(methods: Sequence[str]) -> tuple["Variant", ...]:
    """Every method pre-trained without and with observation noise: the robustness figure."""
    pairs = [(Variant(method, method), Variant(f"{method}{NOISY}", method, NOISE)) for method in methods]
    return tuple(variant for pair in pairs for variant in pair)


def skills_compared(methods: Sequence[str]) -> tuple["Variant", ...]:
    """Every method fine-tuned with a random skill, the regressed one, and the controller: the adaptation ablation."""
    rules = ("random", "regress", "controller")
    return tuple(
        Variant(f"{method}, {rule}", method, skill=None if rule == own_rule(method) else rule)
        for method in methods
        for rule in rules
    )


def own_rule(method: str) -> str | None:
    """Which skill of a method is fine-tuned if nothing is said; asked for by name it is the same run."""
    objective = hosted_settings(method, next(iter(DOMAINS)), "smoke").objective
    return None if objective is None else objective.adaptation


class Kind(NamedTuple):
    """A benchmark that can be asked for."""

    compare: Callable[[Sequence[str]], tuple["Variant", ...]]
    """What it compares of each method."""
    methods: tuple[str, ...]
    """Those of the paper."""
    domains: tuple[str, ...]
    """Likewise."""

    @property
    def shown(self) -> str:
        """What its agents observe."""
        return "images" if self.domains[0] in PIXEL_DOMAINS else "states"


UNRELATED_TO_SKILLS = ("icm", "disagreement", "rnd", "apt", "protorl")
SKILLED = ("smm", "diayn", "aps", "cic", "becl", "csd", "metra", "sd3")
BENCHMARKS = {
    "urlb": Kind(methods_compared, (SCRATCH, *UNRELATED_TO_SKILLS, *SKILLED), tuple(DOMAINS)),
    "pixels": Kind(methods_compared, (SEEN_SCRATCH, "apt", "cic", "becl", "csd", "metra", "sd3"), tuple(PIXEL_DOMAINS)),
    "robustness": Kind(noise_compared, ("cic", "sd3"), tuple(DOMAINS)),
    "ablation-adaptation": Kind(skills_compared, ("sd3",), tuple(DOMAINS)),
}


def tasks_in(domain: str) -> tuple[str, ...]:
    """The tasks of a domain, from states or from images."""
    return DOMAINS[PIXEL_DOMAINS.get(domain, domain)].tasks


@dataclass(frozen=True)
class Variant:
    """A column of the table: a method, how it is pre-trained and how it is fine-tuned."""

    label: str
    method: str
    noise: float = 0.0
    """Deviation of the observation noise in pre-training."""
    skill: str | None = None
    """Which skill is fine-tuned; the method's own rule if None."""
    settings: str = ""
    """Settings of the pre-training that are not the preset's, as they stand in the names of folders."""
    snapshot: int | None = None
    """Step of the pre-training that is fine-tuned; its last if None."""

    @property
    def source(self) -> str:
        """Names the pre-training: variants that differ in fine-tuning alone share it."""
        noise = f"-noise-{self.noise:g}" if self.noise else ""
        return f"{self.method}{f'-{self.settings}' if self.settings else ''}{noise}"


@dataclass(frozen=True)
class Benchmark:
    """What is compared, where, and for how long."""

    name: str
    variants: tuple[Variant, ...]
    domains: tuple[str, ...]
    seeds: int
    preset: str
    steps: int | None
    """Steps of pre-training; the preset's if None."""
    finetuning_steps: int | None
    """Steps of fine-tuning, and of training from scratch; the preset's if None."""
    command: str
    """The command line that makes these results, kept with them."""
    tasks: tuple[str, ...] = ()
    """Which of the domains' tasks; all if empty."""

    def tasks_of(self, domain: str) -> tuple[str, ...]:
        """What is fine-tuned in a domain."""
        return tuple(task for task in tasks_in(domain) if not self.tasks or task in self.tasks)

    def check(self) -> None:
        """Refuse what does not exist."""
        known = [*DOMAINS, *PIXEL_DOMAINS]
        for domain in self.domains:
            choose("domain", domain, known, "skillscape envs")
        if len({domain in PIXEL_DOMAINS for domain in self.domains}) > 1:
            raise UserError("States and images are not compared with each other; ask for the one or the other.")
        for task in self.tasks:
            choose("task", task, [task for domain in DOMAINS for task in tasks_in(domain)], "skillscape envs")
            if task not in [one for domain in self.domains for one in tasks_in(domain)]:
                raise UserError(f"{task} is not a task of {', '.join(self.domains)}; add its domain, or leave it out.")
        idle = [domain for domain in self.domains if not self.tasks_of(domain)]
        if idle:
            raise UserError(f"None of the tasks asked for is one of {idle[0]}; leave the domain out, or add its tasks.")
        own = SEEN_SCRATCH if self.domains[:1] and self.domains[0] in PIXEL_DOMAINS else SCRATCH
        for method in [variant.method for variant in self.variants]:
            choose("method", method, [own, *trainable()], "skillscape methods")
        if self.seeds < 1 or not self.variants or not self.domains:
            raise UserError("A benchmark needs at least one method, one domain and one seed.")
        hosted_settings(None, self.domains[0], self.preset)  # refuses a preset that there is not


class Part(NamedTuple):
    """One run of the benchmark: the pre-training where ``task`` is None, else a fine-tuning."""

    variant: Variant
    domain: str
    task: str | None
    seed: int

    @property
    def label(self) -> str:
        """In words."""
        name = self.variant.label if self.task else self.variant.source
        return f"{name} · {self.task or f'{self.domain} without reward'} · seed {self.seed}"

    def folder(self, runs: Path) -> Path:
        """Where the run lives."""
        if self.task is None:
            return runs / f"{self.variant.source}-{self.domain}" / f"seed_{self.seed}"
        rule = f"-{self.variant.skill}" if self.variant.skill else ""
        step = f"-from-{self.variant.snapshot}" if self.variant.snapshot else ""
        return runs / f"{self.variant.source}-{self.task}{rule}{step}" / f"seed_{self.seed}"


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
            begun = set()
            for variant in benchmark.variants:
                if variant.method not in LEARNERS and variant.source not in begun:
                    begun.add(variant.source)
                    yield Part(variant, domain, None, seed)
                for task in benchmark.tasks_of(domain):
                    yield Part(variant, domain, task, seed)


def run_benchmark(
    benchmark: Benchmark, runs: Path, on_progress: OnProgress, on_part: Callable[[str], None]
) -> list[Score]:
    """Train what is not trained yet and read every score. Interrupted, it goes on where it stopped."""
    benchmark.check()
    every = list(parts(benchmark))
    budgets = {part: _budget(benchmark, part.task) for part in every}
    left = sum(budgets[part] for part in every if not (part.folder(runs) / "results.json").exists())
    pace = Pace(0, left)
    done = 0
    scores = []
    for number, part in enumerate(every, 1):
        missing = not (part.folder(runs) / "results.json").exists()
        if missing:
            on_part(f"run {number} of {len(every)}: {part.label} · {pace.describe(done)} in all")
        run = _train(benchmark, part, runs, on_progress)
        done += budgets[part] * missing
        if part.task is not None:
            scores.append(_score(part.variant.label, part.task, run))
    return scores


def _budget(benchmark: Benchmark, task: str | None) -> int:
    """Steps of a fine-tuning, or of a pre-training where there is no task."""
    chosen = hosted_settings(None, benchmark.domains[0], benchmark.preset)
    if task is None:
        return benchmark.steps or chosen.steps
    return benchmark.finetuning_steps or chosen.finetuning_steps


def budget_of(benchmark: Benchmark) -> tuple[int, int]:
    """Steps of pre-training and of fine-tuning."""
    return _budget(benchmark, None), _budget(benchmark, "task")


def shared_folder(preset: str, budget: tuple[int, int], family: str = "urlb") -> str:
    """The sub-folder of --runs for a preset and a budget: experiments and sweeps share what they pre-train there."""
    return "-".join([family, preset, *(f"{steps}" for steps in budget)])


def _train(benchmark: Benchmark, part: Part, runs: Path, on_progress: OnProgress) -> JobRun:
    common: dict[str, Any] = {
        "out": part.folder(runs),
        "steps": _budget(benchmark, part.task),
        "seed": part.seed,
        "resume": True,
        "on_progress": on_progress,
    }
    method = part.variant.method
    if part.task is None:
        made: JobRun = pretrain(method, part.domain, preset=benchmark.preset, noise=part.variant.noise, **common)[0]
        return made
    if method in LEARNERS:
        return train_from_scratch(part.domain, part.task, preset=benchmark.preset, **common)
    return finetune(part._replace(task=None).folder(runs), part.task, skill=part.variant.skill, **common)[0]


def _score(label: str, task: str, run: JobRun) -> Score:
    log = read_metrics(run.folder / "evaluation.csv")
    steps = [int(step) for step in log["step"]]
    return Score(label, task, run.config.seed, log["return"][-1], steps, log["return"])


def write_benchmark(benchmark: Benchmark, scores: Sequence[Score], runs: Path, folder: Path) -> list[Path]:
    """The raw per-seed numbers, the table and the learning curves; ``runs`` says what they were trained with."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = {
        "experiment": benchmark.name,
        "command": benchmark.command,
        "preset": benchmark.preset,
        "pretraining_steps": _budget(benchmark, None),
        "finetuning_steps": _budget(benchmark, "task"),
        "seeds": benchmark.seeds,
        "versions": versions_of(part.folder(runs) for part in parts(benchmark)),
        "drawn_with": versions(),
        "scores": [score._asdict() for score in scores],
    }
    (folder / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (folder / "table.md").write_text(score_table(benchmark, scores))
    curves_figure(_curves(scores), folder / "curves.png", budget_note(benchmark))
    aggregates = scoreboard((score.method, score.task, score.seed, score.score) for score in scores).aggregates
    aggregate_figure(aggregates, folder / "aggregates.png", budget_note(benchmark))
    return [folder / name for name in ("raw.json", "table.md", "curves.png", "aggregates.png")]


def budget_note(benchmark: Benchmark) -> str:
    """The line that says how much was spent on these numbers."""
    pretraining = _budget(benchmark, None)
    finetuning = _budget(benchmark, "task")
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
    spread = ", mean ± standard error" if len({score.seed for score in scores}) > 1 else ""
    lines = [
        f"Return of the last evaluation{spread}. {budget_note(benchmark)}.",
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
    lines += ["", *_aggregates(scores)]
    if benchmark.name.startswith("robustness"):
        lines += ["", *_ratios(tasks, methods, scores)]
    return "\n".join(lines) + "\n"


def _aggregates(scores: Sequence[Score]) -> list[str]:
    """A Markdown table of each method's scores as shares of the expert's, over all tasks and seeds."""
    board = scoreboard((score.method, score.task, score.seed, score.score) for score in scores)
    names = tuple(STATISTICS)
    several = len({score.seed for score in scores}) > 1
    intervals = "with 95 % stratified-bootstrap intervals" if several else "one seed, hence without intervals"
    lines = [
        f"Shares of the expert's score over {len(board.tasks)} task{'s' * (len(board.tasks) > 1)}, {intervals}.",
        "",
        f"| | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for method in board.methods:
        found = [board.aggregates[method, name] for name in names]
        cells = [
            f"{one.value:.3f}" + ("" if one.interval is None else " [{:.3f}, {:.3f}]".format(*one.interval))
            for one in found
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def _ratios(tasks: Sequence[str], labels: Sequence[str], scores: Sequence[Score]) -> list[str]:
    """What is left of each score after noisy pre-training, for every method that ran with and without noise."""
    means = {
        (task, label): float(np.mean([score.score for score in scores if (score.task, score.method) == (task, label)]))
        for task in tasks
        for label in labels
    }
    plain = [label for label in labels if f"{label}{NOISY}" in labels]
    lines = [f"| noisy / normal | {' | '.join(plain)} |", "|---" * (len(plain) + 1) + "|"]
    shares = {(task, label): means[task, f"{label}{NOISY}"] / means[task, label] for task in tasks for label in plain}
    lines += [f"| {task} | {' | '.join(f'{shares[task, label]:.0%}' for label in plain)} |" for task in tasks]
    average = [f"{np.mean([shares[task, label] for task in tasks]):.0%}" for label in plain]
    board = scoreboard((score.method, score.task, score.seed, score.score) for score in scores)
    whole = [
        f"{board.aggregates[f'{label}{NOISY}', 'mean'].value / board.aggregates[label, 'mean'].value:.0%}"
        for label in plain
    ]
    return [
        *lines,
        f"| mean of these | {' | '.join(average)} |",
        f"| of the mean share of the expert's score | {' | '.join(whole)} |",
    ]
