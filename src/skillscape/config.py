"""The configuration of a run: all that decides what it computes, in one record and one JSON format."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from skillscape import backbones, objectives
from skillscape.backbones.base import Backbone, TooShort, VectorBackbone
from skillscape.config_io import from_fields, plain
from skillscape.envs.base import EnvFamily, HostEnv, JaxEnv
from skillscape.envs.mazes.layouts import Layout
from skillscape.envs.registry import family_of, host_env, make_env
from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.ranges import LARGEST_INTEGER, NON_NEGATIVE, POSITIVE, Range, check_ranges
from skillscape.skill_selection import Strategy, parse_strategy
from skillscape.types import EnvSpec

FORMAT = "skillscape-run-2"
_FLAGS = {"noise": "env.noise", "copies": "env.copies"}
EARLIER = ("skillscape-run-1", "skillscape-job-1")
Phase: TypeAlias = Literal["pretrain", "finetune", "train"]
"""Without reward; on a task with a pre-trained agent; on a task from scratch."""
Part = TypeVar("Part")

_EPISODES = Range("between 1 and 10,000", 1, 10_000)


@dataclass(frozen=True)
class EvaluationConfig:
    """When a run is evaluated, and on how many episodes."""

    every: Annotated[int, POSITIVE] = 10_000
    """Environment steps between two evaluations, and between two checkpoints."""
    episodes: Annotated[int, _EPISODES] = 10
    """Episodes of an evaluation: for each skill in a maze without a task; elsewhere in all, at least one per skill."""
    coverage_episodes: Annotated[int, Range("between 0 and 10,000", 0, 10_000)] = 0
    """Deterministic episodes that policy state coverage counts, split equally among the skills, at least one each; 48
    in METRA's protocol. 0 counts the episodes of the evaluation."""


@dataclass(frozen=True)
class RunConfig:
    """All that decides what a run computes."""

    phase: Phase
    env: str
    """Environment ID: maze/NAME, walker, walker-pixels, gym/ID, …"""
    task: str | None
    """The task whose reward is learned from; None in pre-training."""
    objective: Objective[Any] | None
    """The method of the pre-training; None in training from scratch."""
    backbone: Backbone[Any, Any]
    steps: Annotated[int, POSITIVE]
    """Environment steps of the whole run."""
    seed: int = 0
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    noise: Annotated[float, NON_NEGATIVE] = 0.0
    """Standard deviation of Gaussian noise on the observations; in pre-training only."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments that the environment is made with."""
    env_position: tuple[int, ...] = ()
    """Entries of the observation that are coordinates of the body, for environments that do not tell them."""
    copies: Annotated[int, Range("between 1 and 256", 1, 256)] = 1
    """Copies of the environment that are stepped side by side on the host."""
    definition: Mapping[str, Any] | None = None
    """What the environment is made from, where that is a file which may change: the layout of a maze."""
    snapshots: tuple[int, ...] = ()
    """Steps after which the agent is kept for fine-tuning; the last step always is one."""
    skill: str = "prior"
    """How the skill that acts is chosen; see ``skill_selection``."""
    source: str | None = None
    """Name of the run whose agent a fine-tuning begins with."""
    snapshot: int | None = None
    """Step of the pre-training that a fine-tuning begins with."""
    finetuning_steps: Annotated[int, POSITIVE] = 100_000
    """Environment steps of a fine-tuning of this run unless told otherwise."""

    def __post_init__(self) -> None:
        """Have the arguments as a file gives them back, so that a run that goes on makes the same environment."""
        object.__setattr__(self, "env_kwargs", plain(self.env_kwargs, "--env.kwargs"))

    @property
    def method(self) -> str:
        """What the run is named after: its objective, or its backbone where it trains from scratch."""
        return self.backbone.name if self.objective is None else self.objective.name

    @property
    def label(self) -> str:
        """The method's name in tables and figures."""
        return self.backbone.label if self.objective is None else self.objective.label

    @cached_property
    def family(self) -> EnvFamily:
        """The family that the environment belongs to."""
        return family_of(self.env)

    @cached_property
    def layout(self) -> Layout | None:
        """The geometry of the environment, where its states are places in a maze."""
        return self.family.layout(self.env, self.definition)

    @property
    def measures_positions(self) -> bool:
        """Whether the run is measured by where the body goes: without a task, and not in a maze, which has its own."""
        return self.phase == "pretrain" and self.layout is None

    @cached_property
    def reward(self) -> Objective[Any]:
        """The objective that rewards this run: the method in pre-training, else the task's own reward."""
        if self.objective is None:
            return Extrinsic()
        if self.phase == "pretrain":
            return self.objective
        skills = self.objective.skills
        return Extrinsic(skills.kind, skills.width, self.objective.critic_head == "skill")  # type: ignore[arg-type]

    @property
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill, where skills change at all."""
        return None if self.objective is None else self.objective.resample_every

    @cached_property
    def strategy(self) -> Strategy:
        """How the skill that acts is chosen."""
        return parse_strategy(self.skill, self.reward.skills)

    def named_task(self, task: str | None) -> str:
        """The task of the environment that is meant, the default of the family if None; others are refused."""
        return self.family.task(self.env, task, definition=self.definition)

    def make_env(self) -> JaxEnv | HostEnv:
        """A fresh copy of the environment."""
        return make_env(self.env, self.task, **self._env_options)

    def host_env(self) -> HostEnv:
        """A fresh copy of the environment that can be stepped on the host."""
        return host_env(self.env, self.task, **self._env_options)

    @property
    def _env_options(self) -> dict[str, Any]:
        return {
            "noise": self.noise,
            "position": self.env_position,
            "kwargs": self.env_kwargs,
            "definition": self.definition,
        }

    def spec(self) -> EnvSpec:
        """Sizes of the environment; one is made to know them."""
        env = self.host_env()
        try:
            return env.spec
        finally:
            env.close()

    def check(self) -> None:
        """Refuse what cannot be trained in any environment."""
        if self.objective is not None:
            check_ranges(self.objective, "objective")
        check_ranges(self.backbone, "backbone")
        check_ranges(self.evaluation, "evaluation")
        check_ranges(self, flags=_FLAGS)
        if not 0 <= self.seed <= LARGEST_INTEGER:
            raise UserError(f"--seed must be between 0 and {LARGEST_INTEGER}, not {self.seed}.")
        if not all(0 < step <= LARGEST_INTEGER for step in self.snapshots):
            raise UserError(f"--snapshots must be steps above zero, not {min(self.snapshots)}.")
        if self.evaluation.episodes < 2 and self.layout is not None and self.task is None:
            raise UserError("--evaluation.episodes must be at least 2 in a maze: one to fit on and one to test on.")
        if self.strategy.infers and not (self.objective is not None and self.objective.infers_skill):
            raise UserError(
                f"{self.method} cannot infer a skill from rewards; choose --skill random, a number, or regress."
            )

    def trial_steps(self, spec: EnvSpec) -> int:
        """Environment steps before learning begins, by which skills are judged where they are."""
        backbone = self.backbone
        return backbone.steps_per_iteration(spec) if backbone.on_policy else backbone.schedule.warmup_steps

    def check_env(self, spec: EnvSpec) -> None:
        """Refuse what cannot be trained in an environment of these sizes."""
        if isinstance(self.backbone, VectorBackbone):
            self.backbone.observation_width(spec)
        short = self.backbone.too_short(spec.horizon)
        if short is not None:
            raise UserError(
                f"Episodes of {self.env} have {spec.horizon} steps, but {short.needed} are learned from; "
                f"set {flag_at_most(short)}."
            )
        stride = self.backbone.steps_per_iteration(spec)
        if self.steps < stride:
            raise UserError(
                f"--steps {self.steps} is below one iteration of {stride:,} steps ({stride // spec.horizon} episodes "
                f"of {spec.horizon}); ask for at least that many."
            )
        self._check_snapshots(stride)
        if self.backbone.on_policy and self.copies > 1:
            raise UserError(
                f"--env.copies is for backbones that learn from replay; {self.backbone.label} steps as many copies as "
                "--backbone.episodes says."
            )
        trial = self.trial_steps(spec)
        if self.strategy.needs_warmup_data and not 0 < trial <= self.steps - (stride > 1):
            raise UserError(
                f"--skill {self.skill} judges skills by the {trial:,} steps before learning begins, but --steps is "
                f"{self.steps:,}; ask for more steps than that, or choose --skill random."
            )

    def _check_snapshots(self, stride: int) -> None:
        for step in self.snapshots:
            if step > self.steps:
                raise UserError(f"--snapshots {step} is never reached: --steps is {self.steps:,}.")
            if step % stride:
                raise UserError(
                    f"--snapshots {step} falls within an iteration of {stride:,} steps; choose a multiple of that."
                )

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that ``from_json`` reads back."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {
            "format": FORMAT,
            **values,
            "objective": None if self.objective is None else _named(self.objective),
            "backbone": _named(self.backbone),
            "evaluation": asdict(self.evaluation),
            "snapshots": list(self.snapshots),
            "env_position": list(self.env_position),
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunConfig":
        """Rebuild a configuration, or say why it is not one of ours. Nothing is imported for it."""
        told = values.get("format")
        if told in EARLIER:
            raise UserError("this run was written by an earlier version of skillscape, and only that one can read it.")
        if told != FORMAT:
            raise UserError("config.json is not the configuration of a run.")
        plain = {name: value for name, value in values.items() if name not in ("format", "objective", "backbone")}
        objective = values["objective"]
        built = {
            "objective": None if objective is None else _rebuilt(objectives.registry(), objective, "method"),
            "backbone": _rebuilt(backbones.registry(), values["backbone"], "backbone"),
        }
        return from_fields(RunConfig, {**plain, **built})


def flag_at_most(short: TooShort) -> str:
    """The flag that makes a backbone learn from shorter episodes."""
    return f"--backbone.{short.setting.replace('_', '-')} to at most {short.most}"


def _named(part: Any) -> dict[str, Any]:  # noqa: ANN401  an objective or a backbone
    return {"name": part.name, **{name: _plain(value) for name, value in vars(part).items()}}


def _plain(value: Any) -> Any:  # noqa: ANN401
    return list(value) if isinstance(value, tuple) else value


def _rebuilt(known: Mapping[str, type[Part]], values: Mapping[str, Any], what: str) -> Part:
    settings = dict(values)
    name = settings.pop("name")
    if name not in known:
        raise UserError(
            f"config.json names the {what} {name!r}, which is not registered; install the package it is from, or name "
            "its module with --plugin."
        )
    return from_fields(known[name], settings)
