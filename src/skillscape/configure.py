"""Run configurations from a preset, or from the run to resume, with the settings that the user overrides."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from skillscape import backbones, objectives, presets
from skillscape.backbones.base import Backbone
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.off_policy import OffPolicy
from skillscape.config import EvaluationConfig, Phase, RunConfig
from skillscape.config_io import check_unchanged, overridden
from skillscape.envs.registry import family_of
from skillscape.errors import UserError, choose
from skillscape.objectives import trainable
from skillscape.objectives.base import Objective
from skillscape.skill_control import control_id
from skillscape.skill_env import HOLD, check_hold
from skillscape.training.run import Run, read_config, seed_folders
from skillscape.zoo import entry_name

Overrides: TypeAlias = Mapping[str, Any]
"""Names of settings with the values that replace the preset's."""
Method: TypeAlias = str | Objective[Any]
BackboneChoice: TypeAlias = str | Backbone[Any, Any] | Overrides
RUN_SETTINGS = ("steps", "seed", "noise", "env_kwargs", "env_position", "copies", "snapshots", "finetuning_steps")


def pretraining(
    method: Method,
    env: str,
    *,
    preset: str | None = None,
    objective: Objective[Any] | Overrides | None = None,
    backbone: BackboneChoice | None = None,
    evaluation: Overrides | None = None,
    existing: RunConfig | None = None,
    **overrides: Any,  # noqa: ANN401  fields of RunConfig: see RUN_SETTINGS; None leaves the preset's
) -> RunConfig:
    """A pre-training. ``existing``: the run to resume, whose settings replace those of the preset."""
    if isinstance(objective, Objective):
        if method not in (objective.name, objective):
            raise UserError(
                f"method is {method!r} but objective is {objective.name!r}; pass an objective of the same method."
            )
        method, objective = objective, None
    if isinstance(method, str):
        choose("method", method, trainable(), "skillscape methods")
    else:
        objectives.register(type(method))  # passing an object registers its class
    name = method if isinstance(method, str) else method.name
    backbone_name = _backbone_name(backbone)
    own = _resumed_config(existing, "pretrain", preset, backbone_name)
    if own is not None and own.method == name:
        config = replace(own, objective=method) if isinstance(method, Objective) else own
    else:
        config = _from_preset("pretrain", method, env, preset, backbone_name, overrides.get("env_kwargs") or {})
        if existing is not None:
            config = replace(config, steps=existing.steps)
    if objective and config.objective is not None:
        config = replace(config, objective=overridden(config.objective, objective, "objective"))
    return _with(config, backbone, evaluation, overrides)


def from_scratch(
    env: str,
    task: str | None = None,
    *,
    preset: str | None = None,
    backbone: BackboneChoice | None = None,
    evaluation: Overrides | None = None,
    existing: RunConfig | None = None,
    **overrides: Any,  # noqa: ANN401
) -> RunConfig:
    """Training on a task from scratch, the baseline of fine-tuning."""
    backbone_name = _backbone_name(backbone)
    own = _resumed_config(existing, "train", preset, backbone_name)
    if own is not None:
        config = own if task is None else replace(own, task=own.named_task(task))
    else:
        config = _from_preset("train", None, env, preset, backbone_name, overrides.get("env_kwargs") or {})
        config = replace(config, task=config.named_task(task), steps=config.finetuning_steps)
        if existing is not None:
            config = replace(config, steps=existing.steps)
    return _with(config, backbone, evaluation, overrides)


def controlling(
    run: Run,
    task: str | None = None,
    *,
    hold: int | None = None,
    preset: str | None = None,
    backbone: str | None = None,
    steps: int | None = None,
    existing: RunConfig | None = None,
) -> RunConfig:
    """A controller over the frozen skills of a run: training on a task where an action chooses a skill.

    ``hold``: environment steps of a choice, 25 by default; ``steps``: environment steps, while the run counts choices;
    ``backbone``: by default PPO in mazes, Dreamer from images and SAC elsewhere; ``existing``: the run to resume.
    """
    env = control_id(run)
    own = existing if existing is not None and preset is None and backbone in (None, existing.backbone.name) else None
    hold = check_hold((HOLD if own is None else own.env_kwargs.get("hold", HOLD)) if hold is None else hold)
    usual = "sac" if family_of(env).benchmark(env) in ("urlb", "locomotion") else None
    name = own.backbone.name if own is not None else backbone or usual
    config = from_scratch(env, task, preset=preset, backbone=name, existing=own, env_kwargs={"hold": hold})
    if own is None:
        config = replace(
            config,
            steps=max(1, config.steps // hold),
            evaluation=replace(config.evaluation, every=max(1, config.evaluation.every // hold)),
            backbone=_of_choices(config.backbone, hold),
        )
    return config if steps is None else replace(config, steps=max(1, steps // hold))


def _of_choices(backbone: Backbone[Any, Any], hold: int) -> Backbone[Any, Any]:
    """Settings that count environment steps, for steps that are choices of ``hold`` of them; an update per choice."""
    if isinstance(backbone, DDPG):
        backbone = replace(backbone, nstep=1)
    if isinstance(backbone, OffPolicy):
        return replace(backbone, update_every=1, warmup_steps=backbone.warmup_steps // hold)
    return backbone


def finetuning(
    base: RunConfig,
    task: str | None = None,
    *,
    source: str,
    snapshot: int,
    skill: str | None = None,
    backbone: Overrides | None = None,
    evaluation: Overrides | None = None,
    existing: RunConfig | None = None,
    **overrides: Any,  # noqa: ANN401
) -> RunConfig:
    """The fine-tuning of a pre-trained agent on a task.

    ``base``: configuration of the pre-training; ``source``: its name; ``snapshot``: the step of the snapshot to start
    from; ``existing``: the fine-tuning to resume.
    """
    _check_pretrained(base, source)
    tuned = existing if existing is not None and existing.phase == "finetune" else None
    if tuned is not None:
        skill, task = skill or tuned.skill, task or tuned.task
        own = {"steps": tuned.steps, "seed": tuned.seed}
        overrides = own | {name: value for name, value in overrides.items() if value is not None}
    task_backbone = base.backbone.task_config(pretrained=True) if tuned is None else tuned.backbone
    rule = skill or base.adaptation
    if rule == "infer":
        spec = base.spec()
        if task_backbone.objective_spec(spec) != base.backbone.objective_spec(spec):
            raise UserError(
                f"{source} was pre-trained on other objective features than fine-tuning computes, so --skill infer is "
                "not available; choose --skill random, an index, or regress."
            )
    config = replace(
        base,
        phase="finetune",
        task=base.named_task(task),
        noise=0.0,
        backbone=task_backbone,
        evaluation=base.evaluation if tuned is None else tuned.evaluation,
        steps=base.finetuning_steps,
        skill=rule,
        source=source,
        snapshot=snapshot,
        snapshots=(),
    )
    return _with(config, backbone, evaluation, overrides)


def finetuning_of(
    run: Run,
    task: str | None = None,
    *,
    snapshot: int | None = None,
    existing: RunConfig | None = None,
    **overrides: Any,  # noqa: ANN401  see ``finetuning``
) -> RunConfig:
    """The fine-tuning of a run on disk; ``snapshot``: the step of a stored snapshot, the last if None."""
    if snapshot is None and existing is not None:
        snapshot = existing.snapshot
    source = entry_name(run.folder) or run.folder.name
    _check_pretrained(run.config, source)
    step = run.snapshot_step(snapshot)
    return finetuning(run.config, task, source=source, snapshot=step, existing=existing, **overrides)


def _check_pretrained(config: RunConfig, source: str) -> None:
    if config.phase != "pretrain" or config.objective is None:
        raise UserError(f"{source} was trained on a task reward, not pre-trained; give a run of `skillscape pretrain`.")


def existing_config(out: Path, env: str | None = None) -> RunConfig | None:
    """Configuration of the run in ``out``, or of its first seed, if any; a run in another environment is refused."""
    folders = [out] if (out / "config.json").exists() else seed_folders(out)
    if not folders:
        return None
    if env is not None:
        check_unchanged(folders[0], {"env": read_config(folders[0]).get("env")}, {"env": env})
    return Run(folders[0]).config


def _backbone_name(backbone: BackboneChoice | None) -> str | None:
    if not isinstance(backbone, Backbone):
        return backbone if isinstance(backbone, str) else None
    backbones.register(type(backbone))  # passing an object registers its class
    return backbone.name


def _resumed_config(
    existing: RunConfig | None, phase: Phase, preset: str | None, backbone: str | None
) -> RunConfig | None:
    """The configuration of the run to resume; None if phase, preset or backbone are given and differ from its own."""
    if existing is None or preset is not None or existing.phase != phase:
        return None
    if backbone not in (None, existing.backbone.name):
        return None
    # A changed file is refused when the configurations are compared; if it is gone, the stored definition is used.
    with suppress(UserError):
        return replace(existing, definition=_definition(existing.env))
    return existing


def _definition(env: str) -> Any:  # noqa: ANN401
    """What a run stores to rebuild its environment, after a round trip through JSON."""
    return json.loads(json.dumps(family_of(env).definition(env)))


def _from_preset(
    phase: Phase,
    method: Method | None,
    env: str,
    preset: str | None,
    backbone: str | None,
    kwargs: Mapping[str, Any],
) -> RunConfig:
    settings = presets.get(method, family_of(env).benchmark(env, kwargs=kwargs), env, preset, backbone)
    return RunConfig(
        phase=phase,
        env=env,
        task=None,
        objective=settings.objective,
        backbone=settings.backbone,
        steps=settings.steps,
        evaluation=EvaluationConfig(settings.evaluate_every, settings.evaluation_episodes, settings.coverage_episodes),
        definition=_definition(env),
        snapshots=settings.snapshots if phase == "pretrain" else (),
        finetuning_steps=settings.finetuning_steps,
    )


def _with(
    config: RunConfig, backbone: BackboneChoice | None, evaluation: Overrides | None, overrides: Mapping[str, Any]
) -> RunConfig:
    """A configuration with the given settings in place of the preset's."""
    for name in overrides:
        if name not in RUN_SETTINGS:
            raise TypeError(f"{name!r} is not a setting of a run; known are {', '.join(RUN_SETTINGS)}.")
    given = {name: value for name, value in overrides.items() if value is not None}
    if "env_position" in given:
        given["env_position"] = tuple(given["env_position"])
    config = replace(config, **given)
    if isinstance(backbone, Backbone):
        config = replace(config, backbone=backbone)
    elif isinstance(backbone, Mapping):
        config = replace(config, backbone=overridden(config.backbone, backbone, "backbone"))
    if evaluation:
        config = replace(config, evaluation=overridden(config.evaluation, evaluation, "evaluation"))
    if overrides.get("snapshots") is None:
        config = replace(config, snapshots=tuple(step for step in config.snapshots if step <= config.steps))
    return config


def of_seeds(config: RunConfig, seeds: int | None) -> list[RunConfig]:
    """The configuration with each of ``seeds`` consecutive seeds; as it is if None."""
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}; leave it out to train one seed.")
    return [replace(config, seed=config.seed + index) for index in range(seeds or 1)]
