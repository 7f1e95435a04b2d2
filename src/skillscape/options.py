"""The keyword arguments of ``pretrain``, ``finetune`` and ``train``, typed once for all three."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from skillscape.configure import BackboneChoice, Overrides
from skillscape.objectives.base import Objective
from skillscape.training.callbacks import Callback


class LaunchOptions(TypedDict, total=False):
    """Options of launching runs, which do not change their results."""

    resume: bool
    """Continue interrupted runs; their own settings are the defaults."""
    force: bool
    """Delete existing runs in the folder and start again."""
    workers: int | None
    """Seeds trained in parallel, for on-policy backbones; one per core if not given."""
    callbacks: Sequence[Callback]
    """Callbacks for metrics and evaluations; TensorBoard if not given."""
    progress: bool
    """Whether to print progress on standard error; on if not given."""


class TrainSettings(TypedDict, total=False):
    """Settings of a run with a new agent; by default the preset's."""

    preset: str | None
    """Named settings; the default of the environment's benchmark if None."""
    backbone: BackboneChoice | None
    """Name ("ppo", "ddpg", "sac", "dreamer"), settings in place of the preset's, or a ``Backbone``."""
    evaluation: Overrides | None
    """Settings in place of the preset's: ``every``, ``episodes``, ``coverage_episodes``."""
    steps: int | None
    seed: int
    env_kwargs: Mapping[str, Any]
    copies: int


class TrainOptions(TrainSettings, LaunchOptions, total=False):
    """Settings of a run with a new agent, and options of launching it."""


class PretrainSettings(TrainSettings, total=False):
    """Settings of a pre-training."""

    objective: Objective[Any] | Overrides | None
    """Settings of the method in place of the preset's, such as ``{"number_of_skills": 5}``; or an ``Objective``."""
    noise: float
    env_position: Sequence[int]
    """Entries of the observation that are coordinates of the body, counted from 0; for gym/ID."""
    snapshots: tuple[int, ...] | None
    finetuning_steps: int | None


class PretrainOptions(PretrainSettings, LaunchOptions, total=False):
    """Settings of a pre-training, and options of launching it."""


class FinetuneOptions(LaunchOptions, total=False):
    """Settings of a fine-tuning; by default those of the pre-training."""

    skill: str | int | None
    """"prior", "random", "constant", "regress", "grid", "infer", "controller", or the index of a skill."""
    snapshot: int | None
    """Step of the pre-training's snapshot to start from; the last if None."""
    backbone: Overrides | None
    evaluation: Overrides | None
    steps: int | None
    seed: int | None


class GoalOptions(TypedDict, total=False):
    """Options of zero-shot goal reaching."""

    number: int | None
    """Number of goals; 50 if None, and in mazes the centre of each cell."""
    goal_range: float | None
    """Half the side R of the square around the start that goals are drawn from; the environment's if None."""
    within: Sequence[float] | None
    """Distances within which a goal counts as reached; the environment's if None."""
    episodes: int
    """Episodes per goal; 1 if not given."""
    explore: bool
    """Whether to sample actions instead of taking their mean; off if not given."""
    hindsight: bool
    """Whether to also measure the best skill of each goal in hindsight; off if not given."""
    seed: int
    """Seed of goals and episodes; 0 if not given."""
