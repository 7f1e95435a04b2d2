"""From what a user asks for to the configuration of a run: a preset, resolved once, and what was asked in its place."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from skillscape import backbones, objectives, presets
from skillscape.backbones.base import Backbone
from skillscape.config import EvaluationConfig, Phase, RunConfig
from skillscape.config_io import check_unchanged, overridden
from skillscape.envs.registry import family_of
from skillscape.errors import UserError, choose
from skillscape.objectives import trainable
from skillscape.objectives.base import Objective
from skillscape.training.run import Run, read_config, seed_folders

Overrides: TypeAlias = Mapping[str, Any]
"""Settings by name, with the values they have in place of the preset's."""
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
    standing: RunConfig | None = None,
    **asked: Any,  # noqa: ANN401  fields of RunConfig: see RUN_SETTINGS; None leaves the preset's
) -> RunConfig:
    """A pre-training. ``standing``: the run that goes on, whose settings hold where nothing else is asked for."""
    if isinstance(objective, Objective):
        if method not in (objective.name, objective):
            raise UserError(f"The objective {objective.name!r} is not that of {method!r}; give the same one twice.")
        method, objective = objective, None
    if isinstance(method, str):
        choose("method", method, trainable(), "skillscape methods")
    else:
        objectives.register(type(method))  # an object says that its class is wanted
    name = method if isinstance(method, str) else method.name
    wanted = _backbone_name(backbone)
    own = _own(standing, "pretrain", preset, wanted)
    if own is not None and own.method == name:
        config = replace(own, objective=method) if isinstance(method, Objective) else own
    else:
        config = _from_preset("pretrain", method, env, preset, wanted, asked.get("env_kwargs") or {})
        if standing is not None:
            config = replace(config, steps=standing.steps)
    if objective and config.objective is not None:
        config = replace(config, objective=overridden(config.objective, objective, "objective"))
    return _with(config, backbone, evaluation, asked)


def from_scratch(
    env: str,
    task: str | None = None,
    *,
    preset: str | None = None,
    backbone: BackboneChoice | None = None,
    evaluation: Overrides | None = None,
    standing: RunConfig | None = None,
    **asked: Any,  # noqa: ANN401
) -> RunConfig:
    """Training on a task without pre-training: what fine-tuning is compared with."""
    wanted = _backbone_name(backbone)
    own = _own(standing, "train", preset, wanted)
    if own is not None:
        config = own if task is None else replace(own, task=own.named_task(task))
    else:
        config = _from_preset("train", None, env, preset, wanted, asked.get("env_kwargs") or {})
        config = replace(config, task=config.named_task(task), steps=config.finetuning_steps)
        if standing is not None:
            config = replace(config, steps=standing.steps)
    return _with(config, backbone, evaluation, asked)


def finetuning(
    base: RunConfig,
    task: str | None = None,
    *,
    source: str,
    snapshot: int,
    skill: str | None = None,
    backbone: Overrides | None = None,
    evaluation: Overrides | None = None,
    standing: RunConfig | None = None,
    **asked: Any,  # noqa: ANN401
) -> RunConfig:
    """The fine-tuning on a task of what a pre-training has learned.

    ``base``: the pre-training's configuration; ``source``: its name; ``snapshot``: the step of it to begin with.
    """
    if base.phase != "pretrain" or base.objective is None:
        raise UserError(f"{source} was trained with a task's reward already; give a run of `skillscape pretrain`.")
    tuned = standing if standing is not None and standing.phase == "finetune" else None
    if tuned is not None:
        skill, task = skill or tuned.skill, task or tuned.task
        own = {"steps": tuned.steps, "seed": tuned.seed}
        asked = own | {name: value for name, value in asked.items() if value is not None}
    task_backbone = base.backbone.task_config(pretrained=True) if tuned is None else tuned.backbone
    rule = skill or base.objective.adaptation
    if rule == "infer":
        spec = base.spec()
        if task_backbone.objective_spec(spec) != base.backbone.objective_spec(spec):
            raise UserError(
                f"{source} scored what fine-tuning does not compute, so no skill can be inferred from it; "
                "choose --skill random, an index, or regress."
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
    return _with(config, backbone, evaluation, asked)


def finetuning_of(
    run: Run,
    task: str | None = None,
    *,
    snapshot: int | None = None,
    standing: RunConfig | None = None,
    **asked: Any,  # noqa: ANN401  see ``finetuning``
) -> RunConfig:
    """The fine-tuning of a run that stands on disk; ``snapshot``: one that it has kept, its last if None."""
    if snapshot is None and standing is not None:
        snapshot = standing.snapshot
    at = run.snapshot_step(snapshot)
    return finetuning(run.config, task, source=run.folder.name, snapshot=at, standing=standing, **asked)


def standing_config(out: Path, env: str | None = None) -> RunConfig | None:
    """The configuration of the run that stands in ``out``, or of the first of its seeds; one elsewhere is refused."""
    found = [out] if (out / "config.json").exists() else seed_folders(out)
    if not found:
        return None
    if env is not None:
        check_unchanged(found[0], {"env": read_config(found[0]).get("env")}, {"env": env})
    return Run(found[0]).config


def _backbone_name(backbone: BackboneChoice | None) -> str | None:
    if not isinstance(backbone, Backbone):
        return backbone if isinstance(backbone, str) else None
    backbones.register(type(backbone))  # an object says that its class is wanted
    return backbone.name


def _own(standing: RunConfig | None, phase: Phase, preset: str | None, backbone: str | None) -> RunConfig | None:
    """The configuration of a run that goes on, where its settings hold for all that is not asked for."""
    if standing is None or preset is not None or standing.phase != phase:
        return None
    if backbone not in (None, standing.backbone.name):
        return None
    # A file that has changed is noticed when the two are compared; one that is gone was kept for this.
    with suppress(UserError):
        return replace(standing, definition=_definition(standing.env))
    return standing


def _definition(env: str) -> Any:  # noqa: ANN401
    """What a run keeps of its environment, as its file gives it back."""
    return json.loads(json.dumps(family_of(env).definition(env)))


def _from_preset(
    phase: Phase,
    method: Method | None,
    env: str,
    preset: str | None,
    backbone: str | None,
    kwargs: Mapping[str, Any],
) -> RunConfig:
    chosen = presets.get(method, family_of(env).benchmark(env, kwargs=kwargs), env, preset, backbone)
    return RunConfig(
        phase=phase,
        env=env,
        task=None,
        objective=chosen.objective,
        backbone=chosen.backbone,
        steps=chosen.steps,
        evaluation=EvaluationConfig(chosen.evaluate_every, chosen.evaluation_episodes, chosen.coverage_episodes),
        definition=_definition(env),
        snapshots=chosen.snapshots if phase == "pretrain" else (),
        finetuning_steps=chosen.finetuning_steps,
    )


def _with(
    config: RunConfig, backbone: BackboneChoice | None, evaluation: Overrides | None, asked: Mapping[str, Any]
) -> RunConfig:
    """A configuration with what was asked in place of the preset's."""
    for name in asked:
        if name not in RUN_SETTINGS:
            raise TypeError(f"{name!r} is not a setting of a run; known are {', '.join(RUN_SETTINGS)}.")
    given = {name: value for name, value in asked.items() if value is not None}
    if "env_position" in given:
        given["env_position"] = tuple(given["env_position"])
    config = replace(config, **given)
    if isinstance(backbone, Backbone):
        config = replace(config, backbone=backbone)
    elif isinstance(backbone, Mapping):
        config = replace(config, backbone=overridden(config.backbone, backbone, "backbone"))
    if evaluation:
        config = replace(config, evaluation=overridden(config.evaluation, evaluation, "evaluation"))
    if asked.get("snapshots") is None:
        config = replace(config, snapshots=tuple(step for step in config.snapshots if step <= config.steps))
    return config


def of_seeds(configs: Sequence[RunConfig], seeds: int | None) -> list[RunConfig]:
    """One configuration for each of several seeds, where there is one configuration for all of them."""
    if seeds is None or len(configs) > 1:
        return list(configs)
    return [replace(configs[0], seed=configs[0].seed + index) for index in range(seeds)]
