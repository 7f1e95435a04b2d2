"""From a specification to runs: each has a folder that identifies it, and a fine-tuning names what it needs."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from skillscape.api import is_host, maze_name
from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.ppo import PPO
from skillscape.envs.host import OWN_PREFIX, PIXEL_DOMAINS, host_tasks, make_host
from skillscape.envs.layouts import load_layout
from skillscape.envs.modules import trust
from skillscape.envs.urlb.tasks import DOMAINS, Domain
from skillscape.errors import UserError, choose
from skillscape.experiments.urlb import LEARNERS, SCRATCH, Part, Variant, shared_folder
from skillscape.objectives import trainable
from skillscape.presets import HostedSettings, Settings, default_preset, hosted_settings, settings
from skillscape.sweeps.spec import MOST_RUNS, OWN, Sweep, Values
from skillscape.training.changes import overridden
from skillscape.training.jobs import Job
from skillscape.training.runs import Pretraining

Kind = Literal["pretrain", "finetune", "scratch"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Pairs = tuple[tuple[str, Any], ...]
"""Fields and the value each of them has."""


@dataclass(frozen=True)
class PlannedRun:
    """One run. Its folder says all that sets it apart, so a run that is done, or done twice, is recognised by it."""

    kind: Kind
    folder: str
    """Below the folder of all runs."""
    method: str
    env: str
    task: str | None
    seed: int
    preset: str
    steps: int
    noise: float = 0.0
    skill: str | None = None
    snapshot: int | None = None
    objective: Pairs = ()
    backbone: Pairs = ()
    needs: str | None = None
    """Folder of the pre-training that a fine-tuning begins with."""

    @property
    def label(self) -> str:
        """In words."""
        return f"{Path(self.folder).parent.name} · seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> "PlannedRun":
        """Rebuild what ``to_json`` wrote."""
        pairs = {
            part: tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in values[part])
            for part in ("objective", "backbone")
        }
        return PlannedRun(**{**values, **pairs})


def plan(sweep: Sweep) -> tuple[PlannedRun, ...]:
    """All runs, each after what it needs, seed by seed; what could not be trained is refused."""
    for method in sweep.methods:
        choose("method", method, [*LEARNERS, *trainable()], "skillscape methods")
    _check_tasks(sweep)
    _check_size(sweep)
    grids = {env: _hosted_grid(sweep, env) if is_host(env) else _maze_grid(sweep, env) for env in sweep.envs}
    found: dict[str, PlannedRun] = {}
    for seed in sweep.seeds:
        for env in sweep.envs:
            for run in grids[env](seed):
                if found.setdefault(run.folder, run) != run:
                    raise UserError(f"Two different runs would share the folder {run.folder}; sweep over them apart.")
    if not found:
        raise UserError("The sweep has no run: ddpg learns tasks only, so add a task or a method to pre-train.")
    return tuple(found.values())


def _check_size(sweep: Sweep) -> None:
    """Refuse a grid too large to be meant, before it is laid out."""
    tried = [len(values) for _, values in (*sweep.objective, *sweep.backbone)]
    tasks = max(1, sum(len(tasks_of(sweep, env)) for env in sweep.envs))
    begun = math.prod([len(sweep.methods), len(sweep.seeds), len(sweep.noise), *tried])
    tuned = len(sweep.skills) * max(1, len(sweep.snapshots))
    if begun * max(len(sweep.envs), tasks * tuned) > MOST_RUNS:
        raise UserError(f"The grid has more than {MOST_RUNS:,} runs; try fewer values at a time.")


def counts(runs: Sequence[PlannedRun]) -> dict[Kind, int]:
    """How many runs there are of each kind."""
    counted = Counter(run.kind for run in runs)
    return {kind: counted[kind] for kind in KINDS}


def tasks_of(sweep: Sweep, env: str) -> tuple[str, ...]:
    """The tasks that an environment is fine-tuned on: an environment of Gymnasium is its own only one."""
    every = host_tasks(env)
    return every if sweep.tasks is None else tuple(task for task in every if task in sweep.tasks)


def _domain(env: str) -> Domain | None:
    """The domain of URLB that an environment is, as numbers or in images."""
    name = PIXEL_DOMAINS.get(env.partition("/")[0], env)
    return DOMAINS.get(name)


def _check_tasks(sweep: Sweep) -> None:
    for env in sweep.envs:
        trust(env)  # the user has named the specification, and so all that stands in it
        if not is_host(env):
            load_layout(maze_name(env))
        elif _domain(env) is None:
            make_host(env).close()
    known = [task for env in sweep.envs for task in tasks_of(_every_task(sweep), env)]
    for task in sweep.tasks or ():
        if task not in known:
            listed = ", ".join(known) or "none, since mazes have no tasks"
            raise UserError(f"{task!r} is not a task of {', '.join(sweep.envs)}; those are {listed}.")


def _every_task(sweep: Sweep) -> Sweep:
    return Sweep(sweep.name, sweep.methods, sweep.envs)


def _combinations(values: Values) -> Iterator[Pairs]:
    names = [name for name, _ in values]
    for chosen in itertools.product(*(tried for _, tried in values)):
        yield tuple(zip(names, chosen, strict=True))


def _words(objective: Pairs, backbone: Pairs) -> str:
    """Settings as they stand in the name of a folder: width=256-backbone.width=512."""

    def word(value: Any) -> str:  # noqa: ANN401
        if isinstance(value, tuple):
            return "x".join(word(one) for one in value)
        return f"{value:g}" if isinstance(value, float) else f"{value}".replace("/", "-")

    named = [*objective, *((f"backbone.{name}", value) for name, value in backbone)]
    return "-".join(f"{name}={word(value)}" for name, value in named)


class _Grid:
    """The runs of a seed in one environment."""

    def __init__(self, templates: Sequence[tuple[Part, PlannedRun]], group: str) -> None:
        self._templates, self._group = templates, group

    def __call__(self, seed: int) -> Iterator[PlannedRun]:
        for part, run in self._templates:
            folder = self._folder(part, seed)
            needs = self._folder(part._replace(task=None), seed) if run.kind == "finetune" else None
            yield PlannedRun(**{**vars(run), "folder": folder, "seed": seed, "needs": needs})

    def _folder(self, part: Part, seed: int) -> str:
        return part._replace(seed=seed).folder(Path(self._group)).as_posix()


def _maze_grid(sweep: Sweep, env: str) -> _Grid:
    preset = sweep.preset or "default"
    place = Path(maze_name(env)).stem
    templates = []
    group = ""
    for method in sweep.methods:
        if method in LEARNERS:
            continue
        chosen = settings(method, preset)
        steps = sweep.steps or chosen.steps
        group = "-".join(["maze", preset, f"{steps}"])
        for objective, backbone in itertools.product(_combinations(sweep.objective), _combinations(sweep.backbone)):
            _check_maze_run(env, chosen, objective, backbone, steps)
            part = Part(Variant(method, method, settings=_words(objective, backbone)), place, None, 0)
            run = PlannedRun(
                "pretrain", "", method, env, None, 0, preset, steps, objective=objective, backbone=backbone
            )
            templates.append((part, run))
    if any(sweep.noise):
        raise UserError(f"noise is for walker, quadruped, jaco and gym/ID; {env} has none.")
    return _Grid(templates, group)


def _check_maze_run(env: str, chosen: Settings, objective: Pairs, backbone: Pairs, steps: int) -> None:
    learner: PPO = overridden(chosen.backbone, dict(backbone), "backbone")
    Pretraining(
        env=env,
        layout=load_layout(maze_name(env)),
        objective=overridden(chosen.objective, dict(objective), "objective"),
        backbone=learner,
        steps=steps,
        seed=0,
        evaluate_every=chosen.evaluate_every,
        rollouts_per_skill=chosen.rollouts_per_skill,
    ).check()


def _hosted_grid(sweep: Sweep, env: str) -> _Grid:
    preset = sweep.preset or default_preset(env)
    base = hosted_settings(None, env, preset)
    budget = sweep.steps or base.steps, sweep.finetuning_steps or base.finetuning_steps
    templates: list[tuple[Part, PlannedRun]] = []
    for method in sweep.methods:
        for backbone in _combinations(sweep.backbone):
            if method in LEARNERS:
                templates += _from_scratch(sweep, env, preset, backbone, budget[1])
                continue
            for objective, noise in itertools.product(_combinations(sweep.objective), sweep.noise):
                templates += _pretrained(sweep, method, env, preset, noise, objective, backbone, budget)
    family = "urlb" if env in DOMAINS else "gym" if env.startswith(OWN_PREFIX) else "pixels"
    return _Grid(templates, shared_folder(preset, budget, family))


def _place(env: str) -> str:
    return env.removeprefix(OWN_PREFIX).replace("/", "-").replace(":", "-")


def _named_task(env: str, task: str) -> str:
    if env in DOMAINS:
        return task
    # An environment that is its own task needs another name for the folder of its fine-tuning.
    return f"{_place(env)}-{'task' if task == env else task}"


def _from_scratch(
    sweep: Sweep, env: str, preset: str, backbone: Pairs, steps: int
) -> Iterator[tuple[Part, PlannedRun]]:
    chosen = hosted_settings(None, env, preset)
    for task in tasks_of(sweep, env):
        run = PlannedRun("scratch", "", SCRATCH, env, task, 0, preset, steps, backbone=backbone)
        _job(run, chosen, "prior").check()
        variant = Variant(SCRATCH, SCRATCH, settings=_words((), backbone))
        yield Part(variant, _place(env), _named_task(env, task), 0), run


def _pretrained(
    sweep: Sweep,
    method: str,
    env: str,
    preset: str,
    noise: float,
    objective: Pairs,
    backbone: Pairs,
    budget: tuple[int, int],
) -> Iterator[tuple[Part, PlannedRun]]:
    """A pre-training, and every fine-tuning that begins with it."""
    chosen = hosted_settings(method, env, preset)
    source = PlannedRun(
        "pretrain", "", method, env, None, 0, preset, budget[0], noise, objective=objective, backbone=backbone
    )
    job = _job(source, chosen, "prior")
    job.check()
    variant = Variant(method, method, noise, settings=_words(objective, backbone))
    yield Part(variant, _place(env), None, 0), source
    kept = {*(step for step in chosen.snapshots if step <= budget[0]), budget[0]}
    for step in sweep.snapshots:
        if step not in kept:
            listed = ", ".join(f"{one}" for one in sorted(kept))
            raise UserError(f"snapshots cannot have {step}: the runs of this preset and budget keep {listed}.")
    # Methods without skills have nothing to choose, and the method's own rule is the same run by either name.
    own = (OWN, job.rewarded.adaptation)
    named_rules = dict.fromkeys(None if rule in own else rule for rule in sweep.skills)
    rules = (None,) if job.rewarded.skills.width == 0 else tuple(named_rules)
    for task, rule, snapshot in itertools.product(tasks_of(sweep, env), rules, sweep.snapshots or (None,)):
        run = PlannedRun(
            "finetune", "", method, env, task, 0, preset, budget[1], noise, rule, snapshot, objective, backbone
        )
        tuned = _job(run, chosen, rule or job.rewarded.adaptation)
        tuned.check()
        named = Variant(method, method, noise, rule, variant.settings, snapshot)
        yield Part(named, _place(env), _named_task(env, task), 0), run


def _job(run: PlannedRun, chosen: HostedSettings, skill: str) -> Job:
    """The job of a run, to check it before anything is trained."""
    learner: ReplayedBackbone[Any, Any] = overridden(chosen.backbone, dict(run.backbone), "backbone")
    objective = None if chosen.objective is None else overridden(chosen.objective, dict(run.objective), "objective")
    return Job(
        phase="pretrain" if run.kind == "pretrain" else "finetune",
        env=run.env,
        task=run.task,
        noise=run.noise,
        objective=objective,
        backbone=learner,
        steps=run.steps,
        seed=run.seed,
        evaluate_every=chosen.evaluate_every,
        evaluation_episodes=chosen.evaluation_episodes,
        skill=skill,
    )
