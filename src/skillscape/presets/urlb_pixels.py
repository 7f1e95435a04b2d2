"""URLB and mazes in images, with Dreamer.

Rajeswar et al., Mastering the Unsupervised Reinforcement Learning Benchmark from Pixels, ICML 2023. ``paper`` has its
sizes and budget: 2 million frames, 100,000 to fine-tune, two to an action. ``laptop`` is what two cores learn in an
hour: 20,000 frames of a body, 60,000 steps in a maze. ``smoke`` takes seconds, to see that everything runs; its numbers
mean nothing.

Methods meet what the world model remembers of images: vectors whose entries have mean zero and variance one.
"""

from dataclasses import replace

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, ReplayConfig, WorldConfig
from skillscape.objectives.base import Scale
from skillscape.presets.settings import Preset, Sized

PAPER = Dreamer()
"""The reference's sizes: convolutions of depth 48, 32 × 32 latents, 50 × 50 states, all of them imagined from."""

# Thousands of updates instead of hundreds of thousands have to do: hence what is larger here than at ``paper``.
LAPTOP = Dreamer(
    world=WorldConfig(
        # Products instead of convolutions.
        encoder="patches",
        stoch=16,
        classes=16,
        units=256,
        layers=3,
        activation="relu",
        # Images are normalised and the KL weighs less, so that a body of few pixels is worth its nats.
        normalize_images=True,
        kl_scale=0.1,
        learning_rate=1e-3,
    ),
    behaviour=BehaviourConfig(
        units=256,
        layers=3,
        activation="relu",
        imagined_starts=128,
        learning_rate=3e-4,
        skill_scale=5.0,
        # Larger steps along the slopes of a critic that knows little yet would carry the actor to where its tanh is
        # flat, and it would stay there. Rewards are without their mean, which is all that the critic would learn in
        # the time.
        actor_output_l2=1e-2,
        center_rewards=True,
    ),
    replay=ReplayConfig(batch_size=16, sequence_length=32, warmup_steps=1_000, capacity=100_000),
)

SMOKE = Dreamer(
    world=WorldConfig(
        encoder="patches",
        patch=16,
        patch_width=8,
        embedding=16,
        deter=16,
        hidden=16,
        stoch=4,
        classes=4,
        units=16,
        layers=1,
        activation="relu",
    ),
    behaviour=BehaviourConfig(units=16, layers=1, activation="relu", imagined_starts=16, horizon=5),
    replay=ReplayConfig(
        batch_size=4,
        sequence_length=8,
        update_every=20,
        warmup_steps=1_000,
        task_warmup_steps=1_000,
        capacity=10_000,
    ),
)

_LAPTOP_SCALE = Scale(
    benchmark="urlb-pixels",
    preset="laptop",
    width=256,
    density_width=64,
    module_width=32,
    number_of_skills=16,
    resample_every=50,
    learning_rate=1e-3,  # so few updates are larger
    epsilon=1e-8,
)
_PAPER_SCALE = replace(
    _LAPTOP_SCALE, preset="paper", width=1024, density_width=128, module_width=64, learning_rate=1e-4
)
_SMOKE_SCALE = replace(_LAPTOP_SCALE, preset="smoke", width=16, density_width=8, module_width=4, learning_rate=1e-4)

URLB_PIXELS: dict[str, Preset] = {
    "laptop": Preset(
        {"dreamer": Sized(LAPTOP, _LAPTOP_SCALE)},
        steps=10_000,
        finetuning_steps=10_000,
        evaluate_every=2_500,
        evaluation_episodes=3,
        snapshots=(10_000,),
    ),
    "paper": Preset(
        {"dreamer": Sized(PAPER, _PAPER_SCALE)},
        steps=1_000_000,
        finetuning_steps=50_000,
        evaluate_every=5_000,
        evaluation_episodes=10,
        snapshots=(50_000, 250_000, 500_000, 1_000_000),
    ),
    "smoke": Preset(
        {"dreamer": Sized(SMOKE, _SMOKE_SCALE)},
        steps=1_500,
        finetuning_steps=1_500,
        evaluate_every=500,
        evaluation_episodes=1,
        snapshots=(100_000, 500_000, 1_000_000, 2_000_000),
    ),
}


def _in_maze(preset: Preset, backbone: Dreamer) -> Preset:
    """A preset for mazes, whose short episodes are of one of ten skills, as without images."""
    scale = preset.backbones["dreamer"].scale
    scale = replace(scale, benchmark="maze-pixels", number_of_skills=10, resample_every=None)
    return replace(preset, backbones={"dreamer": Sized(backbone, scale)}, evaluation_episodes=20)


MAZE_PIXELS: dict[str, Preset] = {
    # A step in a maze costs next to nothing beside an update, and skills separate by what they do now.
    "laptop": replace(
        _in_maze(URLB_PIXELS["laptop"], replace(LAPTOP, replay=replace(LAPTOP.replay, update_every=15))), steps=60_000
    ),
    "paper": _in_maze(URLB_PIXELS["paper"], PAPER),
    "smoke": _in_maze(URLB_PIXELS["smoke"], SMOKE),
}
