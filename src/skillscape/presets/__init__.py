"""Presets: named settings. Each benchmark has a table of them, its default first."""

from dataclasses import replace
from typing import Any

from skillscape import backbones
from skillscape.backbones.base import Backbone
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.errors import choose
from skillscape.objectives import registry
from skillscape.objectives.base import Objective
from skillscape.presets.locomotion import LOCOMOTION
from skillscape.presets.maze import MAZE
from skillscape.presets.playground import PLAYGROUND
from skillscape.presets.settings import Preset, Settings, Sized
from skillscape.presets.urlb import URLB
from skillscape.presets.urlb_pixels import MAZE_PIXELS, URLB_PIXELS

__all__ = ["Settings", "default_preset", "get", "names"]

TABLES: dict[str, dict[str, Preset]] = {
    "maze": MAZE,
    "maze-pixels": MAZE_PIXELS,
    "urlb": URLB,
    "urlb-pixels": URLB_PIXELS,
    "locomotion": LOCOMOTION,
    "playground": PLAYGROUND,
}


def names(benchmark: str) -> tuple[str, ...]:
    """The presets of a benchmark, its default first."""
    choose("benchmark", benchmark, TABLES)
    return tuple(TABLES[benchmark])


def default_preset(benchmark: str) -> str:
    """The preset of a benchmark if none is given."""
    return names(benchmark)[0]


def get(
    method: str | type[Objective[Any]] | Objective[Any] | None,
    benchmark: str,
    env_id: str,
    preset: str | None = None,
    backbone: str | None = None,
) -> Settings:
    """The settings of a preset for a method: its name, its class, or an objective; None is training from scratch.

    preset, backbone: the benchmark's default if None; a plug-in backbone has its own defaults.
    """
    kind = type(method) if isinstance(method, Objective) else _method(method)
    preset = preset or default_preset(benchmark)
    choose("preset", preset, names(benchmark))
    row = TABLES[benchmark][preset]
    sized = _sized(row, backbone)
    at = replace(sized.scale, env_id=env_id)
    return Settings(
        objective=method if isinstance(method, Objective) else None if kind is None else kind.at(at),
        backbone=_suited(sized.backbone, kind),
        steps=row.steps,
        finetuning_steps=row.finetuning_steps,
        evaluate_every=row.evaluate_every,
        evaluation_episodes=row.evaluation_episodes,
        snapshots=row.snapshots,
        coverage_episodes=row.coverage_episodes,
    )


def _method(method: str | type[Objective[Any]] | None) -> type[Objective[Any]] | None:
    if not isinstance(method, str):
        return method
    choose("method", method, registry(), "skillscape methods")
    return registry()[method]


def _sized(row: Preset, backbone: str | None) -> Sized:
    default = next(iter(row.backbones.values()))
    if backbone is None:
        return default
    choose("backbone", backbone, backbones.registry())
    if backbone in row.backbones:
        return row.backbones[backbone]
    return Sized(backbones.registry()[backbone](), default.scale)


def _suited(backbone: Backbone[Any, Any], method: type[Objective[Any]] | None) -> Backbone[Any, Any]:
    """The backbone with the settings that a method requires; None is training from scratch."""
    if isinstance(backbone, DDPG):
        # Methods that constrain single steps learn from one-step pairs.
        return replace(backbone, pairs="n-step" if method is None else method.pairs)
    if not isinstance(backbone, Dreamer):
        return backbone
    if method is None:
        return backbone.task_config(pretrained=False)
    behaviour, objective = backbone.behaviour, backbone.objective
    return replace(
        backbone,
        behaviour=replace(
            behaviour,
            entropy=behaviour.entropy if method.imagined_entropy is None else method.imagined_entropy,
            normalize="none" if method.own_unit else behaviour.normalize,
        ),
        objective=replace(objective, reward_gradient=objective.reward_gradient and method.reward_gradient),
    )
