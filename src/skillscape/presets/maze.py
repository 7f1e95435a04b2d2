"""Mazes from positions: episodes of 50 steps under one of ten skills, with PPO.

``default`` is tuned in docs/notebook/mazes.md. ``paper`` has the settings of the papers and their code: PPO entropy
0.025, plain α, no floor, newest batch only. ``long`` is the default with the budget of the published code. ``smoke`` is
a test of a few seconds; its numbers are meaningless.
"""

from dataclasses import replace

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.ppo import PPO
from skillscape.backbones.sac import SAC
from skillscape.objectives.base import Scale
from skillscape.presets.settings import Preset, Sized
from skillscape.presets.urlb_pixels import MAZE_PIXELS


def _backbones(preset: str, ppo: PPO, ddpg: DDPG, sac: SAC, pixels: str) -> dict[str, Sized]:
    """PPO, DDPG, SAC, and Dreamer with the settings of the pixel preset ``pixels``."""
    # The same at every preset: the methods' networks are small here.
    scale = Scale(
        benchmark="maze",
        preset=preset,
        width=128,
        density_width=64,
        module_width=32,
        number_of_skills=10,
        resample_every=None,
        learning_rate=1e-3,
        epsilon=1e-3,
    )
    return {
        "ppo": Sized(ppo, replace(scale, replayed=False)),
        "ddpg": Sized(ddpg, scale),
        "sac": Sized(sac, scale),
        "dreamer": MAZE_PIXELS[pixels].backbones["dreamer"],
    }


_DDPG = DDPG(width=128, batch_size=256, warmup_steps=2_000)
_SAC = SAC(hidden=(128, 128), warmup_steps=2_000)
_DEFAULT = Preset(
    _backbones("default", PPO(), _DDPG, _SAC, "laptop"),
    steps=250_000,
    finetuning_steps=100_000,
    evaluate_every=25_000,
    evaluation_episodes=20,
    snapshots=(),
)
_PAPER = PPO(entropy=0.025, skill_scale=1.0, normalize_obs=False)

MAZE: dict[str, Preset] = {
    "default": _DEFAULT,
    "compact": _DEFAULT,  # the name of the laptop-sized budget on other benchmarks
    "paper": replace(_DEFAULT, backbones=_backbones("paper", _PAPER, _DDPG, _SAC, "paper")),
    "long": replace(
        _DEFAULT,
        backbones=_backbones("long", PPO(), _DDPG, _SAC, "laptop"),
        steps=6_250_000,
        evaluate_every=250_000,
    ),
    "smoke": Preset(
        _backbones(
            "smoke",
            PPO(episodes=8, minibatches=2),
            DDPG(width=16, batch_size=32, warmup_steps=1_000),
            SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000),
            "smoke",
        ),
        steps=2_000,
        finetuning_steps=2_000,
        evaluate_every=800,
        evaluation_episodes=4,
        snapshots=(),
    ),
}
