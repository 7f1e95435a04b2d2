"""What most users need from Python: pre-train, load, evaluate, act."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from skillscape.backbones.ppo import PPO
from skillscape.envs.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import MazeMeasures, measure
from skillscape.evaluation.rollouts import skill_rollouts
from skillscape.evaluation.summary import Summary, summarise
from skillscape.objectives.base import Objective
from skillscape.presets import settings
from skillscape.training.fused import TrainState
from skillscape.training.loop import OnProgress, train_all
from skillscape.training.runs import Pretraining, Run, check_free, open_runs, write_json


def pretrain(
    method: str,
    env: str = "maze/square_a",
    *,
    out: str | Path,
    preset: str = "default",
    steps: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    objective: Objective[Any] | None = None,
    backbone: PPO | None = None,
    resume: bool = False,
    force: bool = False,
    workers: int | None = None,
    on_start: Callable[[], None] | None = None,
    on_progress: OnProgress | None = None,
) -> list[Run]:
    """Train ``method`` without reward; one run per seed, in ``out`` itself or in ``out``/seed_0, seed_1, ….

    ``objective`` and ``backbone`` replace what the preset would choose. ``resume`` goes on with runs that stand there,
    with *their* configuration, and starts the missing ones; ``force`` replaces them. ``on_start`` is called when
    nothing stands in the way and the compilation begins, ``on_progress`` after every iteration.
    """
    if seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}.")
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}.")
    if resume and force:
        raise UserError("--resume and --force exclude each other; choose one.")
    chosen = settings(method, preset)
    if method == "extrinsic":
        raise UserError("extrinsic is the task's own reward, which pre-training goes without; choose another method.")
    if objective is not None and objective.name != method:
        raise UserError(f"The objective {objective.name!r} is not that of {method!r}; give the same one twice.")
    layout = load_layout(maze_name(env))
    configs = [
        Pretraining(
            env=env,
            layout=layout,
            objective=objective or chosen.objective,
            backbone=backbone or chosen.backbone,
            steps=chosen.steps if steps is None else steps,
            seed=seed + index,
            evaluate_every=chosen.evaluate_every,
            rollouts_per_skill=chosen.rollouts_per_skill,
        )
        for index in range(seeds)
    ]
    folders = [Path(out)] if seeds == 1 else [Path(out) / f"seed_{config.seed}" for config in configs]
    for config in configs:
        config.check()
    if seeds > 1 and (Path(out) / "config.json").exists():
        raise UserError(f"{out} holds a single run; choose another --out for several seeds.")
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
    unfinished = [run for run in runs if run.results is None]
    if unfinished:
        if on_start is not None:
            on_start()
        train_all(
            unfinished,
            evaluate_state,
            on_progress or (lambda *_: None),
            workers=workers or min(len(unfinished), os.cpu_count() or 1),
        )
    for run in unfinished:
        _write_results(run)
    return runs


def _resumed(folder: Path, config: Pretraining) -> Run:
    run = Run(folder)
    ours, theirs = config.to_json(), run.config.to_json()
    # A longer budget is the one change that leaves the steps already taken valid.
    different = [name for name in ours if ours[name] != theirs[name] and name != "steps"]
    if different:
        raise UserError(
            f"{folder} was trained with another {different[0]}; resume it with its own settings "
            "(see its config.json) or choose another --out."
        )
    run.newest_state()  # a damaged checkpoint is refused before anything is compiled
    if ours["steps"] == theirs["steps"]:
        return run
    if config.steps < run.config.steps:
        raise UserError(f"{folder} has a budget of {run.config.steps:,} steps; --steps can only be raised on --resume.")
    write_json(folder / "config.json", ours)
    (folder / "results.json").unlink(missing_ok=True)
    return Run(folder)


def maze_name(env: str) -> str:
    """What follows ``maze/`` in an environment's name."""
    family, _, name = env.partition("/")
    if family != "maze" or not name:
        raise UserError(
            f"There is no environment {env!r}: write maze/NAME or maze/PATH.txt; `skillscape envs` lists them."
        )
    return name


def evaluate_state(run: Run, state: TrainState) -> Mapping[str, float]:
    """Measure a state of training and keep the episodes it was measured on in ``rollouts/``."""
    config = run.config
    positions = skill_rollouts(
        config.maze, config.backbone, config.objective.skills, state.agent, per_skill=config.rollouts_per_skill
    )
    folder = run.folder / "rollouts"
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{int(state.step):012d}.npz", positions=positions)
    return measure(positions, config.layout)._asdict()


def _write_results(run: Run) -> None:
    measures = evaluate(run)
    config = run.config
    results = {
        "method": config.objective.name,
        "env": config.env,
        "seed": config.seed,
        "steps": config.iterations * config.steps_per_iteration,
        "rollouts_per_skill": config.rollouts_per_skill,
        "measures": measures._asdict(),
    }
    write_json(run.folder / "results.json", results)


def load(folder: str | Path) -> list[Run]:
    """The run in a folder, or the runs of its seeds."""
    return open_runs(Path(folder))


def rollouts(run: Run, *, per_skill: int | None = None, seed: int = 0) -> Float[np.ndarray, "k r t d"]:
    """Stochastic episodes of every skill of a run, from the fixed start."""
    config = run.config
    return skill_rollouts(
        config.maze,
        config.backbone,
        config.objective.skills,
        run.agent(),
        per_skill=per_skill or config.rollouts_per_skill,
        seed=seed,
    )


def evaluate(run: Run, *, per_skill: int | None = None, seed: int = 0) -> MazeMeasures:
    """Coverage, reach, distinguishability and skill accuracy of a run."""
    return measure(rollouts(run, per_skill=per_skill, seed=seed), run.config.layout)


def summarise_runs(runs: list[Run], *, per_skill: int | None = None) -> dict[str, Summary]:
    """Every measure over the seeds: mean, 95 % bootstrap interval, and each seed's value."""
    measures = [evaluate(run, per_skill=per_skill) for run in runs]
    return {name: summarise([getattr(one, name) for one in measures]) for name in MazeMeasures._fields}


class Policy:
    """A trained policy held to one skill: call it with an observation, get an action in [-1, 1]."""

    def __init__(self, run: Run, skill: int, *, seed: int = 0, explore: bool = True) -> None:
        """Load the skill with this index; with ``explore`` off it takes its most likely action."""
        every = np.asarray(run.config.objective.skills.all())
        if not 0 <= skill < len(every):
            raise UserError(f"There is no skill {skill}: {run.folder} has skills 0 to {len(every) - 1}.")
        self._skill = jnp.asarray(every[skill][None])
        self._agent = run.agent()
        self._shape = run.config.maze.spec.obs_shape
        self._carry = run.config.backbone.start(1)
        self._key = jax.random.key(seed)
        backbone = run.config.backbone
        self._act = jax.jit(lambda agent, carry, obs, skill, key: backbone.act(agent, carry, obs, skill, key, explore))

    def __call__(self, obs: Float[np.ndarray, "..."]) -> Float[np.ndarray, " a"]:
        """The action of this skill at ``obs``."""
        obs = np.asarray(obs, np.float32)
        if obs.shape != self._shape:
            raise UserError(f"This policy takes observations of shape {self._shape}, not {obs.shape}.")
        self._key, key = jax.random.split(self._key)
        action, self._carry = self._act(self._agent, self._carry, jnp.asarray(obs[None]), self._skill, key)
        return np.asarray(action[0])


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder, so that a second run starts at once."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillscape" / "jax"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
