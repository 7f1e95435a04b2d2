"""Launching runs: create or resume their folders, train, and write the results."""

import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from skillscape.config import RunConfig
from skillscape.config_io import check_unchanged
from skillscape.envs.base import JaxEnv
from skillscape.errors import Notice, UserError
from skillscape.evaluation.evaluators import evaluating
from skillscape.formatting import counted
from skillscape.optim import trained_parameters
from skillscape.training.callbacks import Callback
from skillscape.training.cost import Parameters, write_timing
from skillscape.training.files import write_json
from skillscape.training.run import Run, adapted_state, check_free, seed_folders
from skillscape.training.state import RunState, first_state
from skillscape.training.trainer import train
from skillscape.types import EnvSpec
from skillscape.zoo import check_output


def launch(
    configs: Sequence[RunConfig],
    out: Path,
    *,
    several: bool | None = None,
    sources: Sequence[Run] | None = None,
    resume: bool = False,
    force: bool = False,
    workers: int | None = None,
    callbacks: Sequence[Callback] = (),
    on_start: Callable[[], None] | None = None,
) -> list[Run]:
    """Train runs that differ in their seed alone, in ``out`` itself or, if ``several``, in ``out``/seed_N.

    ``several``: by default, whether there is more than one configuration.
    ``sources``: the pre-trainings that fine-tunings start from. ``resume`` continues the runs that exist and starts the
    others; ``force`` replaces them. ``on_start`` is called after all checks, before training.
    """
    if resume and force:
        raise UserError("--resume and --force (resume=True and force=True) exclude each other; choose one.")
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}; leave it out to use one per core.")
    check_output(out)
    folders = _folders(out, [config.seed for config in configs], len(configs) > 1 if several is None else several)
    built_on = {config.family.source_folder(config.env) for config in configs}
    _check_apart(out, [source.folder for source in sources or ()] + [folder for folder in built_on if folder])
    starting_points: Sequence[Run | None] = [None] * len(configs) if sources is None else sources
    states = [_checked_start(config, source) for config, source in zip(configs, starting_points, strict=True)]
    for folder in folders:
        if not (resume and (folder / "config.json").exists()):
            check_free(folder, force=force)
    runs = [
        _resumed(folder, config)
        if resume and (folder / "config.json").exists()
        else Run.create(folder, config, force=force)
        for folder, config in zip(folders, configs, strict=True)
    ]
    enable_compilation_cache()
    starts = dict(zip(folders, states, strict=True))
    left = [run for run in runs if run.results is None]
    if not left:
        return runs
    if on_start is not None:
        on_start()
    for run, source in zip(runs, sources or (), strict=False):
        if run.config.strategy.infers:
            run.keep_model(source.snapshot(run.config.snapshot).objective)
    with ExitStack() as stack:
        evaluators = [stack.enter_context(evaluating(run.config)) for run in left]
        number = workers or min(len(left), os.cpu_count() or 1)
        train(left, lambda run: starts[run.folder](), evaluators, callbacks, workers=number, on_end=_write_results)
    return runs


def _folders(out: Path, seeds: list[int], several: bool) -> list[Path]:
    if not several:
        if seeds_there := len(seed_folders(out)):
            raise UserError(
                f"{out} holds {counted(seeds_there, 'seed')}; give --seeds, or choose another --out for one run."
            )
        return [out]
    if (out / "config.json").exists():
        raise UserError(f"{out} holds a single run; choose another --out for several seeds.")
    if len(set(seeds)) < len(seeds):
        raise UserError(
            f"Several runs have the same seed ({seeds}); leave the seed out to use that of each pre-training."
        )
    return [out / f"seed_{seed}" for seed in seeds]


def _check_apart(out: Path, sources: Sequence[Path]) -> None:
    """Refuse a folder inside that of the pre-training that a run builds on, or around it."""
    ours = out.resolve()
    for source in sources:
        theirs = source.resolve()
        if ours == theirs or ours in theirs.parents or theirs in ours.parents:
            raise UserError(
                f"The run would be written to {out}, which overlaps its pre-training {source}; choose another --out."
            )


def checked_spec(config: RunConfig) -> EnvSpec:
    """The spec of the environment, which is made for it; a configuration that cannot be trained is refused."""
    config.check()
    if not config.backbone.on_policy:
        spec = config.spec()
    else:
        env = config.make_env()
        spec = env.spec
        if not isinstance(env, JaxEnv):
            env.close()
            raise UserError(
                f"{config.backbone.label} needs an environment written in JAX, such as maze/NAME, and {config.env} is "
                "not; choose another --backbone."
            )
    config.check_env(spec)
    return spec


def _checked_start(config: RunConfig, source: Run | None) -> Callable[[], RunState]:
    """The initial training state; refuses what cannot be trained before any folder is created."""
    spec = checked_spec(config)
    if source is None:
        return lambda: first_state(config, spec)
    adapted = adapted_state(config, source, spec)
    return lambda: adapted


def _resumed(folder: Path, config: RunConfig) -> Run:
    run = Run(folder)
    if run.exported is not None:
        raise UserError(
            f"{folder} is an exported run, without the optimiser states and the replay buffer that --resume needs; "
            "fine-tune it, or train again in another --out."
        )
    # The budget of later fine-tunings does not change what the run itself computes.
    ours, theirs = (replace(each, finetuning_steps=1).to_json() for each in (config, run.config))
    # A longer budget leaves the steps already taken valid where no replay buffer was sized for it.
    raised = config.backbone.on_policy and config.steps != run.config.steps
    if raised:
        theirs = {**theirs, "steps": ours["steps"], "snapshots": ours["snapshots"]}
    check_unchanged(folder, theirs, ours)
    run.newest()  # a damaged checkpoint is refused before anything is compiled
    if not raised:
        return run
    if config.steps < run.config.steps:
        raise UserError(
            f"steps: {run.config.steps:,} in the run, {config.steps:,} asked for; --resume can only raise the budget "
            f"of {folder}: give at least as many steps."
        )
    write_json(folder / "config.json", config.to_json())
    (folder / "results.json").unlink(missing_ok=True)
    return Run(folder)


def _write_results(run: Run) -> None:
    """Write timing.json and, from the last evaluation, results.json; delete the replay buffer, now of no use."""
    config = run.config
    last = {name: values[-1] for name, values in run.evaluation().items() if values}
    if last.get("step") != run.end:
        raise UserError(
            f"{run.folder / 'evaluation.csv'} is damaged: it has no row of the last step; restore it or train again "
            "with --force."
        )
    parameters = Parameters(trained_parameters(run.like.agent), trained_parameters(run.like.objective))
    results: Mapping[str, Any] = {
        "method": config.method,
        "phase": config.phase,
        "env": config.env,
        "task": config.task,
        "images": run.spec.is_image,
        "seed": config.seed,
        "steps": run.end,
        "source": config.source,
        "snapshot": config.snapshot,
        "skill_strategy": config.strategy.kind,
        "evaluation_episodes": config.evaluation.episodes,
        "parameters": parameters._asdict(),
        "measures": {name: value for name, value in last.items() if name != "step"},
    }
    if (seconds := run.seconds) is not None:
        write_timing(run.folder, seconds, run.end)
    write_json(run.folder / "results.json", dict(results))
    shutil.rmtree(run.folder / "replay", ignore_errors=True)
    log = run.folder / "metrics.csv"
    if not log.exists() or not log.stat().st_size:
        begins = config.trial_steps(run.spec)
        warnings.warn(
            Notice(
                f"{run.folder}: nothing was learned in {config.steps:,} steps, since the first update comes after "
                f"{begins:,} of them and a complete episode; set more --steps."
            ),
            stacklevel=2,
        )


def enable_compilation_cache() -> None:
    """Cache compiled programs in the user's cache folder, so that later runs start faster."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillscape" / "jax"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    # All programs: a hundred small ones take longer to compile than a large one to load.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
