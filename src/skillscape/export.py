"""Exported runs: a run folder reduced to what acting, measuring and fine-tuning read, to share it.

An export has the configuration, the versions, the logs, the newest evaluation and the policy of a finished run. Of a
pre-training it also has what fine-tuning keeps of the agent, and the model of the method. It has no optimiser states,
no replay buffer and no states that a method collected, so it cannot be resumed. All weights stay in float32.
"""

import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from skillscape import presets
from skillscape.config import RunConfig
from skillscape.config_io import setting, setting_names
from skillscape.configure import pretraining
from skillscape.errors import UserError
from skillscape.training.checkpoint import checkpoint_folder, named_leaves, save_tree
from skillscape.training.files import EXPORT_FILE, write_json, writing_to
from skillscape.training.run import Run, check_free
from skillscape.types import Experience
from skillscape.zoo import PREFIX

FORMAT = "skillscape-export-1"
COPIED = ("config.json", "results.json", "versions.json", "timing.json", "evaluation.csv", "metrics.csv")
ROWS = 256
"""Rows of the batch that tells what an objective reads; nearest-neighbour methods need more than a few."""


def export_run(source: str | Path | Run, out: str | Path, *, model: bool = True, force: bool = False) -> Run:
    """Write a finished run to the folder ``out``, reduced to what acting, measuring and fine-tuning read.

    The export loads like any run and acts as the run does, but cannot be resumed. ``model``: include the model of the
    method, which goal reaching, skill inference and density maps read. ``force``: replace a run in ``out``.
    """
    run, folder = source if isinstance(source, Run) else Run(source), Path(out)
    _check(run, folder)
    check_free(folder, force=force, resumable=False)
    temporary = folder.with_name(f".{folder.name}.partial")
    with writing_to(folder, "choose another folder"):
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            _write(run, temporary, model=model)
            if folder.exists():
                shutil.rmtree(folder)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return Run(folder)


def _check(run: Run, out: Path) -> None:
    if run.results is None:
        raise UserError(f"{run.folder} is unfinished; train it to the end with --resume, then export it.")
    if run.exported is not None:
        raise UserError(f"{run.folder} is an exported run already; copy its folder.")
    ours, theirs = out.resolve(), run.folder.resolve()
    if ours == theirs or ours in theirs.parents or theirs in ours.parents:
        raise UserError(f"{out} overlaps the run {run.folder}; choose another folder.")
    if out.parts[:1] == (PREFIX,):
        raise UserError(f"{out} cannot be written, since zoo/ names the runs of the package; choose another folder.")


def _write(run: Run, folder: Path, *, model: bool) -> None:
    for name in COPIED:
        if (run.folder / name).exists():
            shutil.copyfile(run.folder / name, folder / name)
    rollouts = sorted(path for path in (run.folder / "rollouts").glob("*.npz") if path.stem.isdigit())
    for path in rollouts[-1:]:
        (folder / "rollouts").mkdir()
        shutil.copyfile(path, folder / "rollouts" / path.name)
    pretrained = run.config.phase == "pretrain"
    if pretrained:
        _write_snapshot(run, folder, model=model)
    else:
        run.trained_policy().save(folder / "skills")
    about = {"format": FORMAT, "command": command_of(run.config), "model": pretrained and model}
    write_json(folder / EXPORT_FILE, about)


def _write_snapshot(run: Run, folder: Path, *, model: bool) -> None:
    snapshot = run.snapshot()
    parts = {"agent": snapshot.agent, **({"objective": snapshot.objective} if model else {})}
    read = {"agent": _read_of_agent(run, snapshot.agent)}
    if model:
        read["objective"] = _read_of_objective(run, snapshot.objective)
    # Named as in ``parts``, where the path of a leaf begins with the name of its part.
    kept = {f"[{part!r}]{name}" for part, names in read.items() for name in names}
    left_out = [name for name, _ in named_leaves(parts) if name not in kept and "opt_state" not in name]
    save_tree(checkpoint_folder(folder / "snapshots", snapshot.step), parts, without="opt_state", left_out=left_out)


# What is read


def _read_of_agent(run: Run, agent: PyTree) -> set[str]:
    """The leaves that acting, what objectives see, and the start of a fine-tuning read."""
    config, spec = run.config, run.spec
    backbone, key = config.backbone, jax.random.key(0)
    obs = jnp.zeros((1, *spec.obs_shape), jnp.uint8 if spec.is_image else jnp.float32)
    skill, carry = jnp.zeros((1, config.reward.skills.width)), backbone.initial_carry(1)
    keep_critic = config.objective is not None and config.objective.keeps_critic

    def read(agent: PyTree) -> list[PyTree]:
        params = backbone.policy_params(agent)
        return [
            *(backbone.act(params, carry, obs, skill, key, explore) for explore in (False, True)),
            backbone.objective_obs(agent, obs, jnp.zeros((1, spec.action_dim))),
            backbone.task_config(pretrained=True).adapt(agent, key, keep_critic=keep_critic),
        ]

    return leaves_read(read, agent)


def _read_of_objective(run: Run, model: PyTree) -> set[str]:
    """The leaves that the intrinsic reward, the scores of skills and the inference of skills read."""
    objective, key = run.config.reward, jax.random.key(0)
    spec = run.config.backbone.objective_spec(run.spec)
    obs = jnp.zeros((ROWS, *spec.obs_shape), jnp.uint8 if len(spec.obs_shape) == 3 else jnp.float32)
    skill, reward = jnp.zeros((ROWS, objective.skills.width)), jnp.zeros(ROWS)
    batch = Experience(obs, jnp.zeros((ROWS, spec.action_dim)), obs, skill, reward)
    functions: list[Callable[[Any], PyTree]] = [
        lambda state: objective.reward(state, batch, key)[1],
        lambda state: objective.score_skills(state, obs),
        lambda state: objective.diagnose(state, obs, skill, obs),
        objective.routing_weights,
        lambda state: objective.skill_for_goal(state, obs, obs),
        lambda state: objective.infer_skill(state, obs, reward),
    ]
    kept: set[str] = set()
    for function in functions:
        with suppress(UserError):  # not every method has every function
            kept |= leaves_read(function, model)
    return kept


def leaves_read(function: Callable[[Any], PyTree], tree: PyTree) -> set[str]:
    """The paths of the leaves of ``tree`` that the values of ``function(tree)`` depend on, from its traced program.

    Shapes do not count. A program called inside counts as reading all that it is given.
    """
    traced = jax.make_jaxpr(function)(tree).jaxpr
    needed = {id(variable) for variable in traced.outvars}
    for equation in reversed(traced.eqns):
        if needed & {id(variable) for variable in equation.outvars}:
            needed |= {id(variable) for variable in equation.invars}
    names = [name for name, _ in named_leaves(tree)]
    return {name for name, variable in zip(names, traced.invars, strict=True) if id(variable) in needed}


# The command


def command_of(config: RunConfig) -> str | None:
    """A command that trains a pre-training of this configuration, as short as presets allow.

    None for other phases, which depend on another run or its task, and for methods that are not installed.
    """
    if config.phase != "pretrain":
        return None
    benchmark = config.family.benchmark(config.env, kwargs=config.env_kwargs)
    commands: list[list[str]] = [
        ["skillscape", "pretrain", config.method, "--env", config.env, *flags]
        for preset in presets.names(benchmark)
        for backbone in (None, config.backbone.name)
        if (flags := _flags(config, preset if preset != presets.default_preset(benchmark) else None, backbone))
    ]
    return min(map(shlex.join, commands), key=len, default=None)


def _flags(config: RunConfig, preset: str | None, backbone: str | None) -> list[str] | None:
    """The flags that lead from a preset to the configuration; None if the preset has another backbone."""
    asked: dict[str, Any] = {"steps": config.steps, "seed": config.seed, "env_kwargs": config.env_kwargs}
    try:
        base = pretraining(config.method, config.env, preset=preset, backbone=backbone, **asked)
    except UserError:
        return None
    if type(base.backbone) is not type(config.backbone):
        return None
    words = [] if preset is None else ["--preset", preset]
    words += [] if backbone is None else ["--backbone", backbone]
    words += ["--steps", f"{config.steps}", "--seed", f"{config.seed}"]
    if config.env_kwargs:
        words += ["--env.kwargs", *(f"{name}={value!r}" for name, value in config.env_kwargs.items())]
    flat = {"env.noise": "noise", "env.copies": "copies", "env.position": "env_position", "snapshots": "snapshots"}
    for flag, name in flat.items():
        words += _flag(flag, vars(base)[name], vars(config)[name])
    for part in ("objective", "backbone", "evaluation"):
        ours, theirs = vars(config)[part], vars(base)[part]
        for name in setting_names(ours):
            words += _flag(f"{part}.{name}", setting(theirs, name), setting(ours, name))
    return words


def _flag(name: str, usual: Any, value: Any) -> Iterator[str]:  # noqa: ANN401  a setting
    """A flag with its value, if the value is not the usual one."""
    if value == usual:
        return
    *groups, last = name.replace("_", "-").split(".")
    negated = [f"no-{last}"] if value is False else [last]
    yield f"--{'.'.join([*groups, *negated])}"
    if isinstance(value, bool):
        return
    yield from (f"{entry}" for entry in (value if isinstance(value, tuple) else (value,)))
