"""Ant and HalfCheetah with SAC, as METRA's line of work trains skills there.

Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024. ``paper`` has its sizes and
budget: two layers of 1024, Adam 1e-4, batches of 256, τ = 0.005, γ = 0.99, 50 updates for every 8 episodes of 200
steps, ten million steps. ``compact`` is for a laptop. ``smoke`` takes seconds, to see that everything runs; its numbers
mean nothing. A skill lasts an episode, and coverage counts METRA's 48 episodes.
"""

from dataclasses import replace

from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.sac import SAC
from skillscape.presets.settings import Preset, Sized
from skillscape.presets.urlb import SCALES, state_backbones

COVERAGE_EPISODES = 48


def _backbones(preset: str, pixels: str, sac: SAC, ddpg: DDPG) -> dict[str, Sized]:
    """SAC and what else there is, at the sizes of URLB; Dreamer is as in images at the preset ``pixels``."""
    return state_backbones(replace(SCALES[preset], benchmark="locomotion", resample_every=None), pixels, sac, ddpg)


LOCOMOTION: dict[str, Preset] = {
    "compact": Preset(
        _backbones(
            "compact",
            "laptop",
            SAC(hidden=(256, 256), update_every=4),
            DDPG(width=256, batch_size=256, update_every=4),
        ),
        steps=400_000,
        finetuning_steps=100_000,
        evaluate_every=20_000,
        evaluation_episodes=COVERAGE_EPISODES,
        snapshots=(100_000, 200_000, 400_000),
        coverage_episodes=COVERAGE_EPISODES,
    ),
    "paper": Preset(
        _backbones(
            "paper",
            "paper",
            # In the reference the policy collects the first 10,000 transitions; here they are uniform random.
            SAC(update_every=32, warmup_steps=10_000),
            DDPG(update_every=32, warmup_steps=10_000),
        ),
        steps=10_000_000,
        finetuning_steps=1_000_000,
        evaluate_every=100_000,
        evaluation_episodes=COVERAGE_EPISODES,
        snapshots=(1_000_000, 2_000_000, 5_000_000, 10_000_000),
        coverage_episodes=COVERAGE_EPISODES,
    ),
    "smoke": Preset(
        _backbones(
            "smoke",
            "smoke",
            SAC(hidden=(16, 16), batch_size=32, warmup_steps=1_000),
            DDPG(width=16, batch_size=32, warmup_steps=1_000),
        ),
        steps=2_000,
        finetuning_steps=2_000,
        evaluate_every=1_000,
        evaluation_episodes=2,
        snapshots=(),
    ),
}
