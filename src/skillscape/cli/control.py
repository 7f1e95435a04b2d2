"""``skillscape control``: a high-level controller over frozen skills."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from skillscape.cli.display import positional, value_of
from skillscape.cli.parsing import Count
from skillscape.cli.plugins import allow_run
from skillscape.cli.train import (
    SWITCHES,
    BackboneFlag,
    BackboneOptions,
    EvaluationOptions,
    LaunchOptions,
    NoSettings,
    as_folder,
    number_of,
    train_runs,
)
from skillscape.errors import UserError

CONTROL_SWITCHES = (*SWITCHES, "--scratch")


@dataclass(frozen=True, kw_only=True)
class ControlOptions(LaunchOptions[BackboneOptions, EvaluationOptions]):
    """Learn a task with a high-level controller over the frozen skills of a run: it chooses a skill, the pre-trained
    policy follows it with its mean action for --hold steps, rewards are summed. The controller c(z|s) that mixes all
    skills at every step, and trains the policy too, is `skillscape finetune RUN --skill controller`.
    """

    run: tyro.conf.Positional[Path]
    """Run folder written by `skillscape pretrain`, with one seed or several; it must stay where it is.
    Or zoo/NAME."""
    task: str | None = None
    """Task of the run's environment, such as ant_multi_goals or reach; optional where the environment has a default."""
    hold: int | None = None
    """Environment steps of a choice; 25 if not given."""
    backbone: BackboneFlag = None
    """RL algorithm of the controller: ppo, sac, ddpg, dreamer or a plug-in; if not given ppo in mazes, dreamer from
    images, sac elsewhere."""
    preset: str | None = None
    """Named hyper-parameters of the controller, as in `skillscape train`; the environment's default if not given."""
    steps: Count | None = None
    """Environment steps of the whole run, --hold for each choice; the preset's fine-tuning budget if not given. The run
    itself counts choices, and so do its --evaluation and --backbone options."""
    scratch: bool = False
    """Train a baseline from scratch with the same number of environment steps afterwards, in OUT-scratch."""
    seed: int | None = None
    """Random seed; that of the pre-training if not given."""
    out: Path | None = None
    """Run folder; runs/METHOD-TASK-control if not given."""
    env: str | None = None
    """Environment ID of the run; optional, except to allow the import of a gym/module:ID whose module you trust."""


def control_command(arguments: list[str]) -> None:
    """Train a controller over the skills of each seed of a pre-training."""
    from skillscape.api import load_seeds
    from skillscape.configure import controlling, existing_config
    from skillscape.training.run import run_folders
    from skillscape.zoo import locate

    generic: Any = ControlOptions
    given_run = positional(arguments, CONTROL_SWITCHES)
    if given_run is None:
        if {"-h", "--help"} & {*arguments}:
            tyro.cli(generic[NoSettings, NoSettings], args=["--help"], prog="skillscape control")
        raise UserError("No run given; name a pre-training, for example `skillscape control runs/metra-ant`.")
    source = locate(given_run)
    allow_run(source, value_of(arguments, "--env", "") or None)
    sources = load_seeds(source)
    several = run_folders(source) != [source]
    first, helping = sources[0].config, bool({"-h", "--help"} & {*arguments})
    given = value_of(arguments, "--task", "") or (first.family.tasks(first.env)[0] if helping else None)
    given_out, resume = value_of(arguments, "--out", ""), "--resume" in arguments
    task = first.named_task(given or (_resumed_task(Path(given_out)) if resume and given_out else None))
    place = first.family.folder_name(first.env) if task == first.env else as_folder(task, first)
    out = Path(given_out or Path("runs") / f"{first.method}-{place}-control")
    bases = []
    for run in sources:
        folder = out / f"seed_{run.config.seed}" if several else out
        base = controlling(
            run,
            task,
            hold=number_of(arguments, "--hold"),
            preset=value_of(arguments, "--preset", "") or None,
            backbone=value_of(arguments, "--backbone", "") or None,
            steps=number_of(arguments, "--steps"),
            existing=existing_config(folder) if resume else None,
        )
        bases.append((folder, replace(base, seed=run.config.seed)))
    options = tyro.cli(
        generic[type(bases[0][1].backbone), type(bases[0][1].evaluation)],
        args=arguments,
        prog="skillscape control",
        default=ControlOptions(run=source, settings=bases[0][1].backbone, evaluation=bases[0][1].evaluation),
    )
    if options.seed is not None and several:
        raise UserError(f"--seed applies to one run, but {source} holds {len(sources)} seeds; leave --seed out.")
    changes = {"backbone": options.settings, "evaluation": options.evaluation}
    if options.seed is not None:
        changes["seed"] = options.seed
    for (folder, base), run in zip(bases, sources, strict=True):
        config = replace(base, **changes)
        train_runs([config], options, folder, "`skillscape evaluate {}`")
        beside = out.with_name(f"{out.name}-scratch")
        _baseline(config, run.config, options, beside / folder.name if several else beside)


def _baseline(config: Any, pretrained: Any, options: Any, out: Path) -> None:  # noqa: ANN401  RunConfigs, ControlOptions
    """Train the baseline if asked, or print the command that does."""
    from skillscape.configure import from_scratch

    steps = config.steps * config.env_kwargs["hold"]
    if options.scratch:
        base = from_scratch(
            pretrained.env,
            config.task,
            preset=options.preset,
            backbone=config.backbone.name,
            steps=steps,
            seed=config.seed,
            env_kwargs=pretrained.env_kwargs,
        )
        train_runs([base], options, out, "`skillscape evaluate {}`")
        return
    kwargs = " ".join(f"{name}={value!r}" for name, value in pretrained.env_kwargs.items())
    arguments = {
        "--env": pretrained.env,
        "--task": config.task,
        "--backbone": config.backbone.name,
        "--preset": options.preset,
        "--env.kwargs": kwargs,
        "--seed": config.seed,
        "--steps": steps,
        "--out": out,
    }
    told = " ".join(f"{flag} {value}" for flag, value in arguments.items() if value not in (None, ""))
    print(f"from scratch, with the same environment steps: skillscape train {told}", file=sys.stderr)


def _resumed_task(out: Path) -> str | None:
    """The task of the controller to resume, or of its first seed."""
    from skillscape.configure import existing_config

    existing = existing_config(out)
    return None if existing is None else existing.task
