"""``skillscape pretrain`` and ``finetune``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro

from skillscape.cli.display import Display, first_sentence, folder_name, print_table, value_of
from skillscape.cli.naming import allow, allow_run
from skillscape.cli.numbers import Count
from skillscape.errors import UserError, choose

ObjectiveOptions = TypeVar("ObjectiveOptions")
BackboneOptions = TypeVar("BackboneOptions")


@dataclass(frozen=True)
class PretrainOptions(Generic[ObjectiveOptions, BackboneOptions]):
    """Train a method without reward. Ctrl-C saves; --resume goes on to the same numbers."""

    objective: ObjectiveOptions
    """Settings of the method."""
    backbone: BackboneOptions
    """Settings of the learner."""
    env: str = "maze/square_a"
    """maze/NAME, or maze/PATH.txt for your own drawing (# solid, . free, S start); see `skillscape envs`."""
    steps: Count | None = None
    """Environment steps to take, counted as taken. If not given, as many as the preset says (250,000 at default and
    paper), with --resume as many as the run has; then they may be raised."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int = 1
    """How many seeds to train in this process, each in a sub-folder of its own."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""
    preset: str | None = None
    """default (or compact, as it is called elsewhere), paper (literal settings of the papers), long (6.25 million
    steps) or smoke (seconds). With --resume, the run's own settings if not given."""
    workers: int | None = None
    """Seeds trained at the same time; as many as there are cores if not given."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class HostedPretrainOptions(Generic[ObjectiveOptions, BackboneOptions]):
    """Train a method without reward. Ctrl-C saves; --resume goes on to the same numbers."""

    objective: ObjectiveOptions
    """Settings of the method."""
    backbone: BackboneOptions
    """Settings of the learner."""
    env: str
    """walker, quadruped, jaco, walker-pixels, quadruped-pixels, maze-pixels/NAME, or gym/ID; see `skillscape envs`."""
    noise: Annotated[float, tyro.conf.arg(name="env.noise")] = 0.0
    """Deviation of Gaussian noise on the observations."""
    steps: Count | None = None
    """Environment steps to take, counted as taken. If not given, as many as the preset says (200,000 at compact), with
    --resume as many as the run has."""
    seed: int = 0
    """Random seed, the first one if there are several."""
    seeds: int = 1
    """How many seeds to train, one after the other, each in a sub-folder of its own."""
    out: Path | None = None
    """Run folder; runs/METHOD-ENV if not given."""
    preset: str | None = None
    """compact, or laptop on images (for a laptop, the default), paper (URLB's sizes and 2 million frames) or smoke
    (seconds). With --resume, the run's own settings if not given."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


@dataclass(frozen=True)
class FinetuneOptions:
    """Learn a task with its reward, from a pre-trained run or from scratch. Ctrl-C saves; --resume goes on."""

    run: tyro.conf.Positional[Path | None] = None
    """Run folder that `skillscape pretrain` wrote, of one seed or of several."""
    task: str | None = None
    """Task of the run's domain, such as walker_walk; gym/ID has one task, itself, which need not be given."""
    skill: str | None = None
    """prior (drawn as in pre-training), random (one that stays), constant, regress, grid, infer, controller, or the
    number of a skill; the method's own rule if not given. See docs/urlb.md."""
    snapshot: Count | None = None
    """Step of the pre-training to begin with; its last if not given."""
    steps: Count | None = None
    """Environment steps to take; as many as the preset gives a task if not given: 100,000, from images 50,000, and
    10,000 at laptop; with --resume as many as the run has."""
    seed: int | None = None
    """Random seed; the run's own if not given."""
    out: Path | None = None
    """Run folder; runs/METHOD-TASK if not given, for gym/ID runs/METHOD-ID-finetuned. Never that of the run."""
    from_scratch: bool = False
    """Begin with a fresh agent: the row that pre-training is compared with. Needs --env instead of a run."""
    env: str | None = None
    """Environment, with --from-scratch; with a run only to allow the import of its module (gym/module:ID)."""
    preset: str | None = None
    """Sizes of the learner, with --from-scratch: compact, or laptop on images (the default), paper or smoke."""
    resume: bool = False
    """Go on with a run that was stopped or killed."""
    force: bool = False
    """Replace a run that stands in the folder."""


def pretrain_command(arguments: list[str]) -> None:
    """Train a method; which settings there are depends on method, environment and preset."""
    from skillscape.api import is_host, pretrain, standing_run
    from skillscape.objectives import trainable

    methods = trainable()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: skillscape pretrain METHOD [--env ENV] [--steps N] [--seed S] [--seeds K] [--out DIR] …\n")
        print_table([(name, first_sentence(kind.__doc__)) for name, kind in methods.items()])
        print("\n`skillscape pretrain METHOD --help` lists every setting of a method.")
        if not arguments:
            raise UserError("Say which method to train, for example `skillscape pretrain sd3`.")
        return
    method, *rest = arguments
    choose("method", method, methods, "skillscape methods")
    env = value_of(rest, "--env", "maze/square_a")
    allow(env)
    named = Path(value_of(rest, "--out", "") or Path("runs") / f"{method}-{folder_name(env)}")
    standing = standing_run(named, env) if "--resume" in rest else None
    make = _hosted_options if is_host(env) else _maze_options
    options: Any = make(method, env, rest, standing)
    out = options.out or named
    display = Display(out, options.seeds)
    more = {"noise": options.noise} if is_host(env) else {"workers": options.workers}
    runs = pretrain(
        method,
        options.env,
        out=out,
        preset=options.preset,
        steps=options.steps,
        seed=options.seed,
        seeds=options.seeds,
        objective=options.objective,
        backbone=options.backbone,
        resume=options.resume,
        force=options.force,
        on_start=display.announce,
        on_progress=display.show,
        **more,
    )
    display.finish(f"trained {len(runs)} seed{'s' if len(runs) > 1 else ''}; see `skillscape evaluate {out}`")


def _maze_options(method: str, env: str, arguments: list[str], standing: Path | None) -> Any:  # noqa: ANN401
    from skillscape.api import maze_preset

    chosen = maze_preset(method, value_of(arguments, "--preset", "") or None, standing)
    generic: Any = PretrainOptions
    return tyro.cli(
        generic[type(chosen.objective), type(chosen.backbone)],
        args=arguments,
        prog=f"skillscape pretrain {method}",
        default=PretrainOptions(objective=chosen.objective, backbone=chosen.backbone, env=env),
    )


def _hosted_options(method: str, env: str, arguments: list[str], standing: Path | None) -> Any:  # noqa: ANN401
    from skillscape.api import hosted_preset

    chosen = hosted_preset(method, env, value_of(arguments, "--preset", "") or None, standing)
    generic: Any = HostedPretrainOptions
    return tyro.cli(
        generic[type(chosen.objective), type(chosen.backbone)],
        args=arguments,
        prog=f"skillscape pretrain {method}",
        default=HostedPretrainOptions(objective=chosen.objective, backbone=chosen.backbone, env=env),
    )


def finetune_command(arguments: list[str]) -> None:
    """Fine-tune every seed of a run, or train from scratch."""
    from skillscape.api import finetune, pretrained_jobs, task_of, train_from_scratch
    from skillscape.envs.host import is_seen

    options = tyro.cli(FinetuneOptions, args=arguments, prog="skillscape finetune")
    allow(options.task or "")
    common: dict[str, Any] = {"steps": options.steps, "resume": options.resume, "force": options.force}
    if options.from_scratch:
        if options.run is not None or options.env is None:
            raise UserError("--from-scratch takes --env and no run: skillscape finetune --from-scratch --env walker …")
        allow(options.env)
        task = task_of(options.env, options.task)
        scratch = "dreamer" if is_seen(options.env) else "ddpg"
        out = options.out or Path("runs") / f"{scratch}-{folder_name(task)}"
        display = Display(out, 1)
        train_from_scratch(
            options.env,
            task,
            out=out,
            preset=options.preset,
            seed=options.seed or 0,
            on_start=display.announce,
            on_progress=display.show,
            **common,
        )
    else:
        if options.run is None:
            raise UserError("Say which run to fine-tune, or begin without one with --from-scratch --env ENV.")
        allow_run(options.run, options.env)
        sources = pretrained_jobs(options.run)
        config = sources[0].config
        task = task_of(config.env, options.task)
        # Where the environment is the task, the name of the pre-training is taken.
        suffix = "-finetuned" if task == config.env else ""
        out = options.out or Path("runs") / f"{config.method}-{folder_name(task)}{suffix}"
        display = Display(out, len(sources))
        finetune(
            options.run,
            task,
            out=out,
            skill=options.skill,
            snapshot=options.snapshot,
            seed=options.seed,
            on_start=display.announce,
            on_progress=display.show,
            **common,
        )
    display.finish(f"fine-tuned on {task}; see `skillscape plot {out}`")
