"""Records of presets: the settings that they resolve to, and the rows of their tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillscape.backbones.base import Backbone
from skillscape.objectives.base import Objective, Scale


@dataclass(frozen=True)
class Settings:
    """The settings of a preset: method, backbone, and budgets of pre-training and fine-tuning."""

    objective: Objective[Any] | None
    """The method; None in training from scratch."""
    backbone: Backbone[Any, Any]
    steps: int
    """Environment steps of pre-training."""
    finetuning_steps: int
    """Environment steps of fine-tuning, and of training from scratch."""
    evaluate_every: int
    """Environment steps between two evaluations."""
    evaluation_episodes: int
    """Episodes per evaluation; in mazes, per skill."""
    snapshots: tuple[int, ...]
    """Environment steps at which the pre-trained agent is saved."""
    coverage_episodes: int
    """Episodes counted by policy state coverage; 0 for those of the evaluation."""


class Sized(NamedTuple):
    """A backbone at the size of a preset, and the scale of the methods that it trains."""

    backbone: Backbone[Any, Any]
    scale: Scale


@dataclass(frozen=True)
class Preset:
    """A row of a benchmark's table: its backbones, the default first, and its budgets; see ``Settings``."""

    backbones: Mapping[str, Sized]
    steps: int
    finetuning_steps: int
    evaluate_every: int
    evaluation_episodes: int
    snapshots: tuple[int, ...]
    coverage_episodes: int = 0
