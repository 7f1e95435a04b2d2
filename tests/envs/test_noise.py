"""Noise on observations: its size, its seed, and what it leaves alone."""

from typing import final

import numpy as np
import pytest

from skillscape.envs.base import HostEnv, HostStep
from skillscape.envs.noise import NoisyEnv
from skillscape.types import EnvSpec


@final
class Still(HostEnv):
    """Observes the same number for ever, and counts its steps."""

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


@final
class Picture(HostEnv):
    """Shows black, grey and white in equal parts."""

    @property
    def spec(self):
        return EnvSpec((30, 30, 3), 1, 400)

    def reset(self, seed):
        picture = np.zeros((30, 30, 3), np.uint8)
        picture[10:20], picture[20:] = 128, 255
        return picture

    def step(self, action):
        return HostStep(self.reset(0), 0.0, False, False)

    def close(self):
        pass


def episode(env, seed, steps=20):
    return np.array([env.reset(seed), *(env.step(np.zeros(1, np.float32)).obs for _ in range(steps))])


def test_the_noise_has_the_given_std_and_no_bias():
    noise = episode(NoisyEnv(Still(), 0.2), 1, 399) - 3
    assert noise.dtype == np.float32
    assert noise.std() == pytest.approx(0.2, rel=0.03)
    assert noise.mean() == pytest.approx(0, abs=0.2 * 4 / np.sqrt(noise.size))
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.03


def test_an_episode_repeats_by_its_seed():
    env = NoisyEnv(Still(), 0.1)
    first = episode(env, 4)
    assert (episode(env, 5) != first).all()
    np.testing.assert_array_equal(episode(env, 4), first)
    np.testing.assert_array_equal(episode(NoisyEnv(Still(), 0.1), 4), first)


def test_everything_else_passes_through():
    inner = Still()
    env = NoisyEnv(inner, 0.1)
    assert env.spec == inner.spec
    env.reset(0)
    steps = [env.step(np.zeros(1, np.float32)) for _ in range(9)]
    assert {step.reward for step in steps} == {1.5}
    assert [step.truncated for step in steps].index(True) == 6
    assert [step.terminated for step in steps].index(True) == 8
    env.close()
    assert inner.closed


def test_images_stay_images_and_a_std_of_one_is_from_black_to_white():
    frames = episode(NoisyEnv(Picture(), 0.1), 1, 30)
    assert frames.dtype == np.uint8
    grey = frames[:, 10:20].astype(float) - 128
    assert grey.std() == pytest.approx(25.5, rel=0.02)
    assert grey.mean() == pytest.approx(0, abs=25.5 * 4 / np.sqrt(grey.size))


def test_noise_is_clipped_at_black_and_white_instead_of_wrapping_around():
    frames = episode(NoisyEnv(Picture(), 0.1), 1, 30)
    black, white = frames[:, :10], 255 - frames[:, 20:].astype(int)
    for distance in (black, white):
        assert (distance == 0).mean() == pytest.approx(0.5, abs=0.02)
        assert distance.max() < 6 * 25.5


def test_an_episode_of_images_repeats_by_its_seed():
    env = NoisyEnv(Picture(), 0.05)
    first = episode(env, 4)
    np.testing.assert_array_equal(episode(env, 4), first)
    assert (episode(env, 5)[:, 10:20] != first[:, 10:20]).mean() > 0.9
