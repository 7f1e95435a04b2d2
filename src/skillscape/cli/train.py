"""``skillscape pretrain``, ``finetune`` and ``train``: one set of options for every environment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from skillscape.cli.display import first_sentence, positional, print_table, value_of, values_of
from skillscape.cli.parsing import Count, keyword_arguments, whole_number
from skillscape.cli.plugins import allow, allow_run
from skillscape.errors import UserError, choose
from skillscape.formatting import counted

ObjectiveOptions = TypeVar("ObjectiveOptions")
BackboneOptions = TypeVar("BackboneOptions")
EvaluationOptions = TypeVar("EvaluationOptions")
DEFAULT_ENV = "maze/square_a"
SWITCHES = ("--resume", "--force")
"""Flags that take no value."""
BackboneFlag = Annotated[str | None, tyro.conf.arg(name="backbone")]
EnvNoise = Annotated[float, tyro.conf.arg(name="env.noise")]
EnvKwargs = Annotated[tuple[str, ...], tyro.conf.arg(name="env.kwargs", metavar="KEY=VALUE")]
EnvPosition = Annotated[tuple[int, ...], tyro.conf.arg(name="env.position", metavar="ENTRY")]
EnvCopies = Annotated[int, tyro.conf.arg(name="env.copies")]


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(Generic[BackboneOptions, EvaluationOptions]):
    """Options of all three commands."""

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
class NewRunOptions(LaunchOptions[BackboneOptions, EvaluationOptions]):
    """Options of the commands that start a run from scratch."""

    env: str = DEFAULT_ENV
    """Environment ID: maze/NAME, maze/PATH.txt, walker, walker-pixels, ant, gym/ID, playground/NAME; `skillscape envs`
    lists them."""
    kwargs: EnvKwargs = ()
    """Keyword arguments of a gym/ID environment, such as exclude_current_positions_from_observation=False, or settings
    of a playground/NAME environment, such as episode_length=500."""
    copies: EnvCopies = 1
    """Number of environment copies stepped in parallel, in [1, 256]; for backbones that learn from replay."""
    backbone: BackboneFlag = None
    """RL algorithm: ppo, ddpg, sac, dreamer or a plug-in; the environment's default if not given."""
    preset: str | None = None
    """Named hyper-parameters: default, paper, long or smoke in mazes; compact, paper or smoke on states; laptop, paper
    or smoke on images; default, compact or smoke in playground/NAME. The first of each list is the default; --resume
    keeps the run's own settings."""
    seed: int = 0
    """Random seed; with --seeds, the first of consecutive seeds."""
    seeds: int | None = None
    """Number of seeds to train; several go to sub-folders seed_N. One, in the run folder itself, if not given."""


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(
    NewRunOptions[BackboneOptions, EvaluationOptions], Generic[ObjectiveOptions, BackboneOptions, EvaluationOptions]
):
    """Pre-train a method without task reward. Ctrl-C saves the run; --resume continues it bit-exactly."""

    objective: ObjectiveOptions
    """Hyper-parameters of the method."""
    noise: EnvNoise = 0.0
    """Standard deviation σ of Gaussian noise added to the observations; not available in maze/NAME."""
    position: EnvPosition = ()
    """Entries of the observation that are coordinates of the body, counted from 0: coverage, distance and speed of a
    gym/ID environment are measured there. Other environments give the position themselves."""
    steps: Count | None = None
    """Environment steps of the whole run; the preset's budget if not given, or with --resume the run's own."""
    snapshots: tuple[Count, ...] = ()
    """Environment steps at which the agent is saved for fine-tuning, in addition to the last step."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(NewRunOptions[BackboneOptions, EvaluationOptions]):
    """Learn a task from scratch, as a baseline. Ctrl-C saves the run; --resume continues it bit-exactly."""

    task: str | None = None
    """Task of the environment, such as walker_walk or reach; optional where the environment has a default."""
    steps: Count | None = None
    """Environment steps of the whole run; the preset's fine-tuning budget if not given, with --resume the run's own."""
    out: Path | None = None
    """Run folder; runs/BACKBONE-TASK if not given."""


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(LaunchOptions[BackboneOptions, EvaluationOptions]):
    """Fine-tune a pre-trained agent on a task reward. Ctrl-C saves the run; --resume continues it bit-exactly."""

    run: tyro.conf.Positional[Path]
    """Run folder written by `skillscape pretrain`, with one seed or several, or zoo/NAME."""
    settings: Annotated[BackboneOptions, tyro.conf.arg(name="backbone")]
    """Hyper-parameters of the backbone; by default those of the pre-training, adapted to learning a task."""
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


def pretrain_command(arguments: list[str]) -> None:
    """Pre-train a method; its options depend on method, environment, backbone and preset."""
    from skillscape.configure import existing_config, pretraining
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
    existing = existing_config(out, env) if "--resume" in rest else None
    base = pretraining(method, env, existing=existing, **_deciding_flags(rest))
    generic: Any = PretrainOptions
    options = tyro.cli(
        generic[type(base.objective), type(base.backbone), type(base.evaluation)],
        args=rest,
        prog=f"skillscape pretrain {method}",
        default=PretrainOptions(
            objective=base.objective,
            noise=base.noise,
            position=base.env_position,
            snapshots=base.snapshots,
            **_new_run_defaults(base),
        ),
    )
    parts = {
        "objective": options.objective,
        "noise": options.noise,
        "env_position": options.position,
        "snapshots": options.snapshots,
    }
    train_runs(_new_runs(base, options, **parts), options, out, "`skillscape evaluate {}`")


def finetune_command(arguments: list[str]) -> None:
    """Fine-tune each seed of a pre-training."""
    from skillscape.api import load_seeds
    from skillscape.configure import existing_config, finetuning_of
    from skillscape.training.run import run_folders
    from skillscape.zoo import locate

    generic: Any = FinetuneOptions
    folder = positional(arguments, SWITCHES)
    if folder is None:
        if _asks_for_help(arguments):
            tyro.cli(generic[NoSettings, NoSettings], args=["--help"], prog="skillscape finetune")
        raise UserError("No run given; name one to fine-tune, for example `skillscape finetune runs/sd3-walker`.")
    source = locate(folder)
    allow_run(source, _given(arguments, "--env"))
    allow(_given(arguments, "--task") or "")
    sources = load_seeds(source)
    several = run_folders(source) != [source]
    first = sources[0].config
    resume, given_out = "--resume" in arguments, _given(arguments, "--out")
    tuned = existing_config(Path(given_out)) if resume and given_out else None
    task = first.named_task(_task(arguments, first.env) or (None if tuned is None else tuned.task))
    place = first.family.folder_name(first.env)
    name = f"{place}-finetuned" if task == first.env else as_folder(task, first)
    out = Path(given_out or Path("runs") / f"{first.method}-{name}")
    skill, snapshot = _given(arguments, "--skill"), number_of(arguments, "--snapshot")
    bases = []
    for run in sources:
        existing = existing_config(out / f"seed_{run.config.seed}" if several else out) if resume else None
        bases.append(finetuning_of(run, task, existing=existing, skill=skill, snapshot=snapshot))
    options = tyro.cli(
        generic[type(bases[0].backbone), type(bases[0].evaluation)],
        args=arguments,
        prog="skillscape finetune",
        default=FinetuneOptions(run=source, settings=bases[0].backbone, evaluation=bases[0].evaluation),
    )
    if options.seed is not None and several:
        raise UserError(f"--seed applies to one run, but {source} holds {len(sources)} seeds; leave --seed out.")
    configs = [_configured(base, options) for base in bases]
    train_runs(configs, options, out, "`skillscape plot {}`", sources=sources, several=several)


def train_command(arguments: list[str]) -> None:
    """Train on a task from scratch."""
    from skillscape.configure import existing_config, from_scratch

    env = value_of(arguments, "--env", DEFAULT_ENV)
    allow(env)
    task, out, flags = _task(arguments, env), _given(arguments, "--out"), _deciding_flags(arguments)
    folder = Path(out or Path("runs") / _scratch_name(from_scratch(env, task, **flags)))
    existing = existing_config(folder, env) if "--resume" in arguments else None
    base = from_scratch(env, task, existing=existing, **flags)
    generic: Any = TrainOptions
    options = tyro.cli(
        generic[type(base.backbone), type(base.evaluation)],
        args=arguments,
        prog="skillscape train",
        default=TrainOptions(**_new_run_defaults(base)),
    )
    train_runs(_new_runs(base, options), options, folder, "`skillscape plot {}`")


@dataclass(frozen=True)
class NoSettings:
    """Settings depend on the run; `--help` after RUN lists them."""


def _given(arguments: list[str], flag: str) -> str | None:
    return value_of(arguments, flag, "") or None


def _asks_for_help(arguments: list[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def _task(arguments: list[str], env: str) -> str | None:
    """The task given on the command line; with --help, the first one of the environment."""
    from skillscape.envs.registry import family_of

    return _given(arguments, "--task") or (family_of(env).tasks(env)[0] if _asks_for_help(arguments) else None)


def number_of(arguments: list[str], flag: str) -> int | None:
    """A number that decides defaults; the parser refuses text that is not one."""
    try:
        return whole_number(value_of(arguments, flag, ""))
    except ValueError:
        return None


def _deciding_flags(arguments: list[str]) -> dict[str, Any]:
    """Flags on which the available settings and their defaults depend."""
    return {
        "preset": _given(arguments, "--preset"),
        "backbone": _given(arguments, "--backbone"),
        "steps": number_of(arguments, "--steps"),
        "env_kwargs": keyword_arguments(values_of(arguments, "--env.kwargs")) or None,
    }


def _scratch_name(config: Any) -> str:  # noqa: ANN401  a RunConfig, whose module is loaded late
    place = config.family.folder_name(config.env)
    return f"{config.backbone.name}-{place if config.task == config.env else as_folder(config.task, config)}"


def as_folder(task: str, config: Any) -> str:  # noqa: ANN401  a RunConfig, whose module is loaded late
    """A task as part of a folder name, after the environment where the task does not name its domain."""
    place = config.family.folder_name(config.env)
    plain = task.replace("/", "-").replace(":", "-").replace(",", "-")
    return plain if plain.startswith(place.partition("-")[0]) else f"{place}-{plain}"


def _new_run_defaults(base: Any) -> dict[str, Any]:  # noqa: ANN401  a RunConfig
    """Defaults of ``NewRunOptions``, with keyword arguments as a user would write them."""
    kwargs = tuple(f"{name}={value!r}" for name, value in base.env_kwargs.items())
    parts = {"settings": base.backbone, "evaluation": base.evaluation, "env": base.env}
    return {**parts, "kwargs": kwargs, "copies": base.copies, "seed": base.seed}


def _new_runs(base: Any, options: Any, **parts: Any) -> list[Any]:  # noqa: ANN401
    """The configuration of each seed, for a command that starts a run from scratch."""
    from skillscape.configure import of_seeds

    kwargs = keyword_arguments(options.kwargs)
    return of_seeds(_configured(base, options, env_kwargs=kwargs, copies=options.copies, **parts), options.seeds)


def _configured(base: Any, options: Any, **parts: Any) -> Any:  # noqa: ANN401
    """The configuration with the settings of the command line."""
    given = {name: getattr(options, name) for name in ("steps", "seed") if getattr(options, name) is not None}
    return replace(base, backbone=options.settings, evaluation=options.evaluation, **parts, **given)


def train_runs(
    configs: Sequence[Any],
    options: Any,  # noqa: ANN401
    out: Path,
    advice: str,
    *,
    sources: Sequence[Any] | None = None,
    several: bool | None = None,
) -> None:
    """Launch runs with the options of a command, and print what to do with them."""
    from skillscape.launch import launch
    from skillscape.training.callbacks import LOGGERS
    from skillscape.training.progress import Progress

    for name in options.log:
        choose("logger", name, LOGGERS)
    progress = Progress(out, len(configs))
    runs = launch(
        configs,
        out,
        several=several,
        sources=sources,
        resume=options.resume,
        force=options.force,
        workers=options.workers,
        callbacks=[*(LOGGERS[name]() for name in options.log), progress],
        on_start=progress.announce,
    )
    config, seeds = configs[0], counted(len(runs), "seed")
    progress.finish(f"trained {seeds} on {config.task or config.env}; see {advice.format(out)}")
