"""The configuration of a run: every setting that its results depend on, in one record and one JSON format."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from skillscape import backbones, objectives
from skillscape.backbones.base import Backbone, TooShort, VectorBackbone
from skillscape.config_io import as_json, from_fields, plain
from skillscape.envs.base import EnvFamily, HostEnv, JaxEnv
from skillscape.envs.mazes.layouts import Layout
from skillscape.envs.registry import families, family_of, host_env, make_env
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
"""Pre-training without task reward; fine-tuning on a task; training on a task from scratch."""
Part = TypeVar("Part")

_EPISODES = Range("between 1 and 10,000", 1, 10_000)


@dataclass(frozen=True)
class EvaluationConfig:
    """Interval and number of episodes of evaluations."""

    every: Annotated[int, POSITIVE] = 10_000
    """Environment steps between two evaluations, which also write a checkpoint."""
    episodes: Annotated[int, _EPISODES] = 10
    """Episodes per evaluation, 1 to 10,000: per skill in a maze without a task, else in total."""
    coverage_episodes: Annotated[int, Range("between 0 and 10,000", 0, 10_000)] = 0
    """Deterministic episodes counted by policy state coverage, 0 to 10,000, split equally among the skills, at least
    one each; 48 in METRA's protocol. 0 counts the episodes of the evaluation."""


@dataclass(frozen=True)
class RunConfig:
    """Every setting that the results of a run depend on."""

    phase: Phase
    env: str
    """Environment ID: maze/NAME, walker, walker-pixels, gym/ID, playground/NAME, …"""
    task: str | None
    """The task whose reward is maximised; None in pre-training."""
    objective: Objective[Any] | None
    """The pre-training method; None in training from scratch."""
    backbone: Backbone[Any, Any]
    steps: Annotated[int, POSITIVE]
    """Environment steps of the whole run."""
    seed: int = 0
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    noise: Annotated[float, NON_NEGATIVE] = 0.0
    """Standard deviation of Gaussian observation noise, in pre-training only."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment."""
    env_position: tuple[int, ...] = ()
    """Entries of the observation that are coordinates of the body, for environments that do not give them."""
    copies: Annotated[int, Range("between 1 and 256", 1, 256)] = 1
    """Number of environment copies stepped in parallel on the host."""
    definition: Mapping[str, Any] | None = None
    """Contents of the file that defines the environment, which may change later: the layout of a maze."""
    snapshots: tuple[int, ...] = ()
    """Steps at which the agent is saved for fine-tuning, in addition to the last step."""
    skill: str = "prior"
    """Skill selection of a fine-tuning; see ``skill_selection``."""
    source: str | None = None
    """Name of the pre-training that a fine-tuning starts from."""
    snapshot: int | None = None
    """Step of the snapshot that a fine-tuning starts from."""
    finetuning_steps: Annotated[int, POSITIVE] = 100_000
    """Default number of environment steps of a fine-tuning of this run."""

    def __post_init__(self) -> None:
        """Convert the keyword arguments to what JSON gives back, so that a resumed run builds the same environment."""
        object.__setattr__(self, "env_kwargs", plain(self.env_kwargs, "--env.kwargs"))

    @property
    def method(self) -> str:
        """Name of the objective, or of the backbone in training from scratch."""
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
        """The layout of a maze whose states are positions; None elsewhere."""
        return self.family.layout(self.env, self.definition)

    @property
    def measures_positions(self) -> bool:
        """Whether the run is measured by where the body goes: without a task, and not in a maze, which has its own."""
        return self.phase == "pretrain" and self.layout is None

    @cached_property
    def reward(self) -> Objective[Any]:
        """The objective whose reward is maximised: the method in pre-training, else the task reward."""
        if self.objective is None:
            return Extrinsic()
        if self.phase == "pretrain":
            return self.objective
        skills = self.objective.skills
        return Extrinsic(skills.kind, skills.width, self.objective.critic_head == "skill")  # type: ignore[arg-type]

    @property
    def resample_every(self) -> int | None:
        """Environment steps between two draws of a skill; None draws one skill per episode."""
        return None if self.objective is None else self.objective.resample_every

    @property
    def adaptation(self) -> str:
        """Skill selection of a fine-tuning of this run unless told otherwise: the method's, or the backbone's."""
        if self.objective is None:
            return "prior"
        rule = self.objective.adaptation
        regress = self.backbone.selects_skill_by_regress and rule in ("prior", "random")
        return "regress" if regress and (self.objective.skills.count or 0) > 1 else rule

    @cached_property
    def strategy(self) -> Strategy:
        """The parsed skill selection."""
        return parse_strategy(self.skill, self.reward.skills)

    def named_task(self, task: str | None) -> str:
        """The name of a task of the environment, its default if None; unknown tasks are refused."""
        return self.family.task(self.env, task, definition=self.definition)

    def make_env(self) -> JaxEnv | HostEnv:
        """A new copy of the environment."""
        return make_env(self.env, self.task, **self._env_options)

    def host_env(self) -> HostEnv:
        """A new copy of the environment that is stepped on the host."""
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
        """Shapes of the environment, which is built to read them."""
        env = self.host_env()
        try:
            return env.spec
        finally:
            env.close()

    def check(self) -> None:
        """Refuse settings that are invalid in any environment."""
        check_ranges(self, flags=_FLAGS)
        if not 0 <= self.seed <= LARGEST_INTEGER:
            raise UserError(f"--seed must be between 0 and {LARGEST_INTEGER}, not {self.seed}.")
        if not all(0 < step <= LARGEST_INTEGER for step in self.snapshots):
            raise UserError(f"--snapshots must be steps above zero, not {min(self.snapshots)}.")
        if self.evaluation.episodes < 2 and self.layout is not None and self.task is None:
            raise UserError(
                "--evaluation.episodes is 1, but a maze needs 2 or more: to fit and to test the skill classifier."
            )
        if self.reward.relabels and not self.backbone.relabels:
            raise UserError(
                f"{self.method} relabels transitions with other skills, which {self.backbone.label} cannot learn from; "
                "choose the backbone ddpg or sac, or settings that do not relabel."
            )
        if self.strategy.infers and not (self.objective is not None and self.objective.infers_skill):
            raise UserError(
                f"{self.method} cannot infer a skill from rewards; choose --skill random, a number, or regress."
            )

    def trial_steps(self, spec: EnvSpec) -> int:
        """Environment steps before the first update, the warm-up data that skills may be selected from."""
        backbone = self.backbone
        if not backbone.on_policy:
            return backbone.schedule.warmup_steps
        # As many iterations as it takes to see as many steps as an episode has.
        return backbone.steps_per_iteration(spec) * -(-spec.horizon // (backbone.unroll_steps or spec.horizon))

    def check_env(self, spec: EnvSpec) -> None:
        """Refuse settings that are invalid in an environment of these shapes."""
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
            length = self.backbone.unroll_steps or spec.horizon
            raise UserError(
                f"--steps is {self.steps}, but one iteration takes {stride:,} ({stride // length} episodes of "
                f"{length}); set --steps to at least {stride:,}."
            )
        self._check_snapshots(stride)
        if self.backbone.on_policy and self.copies > 1:
            raise UserError(
                f"--env.copies is {self.copies}, but {self.backbone.label} does not learn from replay; set "
                "--backbone.episodes instead."
            )
        trial = self.trial_steps(spec)
        if self.strategy.needs_warmup_data and not 0 < trial <= self.steps - (stride > 1):
            raise UserError(
                f"--skill {self.skill} selects a skill from the warm-up data of {trial:,} steps, but --steps is "
                f"{self.steps:,}; set 0 < warm-up < --steps, or choose --skill random."
            )

    def _check_snapshots(self, stride: int) -> None:
        for step in self.snapshots:
            if step > self.steps:
                raise UserError(
                    f"--snapshots {step} is beyond --steps {self.steps:,}; choose steps up to the last one."
                )
            if step % stride:
                raise UserError(
                    f"--snapshots {step} is not a multiple of an iteration of {stride:,} steps; choose a multiple."
                )

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON values that ``from_json`` reads back."""
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
        """Rebuild a configuration, or raise an error that says why it cannot be. Imports nothing."""
        version = values.get("format")
        if version in EARLIER:
            raise UserError("the run was written by an earlier version of skillscape; read it with that version.")
        if version != FORMAT:
            raise UserError(f"config.json has the format {version!r}, not {FORMAT!r}; give the folder of a run.")
        plain = {name: value for name, value in values.items() if name not in ("format", "objective", "backbone")}
        objective = values["objective"]
        built = {
            "objective": None if objective is None else _rebuilt(objectives.registry(), objective, "method"),
            "backbone": _rebuilt(backbones.registry(), values["backbone"], "backbone"),
        }
        config = from_fields(RunConfig, {**plain, **built})
        if not any(family.owns(config.env) for family in families().values()):
            raise UserError(_absent("environment", config.env))
        return config


def flag_at_most(short: TooShort) -> str:
    """The flag, and its largest value, with which a backbone can learn from short episodes."""
    return f"--backbone.{short.setting.replace('_', '-')} to at most {short.most}"


def _named(part: Any) -> dict[str, Any]:  # noqa: ANN401  an objective or a backbone
    return {"name": part.name, **as_json(part)}


def _rebuilt(known: Mapping[str, type[Part]], values: Mapping[str, Any], what: str) -> Part:
    settings = dict(values)
    name = settings.pop("name")
    if name not in known:
        raise UserError(_absent(what, name))
    return from_fields(known[name], settings)


def _absent(what: str, name: str) -> str:
    return (
        f"config.json names the {what} {name!r}, which is not registered; install the package it is from, or name its "
        "module with --plugin."
    )
