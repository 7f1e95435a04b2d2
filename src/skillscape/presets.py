"""Named settings. A preset is a Python value; ``default`` is what the evidence in docs/mazes.md chose."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from skillscape.backbones.ppo import PPO
from skillscape.errors import choose
from skillscape.objectives import registry
from skillscape.objectives.base import Objective
from skillscape.objectives.sd3 import SD3


@dataclass(frozen=True)
class Settings:
    """What a preset decides: the method, the learner, and the budget."""

    objective: Objective[Any]
    backbone: PPO
    steps: int = 250_000
    evaluate_every: int = 25_000
    rollouts_per_skill: int = 20


def _default(method: str) -> Settings:
    """The settings that show the method at its best in the mazes, the same learner for all methods."""
    return Settings(registry()[method](), PPO())


def _paper(method: str) -> Settings:
    """The literal settings of the papers and their codes: PPO entropy 0.025, plain α, no floor, newest batch only."""
    literal = SD3(
        bonus_scale=1.0,
        bonus_gate=False,
        floor=None,
        width=128,
        module_width=64,
        decoder_variance=0.02,
        learning_rate=1e-3,
        history=0,
    )
    return Settings(literal if method == "sd3" else registry()[method](), PPO(entropy=0.025, skill_scale=1.0))


def _long(method: str) -> Settings:
    """The default for 6.25 million steps, the budget of the published maze codes."""
    return replace(_default(method), steps=6_250_000, evaluate_every=250_000)


def _smoke(method: str) -> Settings:
    """A few seconds, to see that everything runs; its numbers mean nothing."""
    return Settings(registry()[method](), PPO(episodes=8, minibatches=2), 2_000, 800, 4)


PRESETS: dict[str, Callable[[str], Settings]] = {
    "default": _default,
    "paper": _paper,
    "long": _long,
    "smoke": _smoke,
}


def settings(method: str, preset: str = "default") -> Settings:
    """The settings of a preset for a method; unknown names are refused with the nearest known one."""
    choose("method", method, registry(), "skillscape methods")
    choose("preset", preset, PRESETS, "skillscape pretrain --help")
    return PRESETS[preset](method)
