"""Frames of any size resized to 64 × 64."""

import numpy as np
import pytest

from skillscape.envs.resize import AreaResize


def frame(height, width, channels=3):
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


def test_a_frame_of_the_right_size_is_copied():
    original = frame(64, 64)
    resized = AreaResize(64, 64)(original)
    np.testing.assert_array_equal(resized, original)
    assert not np.shares_memory(resized, original)


@pytest.mark.parametrize(("down", "across"), [(2, 2), (3, 1), (1, 5)])
def test_integer_factors_average_blocks(down, across):
    original = frame(64 * down, 64 * across)
    means = original.reshape(64, down, 64, across, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(AreaResize(64 * down, 64 * across)(original), means, atol=0.501)


@pytest.mark.parametrize(("height", "width"), [(96, 96), (100, 70), (500, 500), (32, 10), (1, 1), (65, 63)])
def test_other_factors_average_areas(height, width):
    original = frame(height, width, 1)
    # Each pixel 64 × 64 times, so that blocks of as many make up the new pixels exactly.
    fine = original.repeat(64, axis=0).repeat(64, axis=1) if max(height, width) <= 100 else None
    resized = AreaResize(height, width)(original)
    assert resized.shape == (64, 64, 1)
    assert resized.mean() == pytest.approx(original.mean(), abs=0.5)
    if fine is not None:
        means = fine.reshape(64, height, 64, width, 1).mean(axis=(1, 3))
        np.testing.assert_allclose(resized, means, atol=0.501)


@pytest.mark.parametrize("value", [0, 255])
def test_black_stays_black_and_white_white(value):
    assert (AreaResize(117, 83)(np.full((117, 83, 3), value, np.uint8)) == value).all()
