"""The Python interface, for all environments: pre-train, fine-tune, train, load and evaluate runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from jaxtyping import Float
from numpy import ndarray

from skillscape import configure
from skillscape.config import RunConfig
from skillscape.configure import Method
from skillscape.envs.gymnasium_modules import trust
from skillscape.errors import UserError
from skillscape.evaluation import evaluators
from skillscape.evaluation.evaluators import Evaluation
from skillscape.evaluation.goals import GoalReaching, reach_goals
from skillscape.evaluation.summary import Summary, summarise_measures
from skillscape.launch import launch
from skillscape.options import (
    FinetuneOptions,
    GoalOptions,
    LaunchOptions,
    PretrainOptions,
    PretrainSettings,
    TrainOptions,
    TrainSettings,
)
from skillscape.training.callbacks import TensorBoard
from skillscape.training.progress import Progress
from skillscape.training.run import Run, run_folders
from skillscape.training.several import each_possible
from skillscape.zoo import locate

Source = str | Path | Run
"""A run, its folder, or zoo/NAME."""


@overload
def pretrain(
    method: Method, env: str = ..., *, out: str | Path, seeds: None = None, **options: Unpack[PretrainOptions]
) -> Run: ...
@overload
def pretrain(
    method: Method, env: str = ..., *, out: str | Path, seeds: int, **options: Unpack[PretrainOptions]
) -> list[Run]: ...
def pretrain(
    method: Method,
    env: str = "maze/square_a",
    *,
    out: str | Path,
    seeds: int | None = None,
    **options: Unpack[PretrainOptions],
) -> Run | list[Run]:
    """Pre-train a method without task reward, in the folder ``out``.

    ``method``: a name of `skillscape methods`, or an ``Objective``; ``env``: an ID of `skillscape envs`; ``seeds``:
    number of runs, in ``out``/seed_0, seed_1, … if several, returned as a list. ``options``: see ``PretrainSettings``,
    ``TrainSettings`` and ``LaunchOptions``; the rest are fields of ``RunConfig``.
    """
    trust(env)
    overrides, launching = _split(options)
    existing = configure.existing_config(Path(out), env) if launching.get("resume") else None
    config = configure.pretraining(method, env, existing=existing, **overrides)
    runs = _launched(configure.of_seeds(config, seeds), out, launching)
    return runs[0] if seeds is None else runs


@overload
def train(
    env: str, task: str | None = ..., *, out: str | Path, seeds: None = None, **options: Unpack[TrainOptions]
) -> Run: ...
@overload
def train(
    env: str, task: str | None = ..., *, out: str | Path, seeds: int, **options: Unpack[TrainOptions]
) -> list[Run]: ...
def train(
    env: str, task: str | None = None, *, out: str | Path, seeds: int | None = None, **options: Unpack[TrainOptions]
) -> Run | list[Run]:
    """Train on a task from scratch, the baseline of fine-tuning. ``task``: None for the environment's default."""
    trust(env)
    overrides, launching = _split(options)
    existing = configure.existing_config(Path(out), env) if launching.get("resume") else None
    config = configure.from_scratch(env, task, existing=existing, **overrides)
    runs = _launched(configure.of_seeds(config, seeds), out, launching)
    return runs[0] if seeds is None else runs


@overload
def finetune(source: Source, task: str | None = ..., *, out: str | Path, **options: Unpack[FinetuneOptions]) -> Run: ...
@overload
def finetune(
    source: Sequence[Run], task: str | None = ..., *, out: str | Path, **options: Unpack[FinetuneOptions]
) -> list[Run]: ...
def finetune(
    source: Source | Sequence[Run], task: str | None = None, *, out: str | Path, **options: Unpack[FinetuneOptions]
) -> Run | list[Run]:
    """Fine-tune a pre-trained run on a task; a list of runs is fine-tuned in ``out``/seed_N."""
    single = isinstance(source, (str, Path, Run))
    sources = [load(source)] if isinstance(source, (str, Path, Run)) else list(source)
    trust(task or "")
    overrides, launching = _split(options)
    overrides["skill"] = None if overrides.get("skill") is None else str(overrides["skill"])
    configs = []
    for run in sources:
        folder = Path(out) / f"seed_{run.config.seed}" if len(sources) > 1 else Path(out)
        existing = configure.existing_config(folder) if launching.get("resume") else None
        configs.append(configure.finetuning_of(run, task, existing=existing, **overrides))
    runs = _launched(configs, out, launching, sources)
    return runs[0] if single else runs


def pretraining_config(method: Method, env: str = "maze/square_a", **settings: Unpack[PretrainSettings]) -> RunConfig:
    """The configuration that ``pretrain`` would train with these settings; ``make_train`` takes it."""
    trust(env)
    return configure.pretraining(method, env, **settings)


def training_config(env: str, task: str | None = None, **settings: Unpack[TrainSettings]) -> RunConfig:
    """The configuration that ``train`` would train with these settings; ``make_train`` takes it."""
    trust(env)
    return configure.from_scratch(env, task, **settings)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the run, and options of its launch."""
    launching = {name: value for name, value in options.items() if name in LaunchOptions.__annotations__}
    return {name: value for name, value in options.items() if name not in launching}, launching


def _launched(
    configs: Sequence[RunConfig], out: str | Path, options: dict[str, Any], sources: Sequence[Run] | None = None
) -> list[Run]:
    callbacks = list(options.pop("callbacks", [TensorBoard()]))
    if options.pop("progress", True):
        progress = Progress(Path(out), len(configs))
        options["on_start"] = progress.announce
        callbacks.append(progress)
    return launch(configs, Path(out), sources=sources, callbacks=callbacks, **options)


def load(source: Source) -> Run:
    """The run in a folder; "zoo/NAME" is one that comes with the package."""
    if isinstance(source, Run):
        return source
    folders = run_folders(Path(source))
    if folders != [locate(source)]:
        raise UserError(f"{source} holds {len(folders)} seeds; load one of them, or all with load_seeds.")
    return Run(folders[0])


def load_seeds(folder: str | Path) -> list[Run]:
    """The run in a folder, or the runs of its seeds; a seed that cannot be read is skipped with a warning."""
    return each_possible(run_folders(Path(folder)), Run)


def evaluate(
    source: Source,
    *,
    task: str | None = None,
    episodes: int | None = None,
    coverage_episodes: int | None = None,
    infer: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Measure the newest policy of a run; see ``evaluation.evaluators.evaluate``."""
    trust(task or "")
    return evaluators.evaluate(
        load(source), task=task, episodes=episodes, coverage_episodes=coverage_episodes, infer=infer, seed=seed
    )


def goals(source: Source, **options: Unpack[GoalOptions]) -> GoalReaching:
    """Zero-shot goal reaching of a pre-training; see ``evaluation.goals.reach_goals``."""
    return reach_goals(load(source), **options)


def rollouts(source: Source, *, per_skill: int | None = None, seed: int = 0) -> Float[ndarray, "k r t 2"]:
    """Positions of stochastic episodes of every skill in a maze, from its fixed start."""
    run = load(source)
    params = run.trained_policy().params
    return evaluators.maze_rollouts(run.config, run.spec, params, per_skill=per_skill, seed=seed)


def summarise_runs(runs: Sequence[Run], *, episodes: int | None = None) -> dict[str, Summary | None]:
    """Every measure over the seeds: mean, 95 % bootstrap interval (None for one seed), and each seed's value.

    None for a measure that is undefined for the method. Runs that cannot be measured are left out with a warning.
    """
    if not runs:
        raise UserError("The list of runs is empty; give at least one run to summarise.")
    by_run = each_possible(runs, lambda run: evaluators.evaluate(run, episodes=episodes).measures)
    return summarise_measures(by_run)
