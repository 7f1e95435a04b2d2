"""``skillscape pretrain``, ``finetune`` and ``train``: one set of options for every environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from skillscape.cli.display import first_sentence, positional, print_table, value_of, values_of
from skillscape.cli.parsing import Count, keyword_arguments, whole_number
from skillscape.cli.plugins import allow, allow_run
from skillscape.errors import UserError, choose

ObjectiveOptions = TypeVar("ObjectiveOptions")
BackboneOptions = TypeVar("BackboneOptions")
EvaluationOptions = TypeVar("EvaluationOptions")
DEFAULT_ENV = "maze/square_a"
SWITCHES = ("--resume", "--force")
"""Flags that take no value."""
BackboneFlag = Annotated[str | None, tyro.conf.arg(name="backbone")]
EnvNoise = Annotated[float, tyro.conf.arg(name="env.noise")]
EnvKwargs = Annotated[tuple[str, ...], tyro.conf.arg(name="env.kwargs", metavar="KEY=VALUE")]
EnvCopies = Annotated[int, tyro.conf.arg(name="env.copies")]


@dataclass(frozen=True, kw_only=True)
class FreshOptions:
    """Options of a run that begins with a new agent."""

    env: str = DEFAULT_ENV
    """Environment ID: maze/NAME, maze/PATH.txt, walker, walker-pixels, gym/ID, …; `skillscape envs` lists them."""
    kwargs: EnvKwargs = ()
    """Keyword arguments of a gym/ID environment, such as exclude_current_positions_from_observation=False."""
    copies: EnvCopies = 1
    """Number of environment copies stepped in parallel, in [1, 256]; for backbones that learn from replay."""
    backbone: BackboneFlag = None
    """RL algorithm: ppo, ddpg, sac, dreamer or a plug-in; the environment's default if not given."""
    preset: str | None = None
    """Named hyper-parameters: default, paper, long or smoke in mazes; compact, paper or smoke on states; laptop, paper
    or smoke on images. The first of each list is the default; --resume keeps the run's own settings."""
    steps: Count | None = None
    """Environment steps of the whole run; the preset's budget if not given, or with --resume the run's own."""
    seed: int = 0
    """Random seed; with --seeds, the first of consecutive seeds."""
    seeds: int | None = None
    """Number of seeds to train; several go to sub-folders seed_N. One, in the run folder itself, if not given."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Generic[BackboneOptions, EvaluationOptions]):
    """Options of every command that trains."""

    settings: Annotated[BackboneOptions, tyro.conf.arg(name="backbone")]
    """Hyper-parameters of the backbone."""
    evaluation: EvaluationOptions
    """Evaluation interval and number of episodes."""
    workers: int | None = None
    """Seeds trained in parallel, for on-policy backbones; one per core if not given."""
    log: tuple[str, ...] = ("tensorboard",)
    """Loggers in addition to the CSV files: tensorboard, wandb."""
    resume: bool = False
    """Continue an interrupted run from its newest checkpoint; the results do not change."""
    force: bool = False
    """Delete the run in the folder, if there is one, and start again."""


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(
    TrainingOptions[BackboneOptions, EvaluationOptions],
    FreshOptions,
    Generic[ObjectiveOptions, BackboneOptions, EvaluationOptions],
):
    """Pre-train a method without task reward. Ctrl-C saves the run; --resume continues it bit-exactly."""

    objective: ObjectiveOptions
    """Hyper-parameters of the method."""
    noise: EnvNoise = 0.0
    """Standard deviation σ of Gaussian noise added to the observations; not available in maze/NAME."""
    snapshots: tuple[Count, ...] = ()
    """Environment steps at which the agent is saved for fine-tuning, in addition to the last step."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(TrainingOptions[BackboneOptions, EvaluationOptions], Generic[BackboneOptions, EvaluationOptions]):
    """Fine-tune a pre-trained agent on a task reward. Ctrl-C saves the run; --resume continues it bit-exactly."""

    run: tyro.conf.Positional[Path]
    """Run folder written by `skillscape pretrain`, with one seed or several."""
    task: str | None = None
    """Task of the run's environment, such as walker_walk or reach:0,3; optional where the environment has a default."""
    skill: str | None = None
    """Skill selection: prior (resampled as in pre-training), random (one skill for the whole run), constant, regress,
    grid, infer, controller, or the index of a skill; the method's default if not given."""
    snapshot: Count | None = None
    """Pre-training step of the snapshot to fine-tune; the last one if not given."""
    steps: Count | None = None
    """Environment steps of the whole run; the fine-tuning budget of the pre-training's preset if not given."""
    seed: int | None = None
    """Random seed; that of the pre-training if not given."""
    out: Path | None = None
    """Run folder, other than that of the pre-training; runs/METHOD-TASK if not given."""
    env: str | None = None
    """Environment ID of the run; optional, except to allow the import of a gym/module:ID whose module you trust."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(
    TrainingOptions[BackboneOptions, EvaluationOptions], FreshOptions, Generic[BackboneOptions, EvaluationOptions]
):
    """Learn a task from scratch, as a baseline. Ctrl-C saves the run; --resume continues it bit-exactly."""

    task: str | None = None
    """Task of the environment, such as walker_walk or reach; optional where the environment has a default."""
    out: Path | None = None
    """Run folder; runs/BACKBONE-TASK if not given."""


def pretrain_command(arguments: list[str]) -> None:
    """Pre-train a method; its options depend on method, environment, backbone and preset."""
    from skillscape.configure import pretraining, standing_config
    from skillscape.envs.registry import family_of
    from skillscape.objectives import trainable

    methods = trainable()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape pretrain METHOD [--env ENV] [--steps N] [--seed S] [--seeds K] [--out DIR] …\n")
        print_table([(name, first_sentence(kind.__doc__)) for name, kind in methods.items()])
        print("\n`skillscape pretrain METHOD --env ENV --help` lists every option of a method in an environment.")
        if not arguments:
            raise UserError("No method given; name one, for example `skillscape pretrain sd3`.")
        return
    method, *rest = arguments
    choose("method", method, methods, "skillscape methods")
    env = value_of(rest, "--env", DEFAULT_ENV)
    allow(env)
    out = Path(value_of(rest, "--out", "") or Path("runs") / f"{method}-{family_of(env).folder_name(env)}")
    standing = standing_config(out, env) if "--resume" in rest else None
    base = pretraining(method, env, standing=standing, **_preset_arguments(rest))
    generic: Any = PretrainOptions
    options = tyro.cli(
        generic[type(base.objective), type(base.backbone), type(base.evaluation)],
        args=rest,
        prog=f"skillscape pretrain {method}",
        default=PretrainOptions(
            objective=base.objective,
            settings=base.backbone,
            evaluation=base.evaluation,
            env=env,
            noise=base.noise,
            kwargs=_as_pairs(base.env_kwargs),
            copies=base.copies,
            snapshots=base.snapshots,
            seed=base.seed,
        ),
    )
    parts = {name: getattr(options, name) for name in ("objective", "noise", "snapshots")}
    _train([_configured(base, options, **parts)], options, out, "`skillscape evaluate {}`")


def finetune_command(arguments: list[str]) -> None:
    """Fine-tune each seed of a pre-training."""
    from skillscape.api import load_seeds
    from skillscape.configure import finetuning_of, standing_config
    from skillscape.training.run import run_folders

    generic: Any = FinetuneOptions
    folder = positional(arguments, SWITCHES)
    if folder is None:
        if _asks_for_help(arguments):
            tyro.cli(generic[_NoSettings, _NoSettings], args=["--help"], prog="skillscape finetune")
        raise UserError("No run given; name one to fine-tune, for example `skillscape finetune runs/sd3-walker`.")
    source = Path(folder)
    allow_run(source, _given(arguments, "--env"))
    allow(_given(arguments, "--task") or "")
    sources = load_seeds(source)
    several = run_folders(source) != [source]
    first = sources[0].config
    resume, out_flag = "--resume" in arguments, _given(arguments, "--out")
    resumed = standing_config(Path(out_flag)) if resume and out_flag else None
    task = first.named_task(_task(arguments, first.env) or (None if resumed is None else resumed.task))
    place = first.family.folder_name(first.env)
    name = f"{place}-finetuned" if task == first.env else _as_folder(task, first)
    out = Path(out_flag or Path("runs") / f"{first.method}-{name}")
    selection: dict[str, Any] = {"skill": _given(arguments, "--skill"), "snapshot": _count(arguments, "--snapshot")}
    bases = []
    for run in sources:
        standing = standing_config(out / f"seed_{run.config.seed}" if several else out) if resume else None
        bases.append(finetuning_of(run, task, standing=standing, **selection))
    options = tyro.cli(
        generic[type(bases[0].backbone), type(bases[0].evaluation)],
        args=arguments,
        prog="skillscape finetune",
        default=FinetuneOptions(run=source, settings=bases[0].backbone, evaluation=bases[0].evaluation),
    )
    if options.seed is not None and several:
        raise UserError(f"--seed applies to one run, but {source} holds {len(sources)} seeds; leave --seed out.")
    configs = [_configured(base, options) for base in bases]
    _train(configs, options, out, "`skillscape plot {}`", sources=sources, several=several)


def train_command(arguments: list[str]) -> None:
    """Train on a task from scratch."""
    from skillscape.configure import from_scratch, standing_config

    env = value_of(arguments, "--env", DEFAULT_ENV)
    allow(env)
    task, out, preset = _task(arguments, env), _given(arguments, "--out"), _preset_arguments(arguments)
    folder = Path(out or Path("runs") / _scratch_name(from_scratch(env, task, **preset)))
    standing = standing_config(folder, env) if "--resume" in arguments else None
    base = from_scratch(env, task, standing=standing, **preset)
    generic: Any = TrainOptions
    options = tyro.cli(
        generic[type(base.backbone), type(base.evaluation)],
        args=arguments,
        prog="skillscape train",
        default=TrainOptions(
            settings=base.backbone,
            evaluation=base.evaluation,
            env=env,
            kwargs=_as_pairs(base.env_kwargs),
            copies=base.copies,
            seed=base.seed,
        ),
    )
    _train([_configured(base, options)], options, folder, "`skillscape plot {}`")


@dataclass(frozen=True)
class _NoSettings:
    """Settings depend on the run; `skillscape finetune RUN --help` lists them."""


def _given(arguments: list[str], flag: str) -> str | None:
    return value_of(arguments, flag, "") or None


def _asks_for_help(arguments: list[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def _task(arguments: list[str], env: str) -> str | None:
    """The task given on the command line; with --help, the first one of the environment."""
    from skillscape.envs.registry import family_of

    return _given(arguments, "--task") or (family_of(env).tasks(env)[0] if _asks_for_help(arguments) else None)


def _count(arguments: list[str], flag: str) -> int | None:
    """A number that decides defaults; the parser refuses text that is not one."""
    try:
        return whole_number(value_of(arguments, flag, ""))
    except ValueError:
        return None


def _preset_arguments(arguments: list[str]) -> dict[str, Any]:
    """The options that decide the settings and their defaults."""
    return {
        "preset": _given(arguments, "--preset"),
        "backbone": _given(arguments, "--backbone"),
        "steps": _count(arguments, "--steps"),
        "env_kwargs": keyword_arguments(values_of(arguments, "--env.kwargs")) or None,
    }


def _as_pairs(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Keyword arguments as a user would write them."""
    return tuple(f"{name}={value!r}" for name, value in kwargs.items())


def _scratch_name(config: Any) -> str:  # noqa: ANN401  a RunConfig, whose module is loaded late
    place = config.family.folder_name(config.env)
    return f"{config.backbone.name}-{place if config.task == config.env else _as_folder(config.task, config)}"


def _as_folder(task: str, config: Any) -> str:  # noqa: ANN401  a RunConfig, whose module is loaded late
    """A task as part of a folder name, after the environment where the task does not name its domain."""
    place = config.family.folder_name(config.env)
    plain = task.replace("/", "-").replace(":", "-").replace(",", "-")
    return plain if plain.startswith(place.partition("-")[0]) else f"{place}-{plain}"


def _configured(base: Any, options: Any, **parts: Any) -> Any:  # noqa: ANN401
    """The configuration with the options of the command line."""
    from dataclasses import replace

    values = {"backbone": options.settings, "evaluation": options.evaluation, **parts}
    if isinstance(options, FreshOptions):
        values |= {"env_kwargs": keyword_arguments(options.kwargs), "copies": options.copies}
    given = {name: getattr(options, name) for name in ("steps", "seed") if getattr(options, name) is not None}
    return replace(base, **values, **given)


def _train(
    configs: Sequence[Any],
    options: Any,  # noqa: ANN401
    out: Path,
    advice: str,
    *,
    sources: Sequence[Any] | None = None,
    several: bool = False,
) -> None:
    from skillscape.configure import of_seeds
    from skillscape.launch import launch
    from skillscape.training.callbacks import LOGGERS
    from skillscape.training.progress import Progress

    seeds = len(configs) if sources is not None else options.seeds
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}; leave it out to train one seed.")
    for name in options.log:
        choose("logger", name, LOGGERS)
    loggers = [LOGGERS[name]() for name in options.log]
    per_seed = list(configs) if sources is not None else of_seeds(configs, seeds)
    progress = Progress(out, len(per_seed))
    runs = launch(
        per_seed,
        out,
        several=several if sources is not None else len(per_seed) > 1,
        sources=sources,
        resume=options.resume,
        force=options.force,
        workers=options.workers,
        callbacks=[*loggers, progress],
        on_start=progress.announce,
    )
    count = f"{len(runs)} seeds" if len(runs) > 1 else "1 seed"
    progress.finish(f"trained {count} on {per_seed[0].task or per_seed[0].env}; see {advice.format(out)}")
