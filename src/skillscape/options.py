"""The keyword arguments of ``pretrain``, ``finetune`` and ``train``, typed once for all three."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from skillscape.configure import BackboneChoice, Overrides
from skillscape.objectives.base import Objective
from skillscape.training.callbacks import Callback


class LaunchOptions(TypedDict, total=False):
    """How runs are launched, whatever they compute."""

    resume: bool
    """Go on with runs that stand there; their own settings hold where nothing else is given."""
    force: bool
    """Replace runs that stand there."""
    workers: int | None
    """Seeds trained at the same time where training is compiled as a whole; one per core if not given."""
    callbacks: Sequence[Callback]
    """Who hears of metrics and evaluations; TensorBoard if not given."""
    progress: bool
    """Whether standard error tells how far the runs are; on if not given."""


class TrainOptions(LaunchOptions, total=False):
    """Settings of a run that begins from nothing; the preset's where they are not given."""

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


class PretrainOptions(TrainOptions, total=False):
    """Settings of a pre-training."""

    objective: Objective[Any] | Overrides | None
    """Settings of the method in place of the preset's, as flags do: ``{"number_of_skills": 5}``; or all of them."""
    noise: float
    env_position: Sequence[int]
    """Entries of the observation that are coordinates of the body, counted from 0; for gym/ID."""
    snapshots: tuple[int, ...] | None
    finetuning_steps: int | None


class FinetuneOptions(LaunchOptions, total=False):
    """Settings of a fine-tuning; those of the pre-training where they are not given."""

    skill: str | int | None
    """"prior", "random", "constant", "regress", "grid", "infer", "controller", or the index of a skill."""
    snapshot: int | None
    """Step of the pre-training to begin with; its last if None."""
    backbone: Overrides | None
    evaluation: Overrides | None
    steps: int | None
    seed: int | None
