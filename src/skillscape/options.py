"""The keyword arguments of ``pretrain``, ``finetune`` and ``train``, typed once for all three."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from skillscape.configure import BackboneChoice, Overrides
from skillscape.objectives.base import Objective
from skillscape.training.callbacks import Callback


class LaunchOptions(TypedDict, total=False):
    """Options of the launch, which do not change what a run computes."""

    resume: bool
    """Continue the runs that exist in the folder, by default with their own settings."""
    force: bool
    """Replace the runs that exist in the folder."""
    workers: int | None
    """Seeds trained at the same time where training is compiled as a whole; one per core if not given."""
    callbacks: Sequence[Callback]
    """Receive metrics and evaluations; TensorBoard if not given."""
    progress: bool
    """Whether progress is printed to standard error; on if not given."""


class TrainOptions(LaunchOptions, total=False):
    """Settings of a run that starts from scratch; by default those of the preset."""

    preset: str | None
    """Named settings; the default of the environment's benchmark if None."""
    backbone: BackboneChoice | None
    """Name ("ppo", "ddpg", "sac", "dreamer"), settings in place of the preset's, or a ``Backbone``."""
    evaluation: Overrides | None
    """Settings in place of the preset's: ``every``, ``episodes``."""
    steps: int | None
    seed: int
    env_kwargs: Mapping[str, Any]
    copies: int


class PretrainOptions(TrainOptions, total=False):
    """Settings of a pre-training."""

    objective: Objective[Any] | Overrides | None
    """Settings of the method in place of the preset's, as flags do: ``{"number_of_skills": 5}``; or all of them."""
    noise: float
    snapshots: tuple[int, ...] | None
    finetuning_steps: int | None


class FinetuneOptions(LaunchOptions, total=False):
    """Settings of a fine-tuning; by default those of the pre-training."""

    skill: str | int | None
    """"prior", "random", "constant", "regress", "grid", "infer", "controller", or the index of a skill."""
    snapshot: int | None
    """Step of the pre-training to begin with; its last if None."""
    backbone: Overrides | None
    evaluation: Overrides | None
    steps: int | None
    seed: int | None
