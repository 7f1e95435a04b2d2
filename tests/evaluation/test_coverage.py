"""The measures of positions by hand."""

import numpy as np
import pytest

from skillscape.evaluation.coverage import as_array, coverage, measure_positions


def path(*places):
    return np.array(places, np.float32)


EAST, NORTH = path((0, 0), (1, 0), (2, 0)), path((0, 0), (0, 3), (0, 6))


def test_coverage_counts_every_bin_once_and_the_last_position_too():
    assert coverage([[EAST], [NORTH]]) == {(0, 0), (1, 0), (2, 0), (0, 3), (0, 6)}
    assert measure_positions([[EAST], [NORTH]], [[EAST]]).policy_coverage == 3


def test_distance_is_the_net_displacement_and_speed_is_of_the_whole_path():
    there_and_back = path((0, 0), (4, 0), (1, 0))
    found = measure_positions([[EAST, there_and_back], [NORTH, NORTH]], [[EAST]])
    assert found.distance == pytest.approx(((2 + 1) / 2 + 6) / 2)
    assert found.speed == pytest.approx(((1 + 3.5) / 2 + 3) / 2)


def test_skills_weigh_the_same_whatever_their_number_of_episodes():
    found = measure_positions([[EAST], [NORTH, NORTH, NORTH]], [[EAST]])
    assert found.distance == pytest.approx((2 + 6) / 2)


def test_spread_within_and_between_skills():
    first = [path((0, 0), (1, 0)), path((0, 0), (3, 0))]
    second = [path((0, 0), (-2, 1)), path((0, 0), (-2, -1))]
    found = measure_positions([first, second], [first])
    # End points ±1 about (2, 0) and (−2, 0), which are 2 from their mean.
    assert found.spread_within == pytest.approx(1.0)
    assert found.spread_between == pytest.approx(2.0)


def test_skills_that_do_the_same_have_no_spread_between_them():
    found = measure_positions([[EAST, NORTH]] * 3, [[EAST]])
    assert found.spread_between == pytest.approx(0)
    assert found.spread_within == pytest.approx(np.sqrt(1 + 9))


def test_what_cannot_be_told_is_none():
    assert measure_positions([[EAST], [NORTH]], [[EAST]]).spread_within is None
    assert measure_positions([[EAST, NORTH]], [[EAST]]).spread_between is None


def test_one_coordinate_is_enough():
    found = measure_positions([[path((0,), (2.5,))], [path((0,), (-2.5,))]], [[path((0,), (2.5,), (-0.5,))]])
    assert found == (3, 2.5, 2.5, None, 2.5)


def test_shorter_episodes_end_in_nan():
    array = as_array([[EAST], [path((0, 0), (5, 5))]])
    assert array.shape == (2, 1, 3, 2)
    np.testing.assert_array_equal(array[0, 0], EAST)
    assert np.isnan(array[1, 0, 2]).all()
    assert np.isfinite(array[1, 0, :2]).all()
