"""What presets are made of: the record that they decide, and the rows of their tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillscape.backbones.base import Backbone
from skillscape.objectives.base import Objective, Scale


@dataclass(frozen=True)
class Settings:
    """What a preset decides: the method, the backbone, and the budgets of pre-training and of learning a task."""

    objective: Objective[Any] | None
    """None is learning a task from scratch."""
    backbone: Backbone[Any, Any]
    steps: int
    """Environment steps of pre-training."""
    finetuning_steps: int
    """Environment steps of learning a task."""
    evaluate_every: int
    """Environment steps between two evaluations."""
    evaluation_episodes: int
    """Episodes of an evaluation; in mazes, for each skill."""
    snapshots: tuple[int, ...]
    """Environment steps after which the state of pre-training is kept."""
    coverage_episodes: int
    """Episodes that policy state coverage counts; 0 for those of the evaluation."""


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
