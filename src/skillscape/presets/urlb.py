"""URLB from states, and any environment with vector observations, with DDPG.

Laskin et al., URLB: Unsupervised Reinforcement Learning Benchmark, NeurIPS 2021. ``paper`` has its sizes and budget:
width and batch 1024, 2 million steps, 100,000 to fine-tune. ``compact`` is for a laptop. ``smoke`` is a test of a few
seconds; its numbers are meaningless.
"""

from dataclasses import replace

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.objectives.base import Scale
from skillscape.presets.settings import Preset, Sized
from skillscape.presets.urlb_pixels import URLB_PIXELS

SNAPSHOTS = (100_000, 500_000, 1_000_000, 2_000_000)


_PAPER = Scale(
    benchmark="urlb",
    preset="paper",
    width=1024,
    density_width=1024,
    module_width=1024,
    number_of_skills=16,
    resample_every=50,
    learning_rate=1e-4,
    epsilon=1e-8,
)
SCALES: dict[str, Scale] = {
    "compact": replace(_PAPER, preset="compact", width=256, density_width=128, module_width=64),
    "paper": _PAPER,
    "smoke": replace(_PAPER, preset="smoke", width=16, density_width=8, module_width=8),
}


def state_backbones(scale: Scale, pixels: str, *backbones: DDPG | SAC) -> dict[str, Sized]:
    """These backbones, and Dreamer with the settings of the pixel preset ``pixels``."""
    from_states = {backbone.name: Sized(backbone, scale) for backbone in backbones}
    return {**from_states, "dreamer": URLB_PIXELS[pixels].backbones["dreamer"]}


URLB: dict[str, Preset] = {
    "compact": Preset(
        state_backbones(
            SCALES["compact"],
            "laptop",
            DDPG(width=256, batch_size=256, skill_scale=3.0),
            SAC(hidden=(256, 256), skill_scale=3.0),
        ),
        steps=200_000,
        finetuning_steps=100_000,
        evaluate_every=10_000,
        evaluation_episodes=10,
        snapshots=SNAPSHOTS,
    ),
    "paper": Preset(
        state_backbones(SCALES["paper"], "paper", DDPG(), SAC()),
        steps=2_000_000,
        finetuning_steps=100_000,
        evaluate_every=10_000,
        evaluation_episodes=10,
        snapshots=SNAPSHOTS,
    ),
    "smoke": Preset(
        state_backbones(
            SCALES["smoke"],
            "smoke",
            DDPG(width=16, batch_size=32, warmup_steps=1_000),
            SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000),
        ),
        steps=2_000,
        finetuning_steps=2_000,
        evaluate_every=1_000,
        evaluation_episodes=2,
        snapshots=SNAPSHOTS,
    ),
}
