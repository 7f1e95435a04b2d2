"""Aggregates against plain re-derivations and the definitions of Agarwal et al. (2021)."""

import numpy as np
import pytest
import scipy.stats

from skillscape.evaluation.aggregate import (
    STATISTICS,
    estimate,
    improvement_estimate,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    resample,
)

SCORES = np.random.default_rng(0).gamma(4.0, 0.2, size=(10, 12))
OTHERS = np.random.default_rng(1).gamma(3.0, 0.2, size=(7, 12))


def of(statistic, scores):
    return float(statistic(np.asarray(scores, float)[None])[0])


@pytest.mark.parametrize("shape", [(10, 12), (3, 1), (1, 5), (5, 3), (2, 2)])
def test_statistics_are_their_definitions(shape):
    scores = SCORES[: shape[0], : shape[1]]
    assert of(mean, scores) == pytest.approx(np.mean([np.mean(column) for column in scores.T]))
    assert of(median, scores) == pytest.approx(np.median([np.mean(column) for column in scores.T]))
    assert of(interquartile_mean, scores) == pytest.approx(scipy.stats.trim_mean(scores, 0.25, axis=None))
    assert of(optimality_gap, scores) == pytest.approx(np.mean([1 - min(score, 1) for score in scores.ravel()]))


def test_a_known_matrix():
    scores = [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5], [0.2, 1.5]]
    # All eight in order: 0, .2, .5, .5, .5, 1, 1.5, 2; the middle four are .5, .5, .5, 1.
    assert of(interquartile_mean, scores) == pytest.approx(0.625)
    assert of(mean, scores) == pytest.approx((0.8 + 0.75) / 2)
    assert of(median, scores) == pytest.approx((0.8 + 0.75) / 2)
    assert of(optimality_gap, scores) == pytest.approx(1 - (0 + 1 + 1 + 0.2 + 0.5 + 0.5 + 0.5 + 1) / 8)


def test_resampling_is_stratified_by_task():
    scores = np.arange(12.0).reshape(4, 3)
    matrices = resample(scores, 50, np.random.default_rng(0))
    assert matrices.shape == (50, 4, 3)
    for task in range(3):
        assert set(np.unique(matrices[:, :, task])) == set(scores[:, task])
    # Tasks are resampled independently: rows of the resamples are not rows of the scores.
    assert any(row.tolist() not in scores.tolist() for row in matrices.reshape(-1, 3))


@pytest.mark.parametrize("name", STATISTICS)
def test_the_interval_is_seeded_and_contains_the_value(name):
    first, again = (estimate(SCORES, STATISTICS[name], resamples=500) for _ in range(2))
    assert first == again
    assert first.low < first.value < first.high
    assert estimate(SCORES, STATISTICS[name], resamples=500, seed=1) != first


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        interval = estimate(generator.normal(0.5, 0.2, (20, 3)), mean, resamples=300, seed=trial)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.88 <= hits / 200 <= 0.99


def test_improvement_is_mann_whitney_over_tasks():
    expected = [
        scipy.stats.mannwhitneyu(SCORES[:, task], OTHERS[:, task]).statistic / (len(SCORES) * len(OTHERS))
        for task in range(12)
    ]
    assert probability_of_improvement(SCORES, OTHERS) == pytest.approx(np.mean(expected))
    assert probability_of_improvement(SCORES, SCORES) == pytest.approx(0.5)
    total = probability_of_improvement(SCORES, OTHERS) + probability_of_improvement(OTHERS, SCORES)
    assert total == pytest.approx(1.0)


def test_the_interval_of_improvement_contains_the_value():
    interval = improvement_estimate(SCORES, OTHERS, resamples=300)
    assert interval.low < interval.value < interval.high


def test_a_profile_falls_from_all_to_none():
    thresholds = np.linspace(-0.1, 5, 60)
    profile = performance_profile(SCORES, thresholds).value
    assert profile[0] == 1
    assert profile[-1] == 0
    assert (np.diff(profile) <= 0).all()
    assert performance_profile(np.array([[0.2, 0.4, 0.4, 0.9]]), np.array([0.4])).value[0] == 0.25


@pytest.mark.parametrize("broken", [np.zeros((0, 3)), np.zeros(3), np.array([[np.nan, 1.0]])])
def test_a_malformed_score_matrix_is_refused(broken):
    with pytest.raises(ValueError, match="scores must be a matrix"):
        estimate(broken, mean)
