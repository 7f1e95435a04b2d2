"""The aggregate figure."""

import numpy as np
from matplotlib.image import imread

from skillscape.evaluation.aggregate import STATISTICS, Estimate
from skillscape.plots.aggregates import aggregate_figure


def test_the_figure_grows_with_the_methods(tmp_path):
    heights = []
    for number in (2, 14):
        estimates = {
            (f"method {index}", name): Estimate(0.5, 0.4, 0.6) for index in range(number) for name in STATISTICS
        }
        aggregate_figure(estimates, tmp_path / f"{number}.png", "100 steps, 2 seeds")
        picture = imread(tmp_path / f"{number}.png")
        assert np.ptp(picture[..., :3]) > 0.5
        heights.append(len(picture))
    assert heights[1] > 1.5 * heights[0]


def test_one_seed_is_drawn_without_a_bar(tmp_path):
    estimates = {("DDPG", name): Estimate(0.5, None, None) for name in STATISTICS}
    aggregate_figure(estimates, tmp_path / "one.png", "100 steps, 1 seed")
    assert np.ptp(imread(tmp_path / "one.png")[..., :3]) > 0.5
