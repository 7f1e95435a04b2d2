"""Named settings of Dreamer: the reference's sizes, those of a laptop, and the least that runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.objectives.base import Objective


def _paper() -> Dreamer:
    """The reference's sizes: convolutions of depth 48, 32 × 32 latents, 50 × 50 states, all of them imagined from."""
    return Dreamer()


def _laptop() -> Dreamer:
    """What two cores can learn in an hour: products instead of convolutions, and few states to imagine from.

    Thousands of updates instead of hundreds of thousands have to do: frames are standardised, steps are larger, and
    the KL weighs less, so that a body of few pixels is worth its nats. Larger steps along the slopes of a critic that
    knows little yet would carry the actor to where its tanh is flat, and it would stay there: it is restrained.
    Rewards are without their mean, which is all that the critic would learn in the time.
    """
    return Dreamer(
        encoder="patches",
        standardise_frames=True,
        divergence_scale=0.1,
        model_learning_rate=1e-3,
        learning_rate=3e-4,
        skill_scale=5.0,
        restraint=1e-2,
        centred=True,
        groups=16,
        classes=16,
        units=256,
        layers=3,
        activation="relu",
        batch_size=16,
        sequence_length=32,
        imagined_starts=128,
        random_steps=1_000,
        replay_capacity=100_000,
    )


def _smoke() -> Dreamer:
    """To see that everything runs; what it learns means nothing."""
    return Dreamer(
        encoder="patches",
        patch=16,
        patch_width=8,
        embedding=16,
        memory=16,
        hidden=16,
        groups=4,
        classes=4,
        units=16,
        layers=1,
        activation="relu",
        batch_size=4,
        sequence_length=8,
        imagined_starts=16,
        horizon=5,
        update_every=20,
        random_steps=1_000,
        policy_steps=1_000,
        replay_capacity=10_000,
    )


SIZES: dict[str, Callable[[], Dreamer]] = {"paper": _paper, "laptop": _laptop, "smoke": _smoke}


def dreamer(size: str, method: type[Objective[Any]] | None) -> Dreamer:
    """Dreamer at a size, with what goes with a method; no method is a task from scratch."""
    backbone = SIZES[size]()
    if method is None:
        return backbone.for_task(pretrained=False)
    entropy = backbone.entropy if method.imagined_entropy is None else method.imagined_entropy
    return replace(
        backbone,
        entropy=entropy,
        normalise="none" if method.own_unit else backbone.normalise,
        reward_gradient=backbone.reward_gradient and method.reward_gradient,
    )
