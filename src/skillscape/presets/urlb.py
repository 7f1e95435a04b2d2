"""URLB from states, and any environment with vector observations, with DDPG.

Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021. ``paper`` has its sizes and budget:
width and batch 1024, 2 million steps, 100,000 to fine-tune. ``compact`` is for a laptop. ``smoke`` is a test of a few
seconds; its numbers are meaningless.
"""

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.objectives.base import Scale
from skillscape.presets.settings import Preset, Sized
from skillscape.presets.urlb_pixels import URLB_PIXELS

SNAPSHOTS = (100_000, 500_000, 1_000_000, 2_000_000)


def _backbones(
    preset: str, width: int, density_width: int, module_width: int, ddpg: DDPG, sac: SAC, pixels: str
) -> dict[str, Sized]:
    """DDPG, SAC, and Dreamer with the settings of the pixel preset ``pixels``."""
    scale = Scale(
        benchmark="urlb",
        preset=preset,
        width=width,
        density_width=density_width,
        module_width=module_width,
        number_of_skills=16,
        resample_every=50,
        learning_rate=1e-4,
        epsilon=1e-8,
    )
    return {
        "ddpg": Sized(ddpg, scale),
        "sac": Sized(sac, scale),
        "dreamer": URLB_PIXELS[pixels].backbones["dreamer"],
    }


URLB: dict[str, Preset] = {
    "compact": Preset(
        _backbones("compact", 256, 128, 64, DDPG(width=256, batch_size=256), SAC(hidden=(256, 256)), "laptop"),
        steps=200_000,
        finetuning_steps=100_000,
        evaluate_every=10_000,
        evaluation_episodes=10,
        snapshots=SNAPSHOTS,
    ),
    "paper": Preset(
        _backbones("paper", 1024, 1024, 1024, DDPG(), SAC(), "paper"),
        steps=2_000_000,
        finetuning_steps=100_000,
        evaluate_every=10_000,
        evaluation_episodes=10,
        snapshots=SNAPSHOTS,
    ),
    "smoke": Preset(
        _backbones(
            "smoke",
            *(16, 8, 8),
            DDPG(width=16, batch_size=32, warmup_steps=1_000),
            SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000),
            "smoke",
        ),
        steps=2_000,
        finetuning_steps=2_000,
        evaluate_every=1_000,
        evaluation_episodes=2,
        snapshots=SNAPSHOTS,
    ),
}
