"""What most users need from Python: pre-train, load, evaluate, act."""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.ppo import PPO
from skillscape.envs.host import MAZE_PREFIX, host_tasks, make_host
from skillscape.envs.layouts import Layout, builtin_layouts, load_layout
from skillscape.envs.maze_frames import Sight
from skillscape.envs.mazes import Maze
from skillscape.envs.modules import trust
from skillscape.errors import Notice, Unwritable, UserError, choose
from skillscape.evaluation.episodes import Evaluator
from skillscape.evaluation.mazes import MazeMeasures, measure, rollouts_per_skill
from skillscape.evaluation.rollouts import number_shown, skill_rollouts
from skillscape.evaluation.summary import Summary, summarise_measured
from skillscape.objectives import trainable
from skillscape.objectives.base import Objective
from skillscape.presets import HostedSettings, Settings, hosted_settings, settings
from skillscape.skills import SkillSpace
from skillscape.training.changes import check_unchanged, overridden
from skillscape.training.files import write_json
from skillscape.training.fused import TrainState
from skillscape.training.hosted import Evaluate, train_job
from skillscape.training.jobs import FORMAT as JOB_FORMAT
from skillscape.training.jobs import Job, JobRun, adapted_state, finetuning, init_state
from skillscape.training.log import read_metrics
from skillscape.training.loop import train_all
from skillscape.training.runs import Pretraining, Run, check_free, read_config, run_folders
from skillscape.training.several import each_possible

OnProgress = Callable[[Any, int, str, Mapping[str, float]], None]
"""Told now and then: run, step, pace in words, the newest metrics and measures."""
Overrides = Mapping[str, Any]
"""Fields of a method or a learner, with the values they have in place of the preset's."""


def pretrain(
    method: str,
    env: str = "maze/square_a",
    *,
    out: str | Path,
    preset: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    objective: Objective[Any] | Overrides | None = None,
    backbone: PPO | ReplayedBackbone[Any, Any] | Overrides | None = None,
    noise: float = 0.0,
    resume: bool = False,
    force: bool = False,
    workers: int | None = None,
    on_start: Callable[[], None] | None = None,
    on_progress: OnProgress | None = None,
) -> list[Any]:
    """Train ``method`` without reward; one run per seed, in ``out`` itself or in ``out``/seed_0, seed_1, ….

    ``env`` is what `skillscape envs` lists: maze/NAME, walker, walker-pixels, gym/ID, …; ``preset`` is "default" in
    mazes, "laptop" on images and "compact" elsewhere if not given. A mapping as ``objective`` or ``backbone`` changes
    some settings of the preset, as flags do: ``objective={"number_of_skills": 5}``; a whole object is taken as it is,
    with its own defaults, which are those of mazes. ``noise`` is added to observations (not in mazes without images).
    ``resume`` goes on with runs that stand there and starts the missing ones: ``steps`` and, without a ``preset``, all
    other settings that are not given are then those of the runs; in mazes ``steps`` may be raised. ``force`` replaces
    the runs. ``on_start`` is called when nothing stands in the way and the compilation begins, ``on_progress`` now and
    then.
    """
    if seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {seeds}.")
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}.")
    if resume and force:
        raise UserError("--resume and --force (resume=True and force=True) exclude each other; choose one.")
    choose("method", method, trainable(), "skillscape methods")
    if isinstance(objective, Objective) and objective.name != method:
        raise UserError(f"The objective {objective.name!r} is not that of {method!r}; give the same one twice.")
    start = on_start or (lambda: None)
    progress = on_progress or (lambda *_: None)
    trust(env)
    standing = standing_run(Path(out), env) if resume else None
    if is_host(env):
        chosen = hosted_preset(method, env, preset, standing)
        if isinstance(backbone, PPO):
            raise UserError(f"PPO runs in mazes only; {env} is trained with {chosen.backbone.name}.")
        budget = chosen.steps if steps is None else steps
        job = Job(
            phase="pretrain",
            env=env,
            task=None,
            noise=noise,
            objective=_settled(chosen.objective, objective, "objective"),
            backbone=_settled(chosen.backbone, backbone, "backbone"),
            steps=budget,
            seed=seed,
            evaluate_every=chosen.evaluate_every,
            evaluation_episodes=chosen.evaluation_episodes,
            snapshots=tuple(one for one in chosen.snapshots if one <= budget),
            finetuning_steps=chosen.finetuning_steps,
        )
        jobs = [replace(job, seed=seed + index) for index in range(seeds)]
        return _train_jobs([(one, None) for one in jobs], Path(out), seeds > 1, resume, force, start, progress)
    if noise:
        raise UserError("--env.noise is for walker, quadruped, jaco, gym/ID and images; maze/NAME has none.")
    if isinstance(backbone, ReplayedBackbone):
        raise UserError(f"{env} is trained with PPO; {backbone.name} is for environments on the host.")
    settled = maze_preset(method, preset, standing)
    configs = [
        Pretraining(
            env=env,
            layout=load_layout(maze_name(env)),
            objective=_settled(settled.objective, objective, "objective"),
            backbone=_settled(settled.backbone, backbone, "backbone"),
            steps=settled.steps if steps is None else steps,
            seed=seed + index,
            evaluate_every=settled.evaluate_every,
            rollouts_per_skill=settled.rollouts_per_skill,
        )
        for index in range(seeds)
    ]
    return _train_in_maze(configs, Path(out), resume, force, workers, start, progress)


def _settled(preset: Any, given: Any, key: str) -> Any:  # noqa: ANN401  a method or a learner
    """What is trained: the preset's, with some settings changed, or what was given instead."""
    return overridden(preset, given or {}, key) if given is None or isinstance(given, Mapping) else given


def standing_run(out: Path, env: str) -> Path | None:
    """Where a run stands that goes on, in ``out`` itself or as one of its seeds; one of another place is refused."""
    found = [path.parent for path in (out / "config.json", *sorted(out.glob("seed_*/config.json"))) if path.exists()]
    if not found:
        return None
    check_unchanged(found[0], {"env": read_config(found[0]).get("env")}, {"env": env})
    return found[0]


def maze_preset(method: str, preset: str | None, standing: Path | None) -> Settings:
    """A preset; of a run that goes on, its own budget and, where no preset is named, all its settings."""
    chosen = settings(method, preset or "default")
    if standing is None:
        return chosen
    run = Run(standing).config
    if preset is not None or run.objective.name != method:
        return replace(chosen, steps=run.steps)
    return Settings(run.objective, run.backbone, run.steps, run.evaluate_every, run.rollouts_per_skill)


def hosted_preset(method: str | None, env: str, preset: str | None, standing: Path | None) -> HostedSettings:
    """The same on a host environment; without a method, the learner alone."""
    chosen = hosted_settings(method, env, preset)
    if standing is None:
        return chosen
    job = JobRun(standing).config
    budget: dict[str, Any] = {"steps" if job.phase == "pretrain" else "finetuning_steps": job.steps}
    if preset is not None or job.method != (method or chosen.backbone.name):
        return replace(chosen, **budget)
    own = replace(chosen, objective=job.objective, backbone=job.backbone, finetuning_steps=job.finetuning_steps)
    budget |= {"evaluate_every": job.evaluate_every, "evaluation_episodes": job.evaluation_episodes}
    return replace(own, snapshots=job.snapshots, **budget)


def _train_in_maze(
    configs: list[Pretraining],
    out: Path,
    resume: bool,
    force: bool,
    workers: int | None,
    on_start: Callable[[], None],
    on_progress: OnProgress,
) -> list[Run]:
    folders = _folders(out, [config.seed for config in configs], len(configs) > 1)
    for config in configs:
        config.check()
    _check_folders(folders, resume, force)
    runs = [
        _resumed(folder, config)
        if resume and (folder / "config.json").exists()
        else Run.create(folder, config, force=force)
        for folder, config in zip(folders, configs, strict=True)
    ]
    enable_compilation_cache()
    unfinished = [run for run in runs if run.results is None]
    if unfinished:
        on_start()
        train_all(unfinished, evaluate_state, on_progress, workers=workers or min(len(unfinished), os.cpu_count() or 1))
    for run in unfinished:
        _write_results(run)
    return runs


def _folders(out: Path, seeds: list[int], several: bool) -> list[Path]:
    if several and (out / "config.json").exists():
        raise UserError(f"{out} holds a single run; choose another --out for several seeds.")
    return [out / f"seed_{seed}" for seed in seeds] if several else [out]


def _check_folders(folders: list[Path], resume: bool, force: bool) -> None:
    for folder in folders:
        if not (resume and (folder / "config.json").exists()):
            check_free(folder, force=force)


def finetune(
    source: str | Path,
    task: str | None = None,
    *,
    out: str | Path,
    skill: str | None = None,
    snapshot: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    resume: bool = False,
    force: bool = False,
    on_start: Callable[[], None] | None = None,
    on_progress: OnProgress | None = None,
) -> list[JobRun]:
    """Fine-tune a pre-trained run on a task, or each of its seeds if it has several.

    ``task``: one of the run's domain; an environment of Gymnasium is its own only task, which need not be said.
    ``skill``: see ``adaptation.Strategy``, or the number of a skill; the method's own rule if not given.
    ``snapshot``: step of the pre-training to begin with, the last if not given. ``steps``: as many as the preset of the
    pre-training gives a task if not given. ``seed``: that of the run if not given. With ``resume``, what is not given
    is as the fine-tuning that stands there has it.
    """
    if resume and force:
        raise UserError("--resume and --force (resume=True and force=True) exclude each other; choose one.")
    trust(task or "")
    _check_apart(Path(out), Path(source))
    sources = pretrained_jobs(source)
    if seed is not None and len(sources) > 1:
        raise UserError("--seed is for one run; the seeds of several runs are their own.")
    folders = _folders(Path(out), [one.config.seed for one in sources], len(sources) > 1)
    pairs: list[tuple[Job, JobRun | None]] = []
    for one, folder in zip(sources, folders, strict=True):
        standing = JobRun(folder).config if resume and (folder / "config.json").exists() else None
        # A run that is no fine-tuning is refused by name, like any other setting.
        tuned = standing if standing is not None and standing.phase == "finetune" else None
        budget = one.config.finetuning_steps if tuned is None else tuned.steps
        job = finetuning(
            one,
            task_of(one.config.env, task or (tuned.task if tuned else None)),
            skill or (tuned.skill if tuned else None),
            snapshot if snapshot is not None or tuned is None else tuned.snapshot,
            steps=budget if steps is None else steps,
            seed=(tuned or one.config).seed if seed is None else seed,
        )
        pairs.append((job, one))
    start, progress = on_start or (lambda: None), on_progress or (lambda *_: None)
    return _train_jobs(pairs, Path(out), len(pairs) > 1, resume, force, start, progress)


def pretrained_jobs(source: str | Path) -> list[JobRun]:
    """The runs that a fine-tuning begins with; those in mazes have nothing to be fine-tuned on."""
    folders = run_folders(Path(source))
    for folder in folders:
        env = read_config(folder).get("env")
        if isinstance(env, str) and _is_maze(env):
            raise UserError(f"{folder} was trained in {env}: mazes have no tasks yet; fine-tune a run from elsewhere.")
    return [JobRun(folder) for folder in folders]


def task_of(env: str, task: str | None) -> str:
    """The task that is meant in an environment; one of several has to be named."""
    if _is_maze(env):
        raise UserError(f"{env} is a maze, and mazes have no tasks yet; choose another environment.")
    if task:
        return task
    known = host_tasks(env)
    if not known:
        make_host(env).close()  # which refuses a name that there is not
    if len(known) != 1:
        raise UserError(f"Say which task to learn, for example --task walker_walk; {env} has {', '.join(known)}.")
    return known[0]


def _is_maze(env: str) -> bool:
    return not is_host(env) or env.startswith(MAZE_PREFIX)


def _check_apart(out: Path, source: Path) -> None:
    """Refuse to fine-tune into the folder of the pre-training, where nothing could be undone."""
    ours, theirs = out.resolve(), source.resolve()
    if ours == theirs or ours in theirs.parents or theirs in ours.parents:
        raise UserError(
            f"The fine-tuning would be written to {out}, but the run that it begins with is {source}; choose a folder "
            "apart from it with --out."
        )


def train_from_scratch(
    env: str,
    task: str | None = None,
    *,
    out: str | Path,
    preset: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    backbone: ReplayedBackbone[Any, Any] | Overrides | None = None,
    resume: bool = False,
    force: bool = False,
    on_start: Callable[[], None] | None = None,
    on_progress: OnProgress | None = None,
) -> JobRun:
    """Learn a task with its reward and without pre-training: what fine-tuning is compared with.

    ``task``: see ``finetune``; ``backbone``, ``steps`` and ``resume``: see ``pretrain``.
    """
    if resume and force:
        raise UserError("--resume and --force (resume=True and force=True) exclude each other; choose one.")
    trust(env)
    task = task_of(env, task)
    chosen = hosted_preset(None, env, preset, standing_run(Path(out), env) if resume else None)
    job = Job(
        phase="finetune",
        env=env,
        task=task,
        noise=0.0,
        objective=None,
        backbone=_settled(chosen.backbone, backbone, "backbone"),
        steps=chosen.finetuning_steps if steps is None else steps,
        seed=seed,
        evaluate_every=chosen.evaluate_every,
        evaluation_episodes=chosen.evaluation_episodes,
    )
    start, progress = on_start or (lambda: None), on_progress or (lambda *_: None)
    return _train_jobs([(job, None)], Path(out), False, resume, force, start, progress)[0]


def _train_jobs(
    pairs: list[tuple[Job, JobRun | None]],
    out: Path,
    several: bool,
    resume: bool,
    force: bool,
    on_start: Callable[[], None],
    on_progress: OnProgress,
) -> list[JobRun]:
    """Train jobs one after the other: each keeps both an environment and a learner busy."""
    folders = _folders(out, [job.seed for job, _ in pairs], several)
    for job, _ in pairs:
        job.check()
        env = job.make_env()
        env.close()
        job.check_env(env.spec)
    _check_folders(folders, resume, force)
    standing = [resume and (folder / "config.json").exists() for folder in folders]
    # What a fine-tuning begins with is made before any folder is: a wrong source leaves nothing behind.
    starts = [None if stands else _first_state(*pair) for stands, pair in zip(standing, pairs, strict=True)]
    runs = [
        _resumed_job(folder, job) if stands else JobRun.create(folder, job, force=force)
        for stands, folder, (job, _) in zip(standing, folders, pairs, strict=True)
    ]
    enable_compilation_cache()
    if any(run.results is None for run in runs):
        on_start()
    for run, start, (job, source) in zip(runs, starts, pairs, strict=True):
        if run.results is None:
            if source is not None and run.config.strategy.kind == "infer" and not (run.folder / "model").exists():
                run.lend_model(source.snapshot(run.config.snapshot)[2])
            with evaluating(run.config) as evaluate:
                train_job(run, start or _first_state(job, source), evaluate, on_progress)
            _write_job_results(run)
            _note_unlearned(run)
    return runs


def _note_unlearned(run: JobRun) -> None:
    """Warn of a run that has ended without a single update."""
    log = run.folder / "metrics.csv"
    if not log.exists() or not log.stat().st_size:
        job = run.config
        warnings.warn(
            Notice(
                f"{run.folder}: nothing was learned in {job.steps:,} steps, since learning begins after "
                f"{job.backbone.schedule.random_steps:,} of them and a complete episode; ask for more --steps."
            ),
            stacklevel=4,
        )


def _first_state(job: Job, source: JobRun | None) -> TrainState:
    """What training begins with: a pre-trained agent, or a fresh one."""
    if source is not None:
        return adapted_state(job, source)
    env = job.make_env()
    env.close()
    return init_state(job, env.spec)


def _resumed_job(folder: Path, job: Job) -> JobRun:
    run = JobRun(folder)
    # What a fine-tuning of it would take is not part of what the run itself computes.
    ours, theirs = (replace(one, finetuning_steps=0).to_json() for one in (job, run.config))
    check_unchanged(folder, theirs, ours)
    run.newest()  # a damaged checkpoint is refused before anything is compiled
    return run


DRAWN_SKILLS = 8
"""Skills that stand for all of them where they are a continuum."""


def skills_played(space: SkillSpace, drawn: int = DRAWN_SKILLS) -> Float[np.ndarray, "k z"]:
    """Every skill, or the same few draws each time where skills are a continuum."""
    return np.asarray(space.sample(jax.random.key(0), drawn) if space.count is None else space.all())


@contextmanager
def evaluating(job: Job) -> Iterator[Evaluate]:
    """The evaluation of a job: deterministic episodes. Environments are made when first needed.

    A pre-training plays every skill, side by side and on the same episodes; a fine-tuning the skill that it is of. A
    maze that is seen is measured as one that is not: stochastic episodes of every skill from the fixed start.
    """
    if job.env.startswith(MAZE_PREFIX):
        yield _evaluate_seen_maze
        return
    every = skills_played(job.rewarded.skills) if job.phase == "pretrain" else None
    number = job.evaluation_episodes if every is None else max(1, job.evaluation_episodes // len(every))
    made: list[Evaluator] = []

    def evaluate(run: JobRun, policy: PyTree, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
        skills = skill[None] if every is None else every
        if not made:
            made.append(Evaluator([run.config.make_env() for _ in range(len(skills) * number)], job.backbone))
        seeds = np.random.SeedSequence([job.seed, 0xE7A1, step]).generate_state(number) >> 1
        rows = np.repeat(skills, number, axis=0)
        played = made[0].play(policy, rows, [int(one) for one in seeds] * len(skills))
        if every is not None:
            each = played.returns.reshape(len(skills), number).mean(axis=1)
            return {
                "return": float(each.mean()),
                "return_best": float(each.max()),
                "return_worst": float(each.min()),
                "length": float(played.lengths.mean()),
            }
        return {
            "return": float(played.returns.mean()),
            "return_deviation": float(played.returns.std()),
            "length": float(played.lengths.mean()),
            "skill": float(np.argmax(skill)) if len(skill) else 0.0,
        }

    try:
        yield evaluate
    finally:
        for evaluator in made:
            evaluator.close()


def _evaluate_seen_maze(run: JobRun, policy: PyTree, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
    del skill
    layout = layout_of(run)
    positions = seen_rollouts(run.config, layout, policy)
    _keep_rollouts(run.folder, step, positions)
    return _told(measure(positions, layout))


SEEN_ROLLOUTS = 20
"""Episodes of each skill that a maze that is seen is measured on, at the least."""


def seen_rollouts(
    job: Job, layout: Layout, policy: PyTree, *, per_skill: int | None = None, seed: int = 0
) -> Float[np.ndarray, "k r t 2"]:
    """Where the episodes of every skill go in a maze that is seen; policy: see ``Backbone.policy_params``."""
    skills = job.rewarded.skills
    number = per_skill or rollouts_per_skill(SEEN_ROLLOUTS, number_shown(skills), layout)
    return skill_rollouts(Maze(layout), job.backbone, skills, policy, per_skill=number, seed=seed, see=Sight(layout))


def _told(measures: MazeMeasures) -> dict[str, float]:
    """The measures that say something: a single policy has no skills to tell apart."""
    return {name: value for name, value in measures._asdict().items() if value is not None}


def _write_job_results(run: JobRun) -> None:
    """The last evaluation as results.json; the replay buffer, which only training needs, is given up."""
    job = run.config
    path = run.folder / "evaluation.csv"
    last = {name: values[-1] for name, values in read_metrics(path).items() if values}
    if last.get("step") != job.steps:
        raise UserError(f"{path} is damaged: it has no row of the last step; restore it or train again with --force.")
    results = {
        "method": job.method,
        "phase": job.phase,
        "env": job.env,
        "task": job.task,
        "seed": job.seed,
        "steps": job.steps,
        "snapshot": job.snapshot,
        "skill_strategy": job.strategy.kind,
        "evaluation_episodes": job.evaluation_episodes,
        "measures": {name: value for name, value in last.items() if name != "step"},
    }
    write_json(run.folder / "results.json", results)
    shutil.rmtree(run.folder / "replay", ignore_errors=True)


def is_job(folder: str | Path) -> bool:
    """Whether a folder holds runs on a host environment, not in a maze."""
    return each_possible(run_folders(Path(folder)), read_config)[0].get("format") == JOB_FORMAT


def load_jobs(folder: str | Path) -> list[JobRun]:
    """The run on a host environment in a folder, or the runs of its seeds; see ``load``."""
    return each_possible(run_folders(Path(folder)), JobRun)


def skill_returns(
    folder: str | Path, *, task: str | None = None, episodes: int | None = None, drawn: int = DRAWN_SKILLS
) -> list[dict[str, Any]]:
    """What each skill of each seed earns in a task, by default the run's own: the same episodes for every skill.

    Where skills are a continuum, ``drawn`` of them are, and the one that a fine-tuning kept. "finetuned" names the
    skill that a fine-tuning kept, if it kept one. The newest snapshot acts, without noise.
    """
    trust(task or "")
    return each_possible(load_jobs(folder), lambda run: _skill_returns(run, task, episodes, drawn))


def _skill_returns(run: JobRun, task: str | None, episodes: int | None, drawn: int) -> dict[str, Any]:
    job = replace(run.config, noise=0.0, task=task or run.config.task)
    step, agent, _ = run.snapshot()
    number = episodes or job.evaluation_episodes
    space = job.rewarded.skills
    skills = dict(_named_skills(space, drawn))
    kept = run.lasting_skill() if job.phase == "finetune" and space.width else None
    finetuned = None
    if job.strategy.kind == "controller":
        # It mixes all skills, whichever it is given.
        skills = {"controller": next(iter(skills.values()))}
    elif kept is not None:
        finetuned = next((name for name, skill in skills.items() if np.array_equal(skill, kept)), "fine-tuned")
        skills = {finetuned: kept, **skills} if finetuned not in skills else skills
    evaluator = Evaluator([job.make_env() for _ in range(number)], job.backbone)
    try:
        policy = job.backbone.policy_params(agent)
        returns = {
            name: evaluator.play(policy, np.repeat(skill[None], number, axis=0), range(number)).returns.tolist()
            for name, skill in skills.items()
        }
    finally:
        evaluator.close()
    return {
        "method": job.method,
        "task": job.task or job.env,
        "seed": job.seed,
        "steps": step,
        "finetuned": finetuned,
        "returns": returns,
    }


def _named_skills(space: SkillSpace, drawn: int) -> Iterator[tuple[str, Float[np.ndarray, " z"]]]:
    noun = "draw" if space.count is None else "skill"
    for index, skill in enumerate(skills_played(space, drawn)):
        yield f"{noun} {index}", skill


def is_host(env: str) -> bool:
    """Whether an environment steps in ordinary Python: everything but the mazes, and those too where they are seen."""
    if env.startswith(MAZE_PREFIX.rstrip("/")):
        return True
    # A maze that lacks its family's name is still meant to be one, and is told how to write it.
    return not (env.startswith("maze") or env.endswith(".txt") or env in builtin_layouts())


def _resumed(folder: Path, config: Pretraining) -> Run:
    run = Run(folder)
    ours, theirs = config.to_json(), run.config.to_json()
    # A longer budget is the one change that leaves the steps already taken valid.
    check_unchanged(folder, {**theirs, "steps": ours["steps"]}, ours)
    run.newest_state()  # a damaged checkpoint is refused before anything is compiled
    if ours["steps"] == theirs["steps"]:
        return run
    if config.steps < run.config.steps:
        raise UserError(
            f"steps: {run.config.steps:,} in the run, {config.steps:,} asked for; the budget of {folder} can only be "
            "raised on --resume."
        )
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
        config.maze,
        config.backbone,
        config.objective.skills,
        config.backbone.policy_params(state.agent),
        per_skill=_per_skill(config),
    )
    _keep_rollouts(run.folder, int(state.step), positions)
    return _told(measure(positions, config.layout))


def _per_skill(config: Pretraining) -> int:
    return rollouts_per_skill(config.rollouts_per_skill, number_shown(config.objective.skills), config.layout)


def _keep_rollouts(folder: Path, step: int, positions: Float[np.ndarray, "k r t d"]) -> None:
    path = folder / "rollouts" / f"{step:012d}.npz"
    try:
        path.parent.mkdir(exist_ok=True)
        np.savez_compressed(path, positions=positions)
    except OSError as error:
        raise Unwritable(
            f"{path} cannot be written ({error.strerror}), so training stopped; put that right and go on with --resume."
        ) from error


def _write_results(run: Run) -> None:
    measures = evaluate(run)
    config = run.config
    results = {
        "method": config.objective.name,
        "env": config.env,
        "seed": config.seed,
        "steps": config.iterations * config.steps_per_iteration,
        "rollouts_per_skill": _per_skill(config),
        "measures": _told(measures),
    }
    write_json(run.folder / "results.json", results)


def load(folder: str | Path) -> list[Run]:
    """The run in a folder, or the runs of its seeds; a seed that cannot be read is left out with a warning."""
    return each_possible(run_folders(Path(folder)), Run)


def in_maze(run: Run | JobRun) -> bool:
    """Whether a run is measured by where its skills go, not by what they earn."""
    return isinstance(run, Run) or run.config.env.startswith(MAZE_PREFIX)


def layout_of(run: Run | JobRun) -> Layout:
    """The maze of a run."""
    if isinstance(run, Run):
        return run.config.layout
    if not in_maze(run):
        raise UserError(f"{run.folder} was not trained in a maze; `skillscape evaluate` tells what its skills earn.")
    return load_layout(run.config.env.removeprefix(MAZE_PREFIX))


def rollouts(run: Run | JobRun, *, per_skill: int | None = None, seed: int = 0) -> Float[np.ndarray, "k r t d"]:
    """Stochastic episodes of every skill of a run in a maze, seen or not, from the fixed start.

    ``per_skill``: episodes of each skill; if not given as in training, see ``evaluation.mazes.rollouts_per_skill``.
    """
    layout = layout_of(run)
    if isinstance(run, JobRun):
        policy = run.config.backbone.policy_params(run.snapshot()[1])
        return seen_rollouts(run.config, layout, policy, per_skill=per_skill, seed=seed)
    config = run.config
    return skill_rollouts(
        config.maze,
        config.backbone,
        config.objective.skills,
        config.backbone.policy_params(run.agent()),
        per_skill=per_skill or _per_skill(config),
        seed=seed,
    )


def evaluate(run: Run | JobRun, *, per_skill: int | None = None, seed: int = 0) -> MazeMeasures:
    """Coverage, reach, distinguishability and skill accuracy of a run in a maze, seen or not."""
    return measure(rollouts(run, per_skill=per_skill, seed=seed), layout_of(run))


def summarise_runs(runs: Sequence[Run | JobRun], *, per_skill: int | None = None) -> dict[str, Summary | None]:
    """Every measure over the seeds: mean, 95 % bootstrap interval (None for one seed), and each seed's value.

    None for a measure that tells skills apart where there is no second skill. A run that cannot be measured is left out
    with a warning if there are others.
    """
    measures = each_possible(runs, lambda run: evaluate(run, per_skill=per_skill))
    return {name: summarise_measured([getattr(one, name) for one in measures]) for name in MazeMeasures._fields}


class Policy:
    """A trained policy held to one skill: call it with an observation, get an action in [-1, 1]."""

    def __init__(self, run: Run, skill: int, *, seed: int = 0, explore: bool = True) -> None:
        """Load the skill with this index; with ``explore`` off it takes its most likely action."""
        every = np.asarray(run.config.objective.skills.all())
        if not 0 <= skill < len(every):
            raise UserError(f"There is no skill {skill}: {run.folder} has skills 0 to {len(every) - 1}.")
        self._skill = jnp.asarray(every[skill][None])
        self._policy = run.config.backbone.policy_params(run.agent())
        self._shape = run.config.maze.spec.obs_shape
        self._carry = run.config.backbone.initial_carry(1)
        self._key = jax.random.key(seed)
        backbone = run.config.backbone
        self._act = jax.jit(
            lambda policy, carry, obs, skill, key: backbone.act(policy, carry, obs, skill, key, explore)
        )

    def __call__(self, obs: Float[np.ndarray, "..."]) -> Float[np.ndarray, " a"]:
        """The action of this skill at ``obs``."""
        obs = np.asarray(obs, np.float32)
        if obs.shape != self._shape:
            raise UserError(f"This policy takes observations of shape {self._shape}, not {obs.shape}.")
        self._key, key = jax.random.split(self._key)
        action, self._carry = self._act(self._policy, self._carry, jnp.asarray(obs[None]), self._skill, key)
        return np.asarray(action[0])


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder, so that a second run starts at once."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillscape" / "jax"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
