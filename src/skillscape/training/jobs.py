"""Runs on host environments: pre-training, fine-tuning and training from scratch are one kind of job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from skillscape.adaptation import Strategy, parse_strategy
from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.envs.base import HostEnv
from skillscape.envs.host import make_host
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.base import Objective
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.training.checkpoint import (
    checkpoint_folder,
    checkpoints,
    load_notes,
    load_tree,
    load_tree_and_notes,
    read_newest,
    save_tree,
)
from skillscape.training.files import locked, read_results
from skillscape.training.fused import TrainState
from skillscape.training.runs import check_counts, check_ranges, create_folder, from_fields, open_config
from skillscape.types import EnvSpec

FORMAT = "skillscape-job-1"
MOST_EPISODES = 1_000
"""Of one evaluation: each has an environment of its own."""
BACKBONES: dict[str, type[ReplayedBackbone[Any, Any]]] = {"ddpg": DDPG, "dreamer": Dreamer}


@dataclass(frozen=True)
class Job:
    """All that decides what a run on a host environment computes."""

    phase: Literal["pretrain", "finetune"]
    env: str
    task: str | None
    """The task whose reward is learned from; None in pre-training, where there is none."""
    noise: float
    """Deviation of the observation noise; in pre-training only."""
    objective: Objective[Any] | None
    """What was or is pre-trained with; None for training from scratch."""
    backbone: ReplayedBackbone[Any, Any]
    steps: int
    seed: int
    evaluate_every: int
    """Environment steps between two evaluations, and between two checkpoints."""
    evaluation_episodes: int
    snapshots: tuple[int, ...] = ()
    """Steps after which the agent is kept for fine-tuning; the last step always is one."""
    skill: str = "prior"
    """Which skill acts; see ``adaptation``."""
    source: str | None = None
    """Name of the run that was pre-trained, for the record."""
    snapshot: int | None = None
    """Step of the pre-training that this fine-tuning begins with."""
    finetuning_steps: int = 100_000
    """Steps that a fine-tuning of this run takes if nothing else is said."""

    @property
    def method(self) -> str:
        """What the run is called after: its objective, or the learner alone."""
        return self.backbone.name if self.objective is None else self.objective.name

    @property
    def rewarded(self) -> Objective[Any]:
        """The objective that gives the reward: the method in pre-training, the task after it."""
        if self.phase == "pretrain" and self.objective is not None:
            return self.objective
        if self.objective is None:
            return Extrinsic()
        skills: Any = self.objective.skills
        return Extrinsic(skills.kind, skills.width, self.objective.critic_head == "skill")

    @property
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill, where skills change at all."""
        return None if self.objective is None else self.objective.resample_every

    @property
    def strategy(self) -> Strategy:
        """How the skill is chosen."""
        return parse_strategy(self.skill, self.rewarded.skills)

    def make_env(self) -> HostEnv:
        """A fresh copy of the environment."""
        return make_host(self.env, self.task, self.noise)

    def check(self) -> None:
        """Refuse what cannot be trained."""
        if self.objective is not None:
            check_ranges(self.objective)
        check_ranges(self.backbone)
        schedule = self.backbone.schedule
        if self.steps < 1:
            raise UserError(f"--steps must be at least 1, not {self.steps}.")
        if schedule.random_steps < 0:
            raise UserError(f"--backbone.random-steps must not be negative, not {schedule.random_steps}.")
        if not 0 <= self.seed < 2**31:
            raise UserError(f"--seed must be between 0 and {2**31 - 1}, not {self.seed}.")
        check_counts(self.steps, self.evaluate_every, self.finetuning_steps, *self.snapshots)
        if not 1 <= self.evaluation_episodes <= MOST_EPISODES:
            raise UserError(f"An evaluation takes 1 to {MOST_EPISODES:,} episodes, not {self.evaluation_episodes}.")
        strategy = self.strategy
        if strategy.kind == "infer" and not (self.objective is not None and self.objective.infers_skill):
            method = "training from scratch" if self.objective is None else self.objective.name
            raise UserError(f"{method} cannot infer a skill from rewards; choose --skill random, a number, or regress.")
        if strategy.judges and not 0 < schedule.random_steps <= self.steps:
            raise UserError(
                f"--skill {self.skill} judges skills by the steps before learning begins: there must be some, and "
                f"--steps must reach to their end; there are {schedule.random_steps}, and --steps is {self.steps}."
            )

    def check_env(self, spec: EnvSpec) -> None:
        """Refuse an environment whose episodes are too short to learn from."""
        length = self.backbone.schedule.sequence_length
        if self.backbone.view == "sequences" and spec.horizon + 1 < length:
            raise UserError(
                f"Episodes of {self.env} have {spec.horizon} steps, but sequences of {length} states are learned from; "
                f"{self.advice('sequence_length', spec.horizon + 1)}."
            )

    def advice(self, setting: str, most: int, *, first: str = "set") -> str:
        """How to bring a setting of the learner down to ``most``; ``first``: how that begins in pre-training."""
        flag = f"--backbone.{setting.replace('_', '-')} of at most {most}"
        if self.source is not None:
            return f"pre-train again with {flag}"
        if self.phase == "pretrain":
            return f"{first} {flag}"
        return f"train from scratch in Python with backbone={{{setting!r}: {most}}}, since `finetune` has no such flag"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        values = {field: getattr(self, field) for field in _PLAIN}
        objective = None if self.objective is None else {"name": self.objective.name, **asdict(self.objective)}
        backbone: Any = self.backbone
        return {
            "format": FORMAT,
            **values,
            "snapshots": list(self.snapshots),
            "objective": objective,
            "backbone": {"name": self.backbone.name, **asdict(backbone)},
        }

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Job":
        """Rebuild a configuration, or say why it is not one of ours."""
        if values.get("format") != FORMAT:
            raise UserError("config.json was not written by this version of skillscape for such an environment.")
        objective, backbone = values["objective"], dict(values["backbone"])
        name = backbone.pop("name")
        if name not in BACKBONES:
            raise UserError(f"config.json names the backbone {name!r}, which this version of skillscape does not have.")
        if objective is not None:
            method = objective.pop("name")
            if method not in registry():
                raise UserError(f"config.json names the method {method!r}, which this skillscape does not have.")
            objective = from_fields(registry()[method], objective)
        plain = from_fields(_Plain, {field: values[field] for field in _PLAIN if field in values})
        return Job(
            objective=objective,
            backbone=from_fields(BACKBONES[name], backbone),
            **asdict(plain),
        )


@dataclass(frozen=True)
class _Plain:
    """The fields of a job that JSON holds as they are, to check their types when read."""

    phase: Literal["pretrain", "finetune"]
    env: str
    task: str | None
    noise: float
    steps: int
    seed: int
    evaluate_every: int
    evaluation_episodes: int
    skill: str
    source: str | None
    snapshot: int | None
    snapshots: tuple[int, ...]
    finetuning_steps: int = 100_000


_PLAIN = tuple(_Plain.__dataclass_fields__)


def init_state(job: Job, spec: EnvSpec) -> TrainState:
    """The state at step 0. Not compiled: see ``nets.orthogonal``."""
    objective = job.rewarded
    key, agent_key, objective_key = jax.random.split(jax.random.key(job.seed), 3)
    agent = job.backbone.init(agent_key, spec, objective)
    if job.strategy.kind == "controller":
        agent = job.backbone.with_controller(agent, jax.random.fold_in(agent_key, 1), spec, objective.skills.width)
    return TrainState(
        key, agent, objective.init(objective_key, job.backbone.objective_spec(spec)), jnp.asarray(0, jnp.int32)
    )


class JobRun:
    """One job, done or half done, in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open an existing run."""
        self.folder = folder
        self.config = open_config(folder, Job.from_json, Job.check)

    @staticmethod
    def create(folder: Path, job: Job, *, force: bool = False) -> "JobRun":
        """Lay out a new run folder. An existing one is replaced only with ``force``."""
        job.check()
        create_folder(folder, job.to_json(), force=force)
        return JobRun(folder)

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def results(self) -> dict[str, Any] | None:
        """What the finished run measured, or None while it is not finished."""
        return read_results(self.folder)

    @property
    def end(self) -> int:
        """The last step."""
        return self.config.steps

    @property
    def trained_steps(self) -> int:
        """Steps that the policy that acts was trained for: those of the newest snapshot."""
        return self.snapshot()[0]

    def due(self, step: int) -> bool:
        """Whether an evaluation is due after this step."""
        return step % self.config.evaluate_every == 0 or step == self.end

    @cached_property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        env = self.config.make_env()
        try:
            return env.spec
        finally:
            env.close()

    @cached_property
    def like(self) -> TrainState:
        """Shapes of the training state."""
        shapes: TrainState = jax.eval_shape(lambda: init_state(self.config, self.spec))
        return shapes

    def newest(self) -> tuple[TrainState, dict[str, Any]] | None:
        """State and notes of the newest checkpoint, if there is one."""
        found = read_newest(self.checkpoints, lambda path: load_tree_and_notes(path, self.like))
        return None if found is None else found[1]

    def save(self, state: TrainState, notes: dict[str, Any]) -> None:
        """Write a checkpoint."""
        save_tree(checkpoint_folder(self.checkpoints, int(state.step)), state, notes=notes)

    def keep_snapshot(self, state: TrainState) -> None:
        """Keep what fine-tuning may begin with: the agent and the objective's model, without optimisers."""
        parts = {"agent": state.agent, "objective": state.objective}
        save_tree(checkpoint_folder(self.folder / "snapshots", int(state.step)), parts, without="opt_state")

    def snapshot(self, step: int | None = None) -> tuple[int, Any, Any]:
        """Step, agent and objective state of a snapshot; the newest if no step is given. Never another run's."""
        found = dict(checkpoints(self.folder / "snapshots"))
        if not found:
            raise UserError(f"{self.folder} has no snapshot yet; pre-train it further with --resume.")
        wanted = max(found) if step is None else step
        if wanted not in found:
            known = ", ".join(f"{one}" for one in sorted(found))
            raise UserError(f"{self.folder} has no snapshot of step {wanted}; it has {known}.")
        like = {"agent": self.like.agent, "objective": self.like.objective}
        parts = load_tree(found[wanted], like, without="opt_state")
        return wanted, parts["agent"], parts["objective"]

    def lasting_skill(self) -> Float[np.ndarray, " z"] | None:
        """The skill that the run keeps or has settled on, or None where skills change with time."""
        found = read_newest(self.checkpoints, load_notes)
        try:
            lasting = None if found is None else found[1]["collector"]["lasting"]
            return None if lasting is None else np.asarray(lasting, np.float32)
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(f"{self.checkpoints}: the newest checkpoint does not say which skill acts.") from error

    def lend_model(self, objective_state: Any) -> None:  # noqa: ANN401  the objective's own type
        """Keep the pre-trained model of the objective beside a fine-tuning, for methods that infer a skill with it."""
        save_tree(self.folder / "model", objective_state, without="opt_state")

    def lent_model(self) -> Any:  # noqa: ANN401
        """What ``lend_model`` kept."""
        job = self.config
        if job.objective is None:
            raise UserError(f"{self.folder} was trained from scratch and has no model of skills.")
        method, features = job.objective, job.backbone.objective_spec(self.spec)
        like = jax.eval_shape(lambda: method.init(jax.random.key(0), features))
        return load_tree(self.folder / "model", like, without="opt_state")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes off this run."""
        with locked(self.folder):
            yield


def finetuning(source: JobRun, task: str, skill: str | None, snapshot: int | None, **changes: Any) -> Job:  # noqa: ANN401
    """The job that fine-tunes a snapshot of ``source`` on a task; ``changes`` are fields of the job."""
    config = source.config
    if config.phase != "pretrain" or config.objective is None:
        raise UserError(
            f"{source.folder} was trained with a task's reward already; give a run of `skillscape pretrain`."
        )
    step, _, _ = source.snapshot(snapshot)
    backbone, rule = config.backbone.for_task(pretrained=True), skill or config.objective.adaptation
    if rule == "infer" and backbone.objective_spec(source.spec) != config.backbone.objective_spec(source.spec):
        raise UserError(
            f"{source.folder} scored what fine-tuning does not compute, so no skill can be inferred from it; "
            "choose --skill random, an index, or regress."
        )
    return replace(
        config,
        phase="finetune",
        task=task,
        noise=0.0,
        backbone=backbone,
        skill=rule,
        source=source.folder.name,
        snapshot=step,
        snapshots=(),
        **changes,
    )


def adapted_state(job: Job, source: JobRun) -> TrainState:
    """The state that a fine-tuning begins with: the backbone keeps what survives, the rest is fresh."""
    target = job.make_env()
    spec = target.spec
    target.close()
    if (spec.obs_shape, spec.action_dim) != (source.spec.obs_shape, source.spec.action_dim):
        raise UserError(
            f"{source.folder} was pre-trained on observations {source.spec.obs_shape} and {source.spec.action_dim} "
            f"actions, but {job.task} has {spec.obs_shape} and {spec.action_dim}; choose a task of the same domain."
        )
    _, agent, _ = source.snapshot(job.snapshot)
    fresh = init_state(job, spec)
    adapt_key, controller_key = jax.random.split(jax.random.fold_in(fresh.key, 1))
    keep_critic = job.objective is not None and job.objective.keeps_critic
    adapted = job.backbone.adapt(agent, adapt_key, keep_critic=keep_critic)
    if job.strategy.kind == "controller":
        adapted = job.backbone.with_controller(adapted, controller_key, spec, job.rewarded.skills.width)
    return fresh._replace(agent=adapted)
