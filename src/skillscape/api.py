"""What most users need from Python, for every environment: pre-train, fine-tune, train, load, evaluate, act."""

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
from skillscape.evaluation.summary import Summary, summarise_measured
from skillscape.launch import launch
from skillscape.options import FinetuneOptions, LaunchOptions, PretrainOptions, TrainOptions
from skillscape.training.callbacks import TensorBoard
from skillscape.training.progress import Progress
from skillscape.training.run import Run, run_folders
from skillscape.training.several import each_possible

Source = str | Path | Run
"""A run, or its folder."""


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
    """Train a method without reward, in the folder ``out``.

    ``method``: a name of `skillscape methods`, or an ``Objective``, taken as it is; ``env``: one of `skillscape envs`.
    ``seeds``: how many runs to train, in ``out``/seed_0, seed_1, … if several; a list is returned. ``options``: see
    ``PretrainOptions``, ``TrainOptions`` and ``LaunchOptions``; the rest are fields of ``RunConfig``.
    """
    trust(env)
    asked, launching = _split(options)
    standing = configure.standing_config(Path(out), env) if launching.get("resume") else None
    return _launched([configure.pretraining(method, env, standing=standing, **asked)], out, seeds, None, launching)


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
    """Train on a task from scratch: what fine-tuning is compared with. ``task``: may be None where one is meant."""
    trust(env)
    asked, launching = _split(options)
    standing = configure.standing_config(Path(out), env) if launching.get("resume") else None
    return _launched([configure.from_scratch(env, task, standing=standing, **asked)], out, seeds, None, launching)


@overload
def finetune(source: Source, task: str | None = ..., *, out: str | Path, **options: Unpack[FinetuneOptions]) -> Run: ...
@overload
def finetune(
    source: Sequence[Run], task: str | None = ..., *, out: str | Path, **options: Unpack[FinetuneOptions]
) -> list[Run]: ...
def finetune(
    source: Source | Sequence[Run], task: str | None = None, *, out: str | Path, **options: Unpack[FinetuneOptions]
) -> Run | list[Run]:
    """Fine-tune a pre-trained run on a task; of a list of runs each one, in ``out``/seed_N."""
    several = not isinstance(source, (str, Path, Run))
    sources = list(source) if not isinstance(source, (str, Path, Run)) else [load(source)]
    trust(task or "")
    asked, launching = _split(options)
    asked["skill"] = None if asked.get("skill") is None else str(asked["skill"])
    configs = []
    for run in sources:
        folder = Path(out) / f"seed_{run.config.seed}" if len(sources) > 1 else Path(out)
        standing = configure.standing_config(folder) if launching.get("resume") else None
        configs.append(configure.finetuning_of(run, task, standing=standing, **asked))
    return _launched(configs, out, len(configs) if several else None, sources, launching)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run computes, and how it is launched."""
    launching = {name: value for name, value in options.items() if name in LaunchOptions.__annotations__}
    return {name: value for name, value in options.items() if name not in launching}, launching


def _launched(
    configs: Sequence[RunConfig],
    out: str | Path,
    seeds: int | None,
    sources: Sequence[Run] | None,
    options: dict[str, Any],
) -> Run | list[Run]:
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}.")
    every = configure.of_seeds(configs, seeds)
    callbacks = list(options.pop("callbacks", [TensorBoard()]))
    if options.pop("progress", True):
        progress = Progress(Path(out), len(every))
        options |= {"on_start": progress.announce}
        callbacks.append(progress)
    runs = launch(every, Path(out), several=len(every) > 1, sources=sources, callbacks=callbacks, **options)
    return runs if seeds is not None else runs[0]


def load(source: Source) -> Run:
    """The run in a folder."""
    if isinstance(source, Run):
        return source
    folders = run_folders(Path(source))
    if folders != [Path(source)]:
        raise UserError(f"{source} holds {len(folders)} seeds; load one of them, or all with load_seeds.")
    return Run(folders[0])


def load_seeds(folder: str | Path) -> list[Run]:
    """The run in a folder, or the runs of its seeds; a seed that cannot be read is left out with a warning."""
    return each_possible(run_folders(Path(folder)), Run)


def evaluate(
    source: Source,
    *,
    task: str | None = None,
    episodes: int | None = None,
    coverage_episodes: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Measure the newest policy of a run; see ``evaluation.evaluators.evaluate``."""
    trust(task or "")
    return evaluators.evaluate(
        load(source), task=task, episodes=episodes, coverage_episodes=coverage_episodes, seed=seed
    )


def rollouts(source: Source, *, per_skill: int | None = None, seed: int = 0) -> Float[ndarray, "k r t 2"]:
    """Where stochastic episodes of every skill go in a maze, from its fixed start."""
    run = load(source)
    params = run.trained_policy().params
    return evaluators.maze_rollouts(run.config, run.spec, params, per_skill=per_skill, seed=seed)


def summarise_runs(runs: Sequence[Run], *, episodes: int | None = None) -> dict[str, Summary | None]:
    """Every measure over the seeds: mean, 95 % bootstrap interval (None for one seed), and each seed's value.

    None for a measure that says nothing of the method. Runs that cannot be measured are left out with a warning.
    """
    if not runs:
        raise UserError("There are no runs to summarise: give at least one.")
    found = each_possible(runs, lambda run: evaluators.evaluate(run, episodes=episodes).measures)
    return {name: summarise_measured([measures[name] for measures in found]) for name in found[0]}
