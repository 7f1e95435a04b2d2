"""MuJoCo Playground with PPO: thousands of bodies in one compiled program.

``default`` is sized for a GPU after the settings that Playground trains its own tasks with (Zakka et al., MuJoCo
Playground, 2025): 2048 bodies, unrolls of about 30 steps, 32 minibatches. It is not tuned for any method, and has not
been trained: see docs/gpu.md. ``compact`` is the same with 64 bodies, for a CPU. ``smoke`` takes minutes, most of them
to compile; its numbers mean nothing.
"""

from dataclasses import replace

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.ppo import PPO
from skillscape.backbones.sac import SAC
from skillscape.objectives.base import Scale
from skillscape.presets.settings import Preset, Sized
from skillscape.presets.urlb_pixels import URLB_PIXELS

_PPO = PPO(
    episodes=2048,
    unroll=32,
    hidden=(256, 256),
    gae_lambda=0.95,
    minibatches=32,
    model_epochs=1,
    epsilon=1e-8,
    entropy=0.01,
    normalize_objective_obs=True,
)


def _backbones(preset: str, width: int, ppo: PPO, sac: SAC, ddpg: DDPG, pixels: str) -> dict[str, Sized]:
    """PPO and what else there is; Dreamer and its methods are as in images at the preset ``pixels``."""
    scale = Scale(
        benchmark="playground",
        preset=preset,
        width=width,
        density_width=width // 2,
        module_width=width // 4,
        number_of_skills=16,
        resample_every=None,
        learning_rate=3e-4,
        epsilon=1e-8,
    )
    return {
        "ppo": Sized(ppo, replace(scale, replayed=False)),
        "sac": Sized(sac, scale),
        "ddpg": Sized(ddpg, scale),
        "dreamer": URLB_PIXELS[pixels].backbones["dreamer"],
    }


_SAC = SAC(hidden=(256, 256))
_DDPG = DDPG(width=256, batch_size=256)
PLAYGROUND: dict[str, Preset] = {
    "default": Preset(
        _backbones("default", 256, _PPO, _SAC, _DDPG, "laptop"),
        steps=50_000_000,
        finetuning_steps=10_000_000,
        evaluate_every=5_000_000,
        evaluation_episodes=16,
        snapshots=(),
    ),
    "compact": Preset(
        _backbones("compact", 256, replace(_PPO, episodes=64, minibatches=8), _SAC, _DDPG, "laptop"),
        steps=1_000_000,
        finetuning_steps=500_000,
        evaluate_every=250_000,
        evaluation_episodes=16,
        snapshots=(),
    ),
    "smoke": Preset(
        _backbones(
            "smoke",
            32,
            replace(_PPO, episodes=8, unroll=16, hidden=(16, 16), minibatches=2),
            SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000),
            DDPG(width=16, batch_size=32, warmup_steps=1_000),
            "smoke",
        ),
        steps=2_048,
        finetuning_steps=2_048,
        evaluate_every=1_024,
        evaluation_episodes=2,
        snapshots=(),
    ),
}
