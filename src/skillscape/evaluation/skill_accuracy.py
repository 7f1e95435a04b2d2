"""Skill accuracy in any environment: a held-out nearest-neighbour classifier of the skill from a state."""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Shaped

from skillscape.evaluation.mazes import Measurement

BLOCK = 8
"""Side of the blocks of pixels that are averaged before images are compared."""


def state_accuracy(episodes: Sequence[Sequence[Shaped[np.ndarray, "m ..."]]]) -> Measurement | None:
    """Fraction of states whose nearest neighbour in other episodes has the same skill, with its standard error.

    ``episodes``: skill → episode → states; the i-th episodes of all skills begin in the same state. Dimensions are
    divided by their standard deviation over all states, except pixels, which have one unit. Whole episodes are held
    out, since states of one episode depend on each other, together with the other skills' episodes that begin in the
    same state: k skills that behave identically then have an accuracy of 1 / k. Every skill has the same weight. None
    for one skill, or if a skill has one episode only.
    """
    if len(episodes) < 2 or min(len(rollouts) for rollouts in episodes) < 2:
        return None
    keys = [(skill, index) for skill, rollouts in enumerate(episodes) for index in range(len(rollouts))]
    vectors = [_flat(episodes[skill][index]) for skill, index in keys]
    lengths = [len(episode) for episode in vectors]
    states = np.concatenate(vectors)
    if episodes[0][0].ndim < 4:
        states = states / np.maximum(states.std(axis=0), 1e-6)
    squares = (states**2).sum(axis=1)
    skill_of, index_of = np.repeat(keys, lengths, axis=0).T
    correct: list[list[float]] = [[] for _ in episodes]
    for (skill, index), (begin, end) in zip(keys, itertools.pairwise(np.cumsum([0, *lengths])), strict=True):
        distance = squares[None] - 2 * states[begin:end] @ states.T
        distance[:, index_of == index] = np.inf
        correct[skill].append(float((skill_of[distance.argmin(axis=1)] == skill).mean()))
    per_skill = [np.array(fractions) for fractions in correct]
    mean = float(np.mean([fractions.mean() for fractions in per_skill]))
    variance = np.mean([fractions.var(ddof=1) / len(fractions) for fractions in per_skill]) / len(per_skill)
    return Measurement(mean, float(np.sqrt(variance)))


def _flat(states: Shaped[np.ndarray, "m ..."]) -> Float[np.ndarray, "m d"]:
    """States as vectors; images are averaged over blocks of pixels first."""
    if states.ndim == 4:
        rows, height, width, channels = states.shape
        high, wide = height // BLOCK * BLOCK, width // BLOCK * BLOCK
        blocks = states[:, :high, :wide].reshape(rows, high // BLOCK, BLOCK, wide // BLOCK, BLOCK, channels)
        states = blocks.mean(axis=(2, 4))
    return states.reshape(len(states), -1).astype(np.float64)
