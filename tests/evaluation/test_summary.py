"""The bootstrap summary over seeds."""

import json

import numpy as np
import pytest

from skillscape.evaluation.summary import (
    bootstrap_interval,
    few_seeds_note,
    median_index,
    summarise,
    summarise_measures,
)


def test_mean_and_raw_values_are_exact():
    summary = summarise([1.0, 2.0, 6.0])
    assert summary.mean == 3.0
    assert summary.per_seed == (1.0, 2.0, 6.0)
    low, high = summary.interval
    assert 1.0 <= low < 3.0 < high <= 6.0


def test_one_seed_has_no_interval():
    assert summarise([0.25]) == (0.25, None, (0.25,))
    assert summarise([0.25]).to_json() == {"mean": 0.25, "interval": None, "per_seed": [0.25]}
    assert bootstrap_interval(np.zeros((1, 7))) is None


def test_an_undefined_measure_has_no_summary():
    seeds = [{"accuracy": None, "reach": 1.0}, {"accuracy": None, "reach": 3.0, "model_accuracy": 0.5}]
    assert summarise_measures(seeds) == {"accuracy": None, "reach": summarise([1.0, 3.0]), "model_accuracy": None}


@pytest.mark.parametrize(
    ("seeds", "start"), [((1,), ""), ((5, 10), ""), ((3, 1, 3, 9), "With 3 seeds, a"), ((4, 2), "With 2 or 4 seeds, a")]
)
def test_a_note_warns_of_intervals_over_few_seeds(seeds, start):
    note = few_seeds_note(seeds)
    assert note.startswith(start)
    assert bool(note) == bool(start)


@pytest.mark.parametrize("seeds", [2, 3])
def test_an_interval_over_few_seeds_is_their_range(seeds):
    values = np.random.default_rng(seeds).normal(size=seeds).tolist()
    assert summarise(values).interval == pytest.approx((min(values), max(values)))


def test_two_seeds_reach_both_extremes():
    # A resample of {0, 1} has mean 0, 1/2, 1 with probability 1/4, 1/2, 1/4: the 95% interval is the whole range
    # and the 40% interval collapses onto the middle.
    assert summarise([0.0, 1.0]).interval == (0.0, 1.0)
    assert summarise([0.0, 1.0], confidence=0.4).interval == (0.5, 0.5)


def test_the_generator_is_seeded():
    values = np.random.default_rng(3).normal(size=10).tolist()
    assert summarise(values, resamples=200) == summarise(values, resamples=200)
    assert summarise(values, resamples=200, seed=1).interval != summarise(values, resamples=200, seed=2).interval


def test_width_agrees_with_the_normal_approximation():
    values = np.random.default_rng(0).normal(size=400)
    low, high = summarise(values.tolist()).interval
    standard_error = values.std() / np.sqrt(values.size)
    assert high - low == pytest.approx(2 * 1.96 * standard_error, rel=0.05)
    narrow_low, narrow_high = summarise(values.tolist(), confidence=0.5).interval
    assert narrow_high - narrow_low == pytest.approx(2 * 0.6745 * standard_error, rel=0.08)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(1)
    hits = 0
    for trial in range(300):
        low, high = summarise(generator.normal(size=30).tolist(), resamples=500, seed=trial).interval
        hits += low <= 0.0 <= high
    assert 0.88 <= hits / 300 <= 0.98


def test_a_whole_curve_resamples_rows_together():
    first = np.random.default_rng(0).normal(size=(6, 1))
    low, high = bootstrap_interval(np.concatenate([first, 2.0 * first], axis=1))
    assert low.shape == high.shape == (2,)
    np.testing.assert_allclose([low[1], high[1]], [2.0 * low[0], 2.0 * high[0]])
    assert summarise(first[:, 0].tolist()).interval == pytest.approx((low[0], high[0]))


def test_json_survives_a_round_trip():
    summary = summarise([0.5, 0.75])
    values = json.loads(json.dumps(summary.to_json()))
    assert values == {"mean": 0.625, "interval": list(summary.interval), "per_seed": [0.5, 0.75]}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [([], "at least one value"), ([1.0, float("nan")], "finite"), ([[1.0], [2.0]], "one value per seed")],
)
def test_bad_values_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        summarise(values)


@pytest.mark.parametrize(("confidence", "resamples"), [(0.0, 10), (1.0, 10), (0.95, 0)])
def test_bad_settings_are_refused(confidence, resamples):
    with pytest.raises(ValueError, match="confidence"):
        summarise([1.0, 2.0], confidence=confidence, resamples=resamples)


@pytest.mark.parametrize(("values", "index"), [([3.0], 0), ([1.0, 9.0, 5.0], 2), ([4.0, 1.0, 3.0, 2.0], 3)])
def test_the_median_seed_is_the_lower_one_of_two(values, index):
    assert median_index(values) == index
