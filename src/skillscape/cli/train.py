"""``skillscape pretrain``, ``finetune`` and ``train``: one set of options for every environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
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
EnvPosition = Annotated[tuple[int, ...], tyro.conf.arg(name="env.position", metavar="ENTRY")]
EnvCopies = Annotated[int, tyro.conf.arg(name="env.copies")]


@dataclass(frozen=True)
class PretrainOptions(Generic[ObjectiveOptions, BackboneOptions, EvaluationOptions]):
    """Train a method without reward. Ctrl-C saves; --resume goes on to the same numbers."""

    objective: ObjectiveOptions
    """Settings of the method."""
    settings: Annotated[BackboneOptions, tyro.conf.arg(name="backbone")]
    """Settings of the backbone."""
    evaluation: EvaluationOptions
    """When the run is evaluated, and on how many episodes."""
    env: str = DEFAULT_ENV
    """Environment ID: maze/NAME, maze/PATH.txt, walker, walker-pixels, ant, gym/ID; `skillscape envs` lists them."""
    noise: EnvNoise = 0.0
    """Standard deviation of Gaussian noise on the observations; not in maze/NAME."""
    kwargs: EnvKwargs = ()
    """Keyword arguments of a gym/ID environment, such as exclude_current_positions_from_observation=False."""
    position: EnvPosition = ()
    """Entries of the observation that are coordinates of the body, counted from 0: coverage, distance and speed of a
    gym/ID environment are measured there. Other environments tell the position themselves."""
    copies: EnvCopies = 1
    """Copies of the environment stepped side by side, so that the policy acts on all of them at once."""
    backbone: BackboneFlag = None
    """RL algorithm: ppo, ddpg, sac, dreamer or a plug-in; the environment's default if not given."""
    preset: str | None = None
    """Named settings: default, paper, long or smoke in mazes; compact, paper or smoke on states; laptop, paper or smoke
    on images. The first of each is the default; with --resume the run's own settings are."""
    steps: Count | None = None
    """Environment steps to take; as many as the preset says if not given, with --resume as many as the run has."""
    snapshots: tuple[Count, ...] = ()
    """Environment steps after which the agent is kept for fine-tuning, beside the last one."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int | None = None
    """Number of seeds to train: several each in a sub-folder of its own, one in the folder itself."""
    workers: int | None = None
    """Seeds trained at the same time where training is compiled as a whole; one per core if not given."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""
    log: tuple[str, ...] = ("tensorboard",)
    """Where metrics go beside CSV files: tensorboard, wandb."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class FinetuneOptions(Generic[BackboneOptions, EvaluationOptions]):
    """Learn a task with its reward, beginning with the agent of a pre-trained run. Ctrl-C saves; --resume goes on."""

    run: tyro.conf.Positional[Path]
    """Run folder that `skillscape pretrain` wrote, of one seed or of several."""
    settings: Annotated[BackboneOptions, tyro.conf.arg(name="backbone")]
    """Settings of the backbone; by default those of the pre-training, set to learn a task."""
    evaluation: EvaluationOptions
    """When the run is evaluated, and on how many episodes."""
    task: str | None = None
    """Task of the run's environment, such as walker_walk or reach:0,3; may be left out where there is a default."""
    skill: str | None = None
    """How the skill is chosen: prior (drawn as in pre-training), random (one that stays), constant, regress, grid,
    infer, controller, or the index of a skill; the method's own rule if not given."""
    snapshot: Count | None = None
    """Environment step of the pre-training to begin with; its last if not given."""
    steps: Count | None = None
    """Environment steps to take; as many as the preset of the pre-training gives a task if not given."""
    seed: int | None = None
    """Random seed; the run's own if not given."""
    out: Path | None = None
    """Run folder; runs/METHOD-TASK if not given. Never that of the pre-training."""
    env: str | None = None
    """Environment of the run, said again to allow the import of its module: gym/module:ID of a run that you trust."""
    workers: int | None = None
    """Seeds trained at the same time where training is compiled as a whole; one per core if not given."""
    log: tuple[str, ...] = ("tensorboard",)
    """Where metrics go beside CSV files: tensorboard, wandb."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class TrainOptions(Generic[BackboneOptions, EvaluationOptions]):
    """Learn a task with its reward from scratch: what fine-tuning is compared with. Ctrl-C saves; --resume goes on."""

    settings: Annotated[BackboneOptions, tyro.conf.arg(name="backbone")]
    """Settings of the backbone."""
    evaluation: EvaluationOptions
    """When the run is evaluated, and on how many episodes."""
    env: str = DEFAULT_ENV
    """Environment ID: maze/NAME, walker, walker-pixels, gym/ID; `skillscape envs` lists them."""
    task: str | None = None
    """Task of the environment, such as walker_walk or reach; may be left out where there is a default."""
    kwargs: EnvKwargs = ()
    """Keyword arguments of a gym/ID environment, such as exclude_current_positions_from_observation=False."""
    copies: EnvCopies = 1
    """Copies of the environment stepped side by side, so that the policy acts on all of them at once."""
    backbone: BackboneFlag = None
    """RL algorithm: ppo, ddpg, sac, dreamer or a plug-in; the environment's default if not given."""
    preset: str | None = None
    """Named settings, as for `skillscape pretrain`."""
    steps: Count | None = None
    """Environment steps to take; as many as the preset gives a task if not given."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int | None = None
    """Number of seeds to train: several each in a sub-folder of its own, one in the folder itself."""
    workers: int | None = None
    """Seeds trained at the same time where training is compiled as a whole; one per core if not given."""
    out: Path | None = None
    """Run folder; runs/BACKBONE-TASK if not given."""
    log: tuple[str, ...] = ("tensorboard",)
    """Where metrics go beside CSV files: tensorboard, wandb."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


def pretrain_command(arguments: list[str]) -> None:
    """Train a method; which settings there are depends on method, environment, backbone and preset."""
    from skillscape.configure import pretraining, standing_config
    from skillscape.envs.registry import family_of
    from skillscape.objectives import trainable

    methods = trainable()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape pretrain METHOD [--env ENV] [--steps N] [--seed S] [--seeds K] [--out DIR] …\n")
        print_table([(name, first_sentence(kind.__doc__)) for name, kind in methods.items()])
        print("\n`skillscape pretrain METHOD --env ENV --help` lists every setting of a method in an environment.")
        if not arguments:
            raise UserError("Say which method to train, for example `skillscape pretrain sd3`.")
        return
    method, *rest = arguments
    choose("method", method, methods, "skillscape methods")
    env = value_of(rest, "--env", DEFAULT_ENV)
    allow(env)
    out = Path(value_of(rest, "--out", "") or Path("runs") / f"{method}-{family_of(env).folder_name(env)}")
    standing = standing_config(out, env) if "--resume" in rest else None
    base = pretraining(method, env, standing=standing, **_chosen(rest))
    generic: Any = PretrainOptions
    options = tyro.cli(
        generic[type(base.objective), type(base.backbone), type(base.evaluation)],
        args=rest,
        prog=f"skillscape pretrain {method}",
        default=PretrainOptions(
            base.objective,
            base.backbone,
            base.evaluation,
            env,
            noise=base.noise,
            kwargs=_as_pairs(base.env_kwargs),
            position=base.env_position,
            copies=base.copies,
            snapshots=base.snapshots,
            seed=base.seed,
        ),
    )
    _train([_configured(base, options, objective=options.objective)], options, out, "`skillscape evaluate {}`")


def finetune_command(arguments: list[str]) -> None:
    """Fine-tune every seed of a run."""
    from skillscape.api import load_seeds
    from skillscape.configure import finetuning_of, standing_config
    from skillscape.training.run import run_folders

    generic: Any = FinetuneOptions
    named = positional(arguments, SWITCHES)
    if named is None:
        if _asks_for_help(arguments):
            tyro.cli(generic[_Nothing, _Nothing], args=["--help"], prog="skillscape finetune")
        raise UserError("Say which run to fine-tune, for example `skillscape finetune runs/sd3-walker`.")
    source = Path(named)
    allow_run(source, _given(arguments, "--env"))
    allow(_given(arguments, "--task") or "")
    sources = load_seeds(source)
    several = run_folders(source) != [source]
    first = sources[0].config
    resume, told = "--resume" in arguments, _given(arguments, "--out")
    tuned = standing_config(Path(told)) if resume and told else None
    task = first.named_task(_task(arguments, first.env) or (None if tuned is None else tuned.task))
    place = first.family.folder_name(first.env)
    name = f"{place}-finetuned" if task == first.env else _as_folder(task, first)
    out = Path(told or Path("runs") / f"{first.method}-{name}")
    asked: dict[str, Any] = {
        "skill": _given(arguments, "--skill"),
        "snapshot": _count(arguments, "--snapshot"),
    }
    bases = []
    for run in sources:
        standing = standing_config(out / f"seed_{run.config.seed}" if several else out) if resume else None
        bases.append(finetuning_of(run, task, standing=standing, **asked))
    options = tyro.cli(
        generic[type(bases[0].backbone), type(bases[0].evaluation)],
        args=arguments,
        prog="skillscape finetune",
        default=FinetuneOptions(source, bases[0].backbone, bases[0].evaluation),
    )
    if options.seed is not None and several:
        raise UserError("--seed is for one run; the seeds of several runs are their own.")
    configs = [_configured(base, options) for base in bases]
    _train(configs, options, out, "`skillscape plot {}`", sources=sources, several=several)


def train_command(arguments: list[str]) -> None:
    """Train on a task from scratch."""
    from skillscape.configure import from_scratch, standing_config

    env = value_of(arguments, "--env", DEFAULT_ENV)
    allow(env)
    task, out, chosen = _task(arguments, env), _given(arguments, "--out"), _chosen(arguments)
    folder = Path(out or Path("runs") / _scratch_name(from_scratch(env, task, **chosen)))
    standing = standing_config(folder, env) if "--resume" in arguments else None
    base = from_scratch(env, task, standing=standing, **chosen)
    generic: Any = TrainOptions
    options = tyro.cli(
        generic[type(base.backbone), type(base.evaluation)],
        args=arguments,
        prog="skillscape train",
        default=TrainOptions(
            base.backbone,
            base.evaluation,
            env,
            kwargs=_as_pairs(base.env_kwargs),
            copies=base.copies,
            seed=base.seed,
        ),
    )
    _train([_configured(base, options)], options, folder, "`skillscape plot {}`")


@dataclass(frozen=True)
class _Nothing:
    """Settings that depend on the run: name it to see them."""


def _given(arguments: list[str], flag: str) -> str | None:
    return value_of(arguments, flag, "") or None


def _asks_for_help(arguments: list[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def _task(arguments: list[str], env: str) -> str | None:
    """The task that is named; whoever asks for help need not know one."""
    from skillscape.envs.registry import family_of

    return _given(arguments, "--task") or (family_of(env).tasks(env)[0] if _asks_for_help(arguments) else None)


def _count(arguments: list[str], flag: str) -> int | None:
    """A number that decides defaults; what is none is left for the parser to refuse."""
    try:
        return whole_number(value_of(arguments, flag, ""))
    except ValueError:
        return None


def _chosen(arguments: list[str]) -> dict[str, Any]:
    """What decides which settings there are, and their defaults."""
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
    """A task as it stands in the name of a folder; one that does not name its body is told with the environment."""
    place = config.family.folder_name(config.env)
    plain = task.replace("/", "-").replace(":", "-").replace(",", "-")
    return plain if plain.startswith(place.partition("-")[0]) else f"{place}-{plain}"


def _configured(base: Any, options: Any, **parts: Any) -> Any:  # noqa: ANN401
    """The configuration with all that the command line says."""
    from dataclasses import replace

    told = {"backbone": options.settings, "evaluation": options.evaluation, **parts}
    names = {field.name for field in fields(options)}
    if "kwargs" in names:
        told |= {"env_kwargs": keyword_arguments(options.kwargs), "copies": options.copies}
    if "noise" in names:
        told |= {"noise": options.noise, "env_position": options.position}
    if "snapshots" in names:
        told["snapshots"] = options.snapshots
    asked = {name: getattr(options, name) for name in ("steps", "seed") if getattr(options, name) is not None}
    return replace(base, **told, **asked)


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
        raise UserError(f"--seeds must be at least 1, not {seeds}.")
    for name in options.log:
        choose("logger", name, LOGGERS)
    loggers = [LOGGERS[name]() for name in options.log]
    every = list(configs) if sources is not None else of_seeds(configs, seeds)
    progress = Progress(out, len(every))
    runs = launch(
        every,
        out,
        several=several if sources is not None else len(every) > 1,
        sources=sources,
        resume=options.resume,
        force=options.force,
        workers=options.workers,
        callbacks=[*loggers, progress],
        on_start=progress.announce,
    )
    count = f"{len(runs)} seeds" if len(runs) > 1 else "1 seed"
    progress.finish(f"trained {count} on {every[0].task or every[0].env}; see {advice.format(out)}")
