"""How well a state names the skill that led to it, in any environment: a held-out nearest-neighbour classifier."""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from skillscape.evaluation.mazes import Measured

BLOCK = 8
"""Side of the blocks of pixels that are averaged before images are compared."""


def state_accuracy(episodes: Sequence[Sequence[Shaped[np.ndarray, "m ..."]]]) -> Measured | None:
    """Share of states whose nearest neighbour in other episodes has the same skill, with its standard error.

    ``episodes``: of each skill, the states of each of its episodes; the i-th ones of all skills begin alike. Entries
    are divided by their standard deviation over all states, but for pixels, which have one unit. Whole episodes are
    held out, since states of one episode depend on each other, and with them those that begin alike: k skills that all
    do the same are then right in 1 / k of the states. Each skill counts as much as any other. None where there is one
    skill, or a skill has one episode only.
    """
    if len(episodes) < 2 or min(len(rollouts) for rollouts in episodes) < 2:
        return None
    states = [[_flat(episode) for episode in rollouts] for rollouts in episodes]
    every = np.concatenate([episode for rollouts in states for episode in rollouts])
    if episodes[0][0].ndim < 4:
        every = every / np.maximum(every.std(axis=0), 1e-6)
    squares = (every**2).sum(axis=1)
    skill_of = np.concatenate([np.full(len(one), skill) for skill, rollouts in enumerate(states) for one in rollouts])
    lengths = [len(one) for rollouts in states for one in rollouts]
    numbers = [number for rollouts in states for number in range(len(rollouts))]
    number_of = np.repeat(numbers, lengths)
    begins = np.cumsum([0, *lengths])
    right: list[list[float]] = [[] for _ in states]
    for number, (begin, end) in zip(numbers, itertools.pairwise(begins), strict=True):
        own = every[begin:end]
        distance = squares[None] - 2 * own @ every.T
        distance[:, number_of == number] = np.inf
        guess = skill_of[distance.argmin(axis=1)]
        skill = skill_of[begin]
        right[skill].append(float((guess == skill).mean()))
    per_skill = [np.array(shares) for shares in right]
    mean = float(np.mean([shares.mean() for shares in per_skill]))
    variance = np.mean([shares.var(ddof=1) / len(shares) for shares in per_skill]) / len(per_skill)
    return Measured(mean, float(np.sqrt(variance)))


def _flat(states: Shaped[np.ndarray, "m ..."]) -> Float[np.ndarray, "m d"]:
    """States as vectors; of images, the means of blocks of pixels."""
    if states.ndim == 4:
        rows, height, width, channels = states.shape
        high, wide = height // BLOCK * BLOCK, width // BLOCK * BLOCK
        blocks = states[:, :high, :wide].reshape(rows, high // BLOCK, BLOCK, wide // BLOCK, BLOCK, channels)
        states = blocks.mean(axis=(2, 4))
    return states.reshape(len(states), -1).astype(np.float64)
