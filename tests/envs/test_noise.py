"""Noise on observations: its size, its seed, and what it leaves alone."""

from typing import final

import numpy as np
import pytest

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.noise import Noisy
from skillscape.types import EnvSpec


@final
class Still(HostEnv):
    """Says the same number for ever, and counts."""

    def __init__(self):
        self.steps, self.closed = 0, False

    @property
    def spec(self):
        return EnvSpec((50,), 1, 400)

    def reset(self, seed):
        self.steps = 0
        return np.full(50, 3.0, np.float32)

    def step(self, action):
        self.steps += 1
        return HostStep(np.full(50, 3.0, np.float32), 1.5, self.steps == 9, self.steps == 7)

    def close(self):
        self.closed = True


def episode(env, seed, steps=20):
    return np.array([env.reset(seed), *(env.step(np.zeros(1, np.float32)).obs for _ in range(steps))])


def test_the_noise_has_the_deviation_and_no_bias():
    noise = episode(Noisy(Still(), 0.2), 1, 399) - 3
    assert noise.dtype == np.float32
    assert noise.std() == pytest.approx(0.2, rel=0.03)
    assert noise.mean() == pytest.approx(0, abs=0.2 * 4 / np.sqrt(noise.size))
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.03


def test_an_episode_repeats_by_its_seed():
    env = Noisy(Still(), 0.1)
    first = episode(env, 4)
    assert (episode(env, 5) != first).all()
    np.testing.assert_array_equal(episode(env, 4), first)
    np.testing.assert_array_equal(episode(Noisy(Still(), 0.1), 4), first)


def test_everything_else_passes_through():
    inner = Still()
    env = Noisy(inner, 0.1)
    assert env.spec == inner.spec
    env.reset(0)
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(9)]
    assert {step.reward for step in steps} == {1.5}
    assert [step.truncated for step in steps].index(True) == 6
    assert [step.terminated for step in steps].index(True) == 8
    env.close()
    assert inner.closed
