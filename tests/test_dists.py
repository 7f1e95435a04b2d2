"""Distributions against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from skillscape.dists import Beta, DiagonalNormal, OneHot, TruncatedNormal, TwoHot

ALPHA = np.asarray([[1.5, 2.0], [30.0, 1.01], [1.0, 7.0]], np.float32)
BETA = np.asarray([[3.0, 2.0], [4.0, 90.0], [1.0, 1.2]], np.float32)
VALUE = np.asarray([[-0.3, 0.9], [0.5, -0.98], [0.0, 0.4]], np.float32)


def beta():
    return Beta(jnp.asarray(ALPHA), jnp.asarray(BETA))


def test_beta_log_density_is_that_of_the_unit_interval():
    expected = scipy.stats.beta.logpdf((VALUE.astype(float) + 1) / 2, ALPHA, BETA).sum(axis=-1)
    np.testing.assert_allclose(beta().log_prob(jnp.asarray(VALUE)), expected, rtol=1e-4)


def test_beta_entropy():
    np.testing.assert_allclose(beta().entropy(), scipy.stats.beta.entropy(ALPHA, BETA), rtol=1e-4, atol=1e-5)


def test_beta_mode_has_the_highest_density():
    peaked = Beta(jnp.asarray([2.0, 5.0]), jnp.asarray([6.0, 1.5]))
    grid = np.linspace(-0.999, 0.999, 20001)
    best = [grid[np.argmax(scipy.stats.beta.logpdf((grid + 1) / 2, a, b))] for a, b in ((2.0, 6.0), (5.0, 1.5))]
    np.testing.assert_allclose(peaked.mode(), best, atol=2e-4)


def test_beta_samples_are_those_of_jax():
    key = jax.random.key(4)
    expected = 2 * jnp.clip(jax.random.beta(key, ALPHA, BETA), 1e-6, 1 - 1e-6) - 1
    np.testing.assert_allclose(beta().sample(key), expected, rtol=1e-6, atol=1e-6)


def test_beta_samples_follow_the_distribution():
    distribution = Beta(jnp.full((4000, 1), 2.0), jnp.full((4000, 1), 5.0))
    draws = np.asarray(distribution.sample(jax.random.key(0)))[:, 0]
    assert scipy.stats.kstest((draws + 1) / 2, scipy.stats.beta(2, 5).cdf).pvalue > 0.01


@pytest.mark.parametrize(("alpha", "beta"), [(1e-3, 1.0), (1.0, 1e-3)])
def test_beta_samples_at_the_ends_keep_a_finite_density(alpha, beta):
    distribution = Beta(jnp.full((100, 1), alpha), jnp.full((100, 1), beta))
    draws = distribution.sample(jax.random.key(0))
    assert jnp.max(jnp.abs(draws)) < 1
    assert jnp.isfinite(distribution.log_prob(draws)).all()


def test_normal_draw_moves_and_scales_the_noise():
    normal = DiagonalNormal(jnp.asarray([1.0, -2.0]), jnp.log(jnp.asarray([4.0, 0.25])))
    np.testing.assert_allclose(normal.sample(jnp.asarray([1.0, -2.0])), [3.0, -3.0], rtol=1e-6)


def test_divergence_is_zero_at_the_prior():
    assert DiagonalNormal(jnp.zeros(5), jnp.zeros(5)).kl_to_standard() == 0


def test_divergence_is_the_integral():
    mean, std = 0.7, 0.4
    posterior = scipy.stats.norm(mean, std)
    expected = posterior.expect(lambda h: posterior.logpdf(h) - scipy.stats.norm.logpdf(h))
    divergence = DiagonalNormal(jnp.full(3, mean), jnp.full(3, 2 * np.log(std))).kl_to_standard()
    np.testing.assert_allclose(divergence, 3 * expected, rtol=1e-5)


def test_divergence_is_positive_off_the_prior():
    means = jax.random.normal(jax.random.key(0), (100, 3))
    assert jnp.min(DiagonalNormal(means, 3 * means[:, ::-1]).kl_to_standard()) > 0


def test_divergence_keeps_its_digits_near_the_prior():
    # σ² − 1 − log σ² in float32 is noise here; x²/2 with x = log σ² is exact to first order.
    divergence = DiagonalNormal(jnp.zeros(1), jnp.full(1, 1e-4)).kl_to_standard()
    np.testing.assert_allclose(divergence, 0.25e-8, rtol=0.05)


MEAN = np.asarray([[0.0, 0.5], [-0.9, 0.95]], np.float32)
NOISE = np.asarray([[1.0, -2.0], [-3.0, 4.0]], np.float32)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [(None, [[0.2, 0.1], [-1.0, 1.0]]), (0.3, [[0.2, 0.2], [-1.0, 1.0]]), (0.05, [[0.05, 0.45], [-0.95, 1.0]])],
)
def test_truncated_draws_clip_the_step_and_clamp_the_sum(clip, expected):
    draws = TruncatedNormal(jnp.asarray(MEAN), 0.2).sample(jnp.asarray(NOISE), clip)
    np.testing.assert_allclose(draws, expected, atol=3e-6)
    assert jnp.max(jnp.abs(draws)) < 1


@pytest.mark.parametrize("clip", [None, 0.3])
def test_a_truncated_draw_at_the_border_still_moves_its_mean(clip):
    slope = jax.grad(lambda mean: jnp.sum(TruncatedNormal(mean, 0.2).sample(jnp.asarray(NOISE), clip)))
    np.testing.assert_array_equal(slope(jnp.asarray(MEAN)), 1)


def test_truncated_log_density_is_that_of_the_normal_without_a_clamp():
    found = TruncatedNormal(jnp.asarray(MEAN), 0.2).log_prob(jnp.asarray(VALUE[:2]))
    np.testing.assert_allclose(found, scipy.stats.norm.logpdf(VALUE[:2], MEAN, 0.2).sum(axis=-1), rtol=1e-5)


def test_a_normal_of_many_deviations_is_that_of_scipy():
    std = np.asarray([[0.1, 2.0], [0.7, 1.3]], np.float32)
    normal = TruncatedNormal(jnp.asarray(MEAN), jnp.asarray(std))
    exact = scipy.stats.norm(MEAN, std)
    np.testing.assert_allclose(normal.log_prob(jnp.asarray(VALUE[:2])), exact.logpdf(VALUE[:2]).sum(axis=-1), rtol=1e-4)
    np.testing.assert_allclose(normal.entropy(), exact.entropy().sum(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(
        TruncatedNormal(jnp.asarray(MEAN), 0.2).entropy(), 2 * scipy.stats.norm(0, 0.2).entropy(), rtol=1e-5
    )


LOGITS = np.log(np.asarray([[[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]], np.float32))


def test_one_hot_draws_follow_the_probabilities():
    uniform = jax.random.uniform(jax.random.key(0), (20_000, 2))
    draws = np.asarray(OneHot(jnp.broadcast_to(jnp.asarray(LOGITS), (20_000, 2, 3))).sample(uniform))
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_array_equal(draws.sum(axis=-1), 1)
    np.testing.assert_allclose(draws.mean(axis=0), np.exp(LOGITS[0]), atol=0.015)
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 1, 2])[0, 1]) < 0.03


def test_one_hot_draws_invert_the_cumulative_distribution():
    uniform = jnp.asarray([[0.0, 0.0], [0.49, 0.05], [0.51, 0.15], [0.75, 0.999], [1.0, 1.0]])
    draws = OneHot(jnp.broadcast_to(jnp.asarray(LOGITS), (5, 2, 3))).sample(uniform)
    np.testing.assert_array_equal(np.argmax(draws, axis=-1), [[0, 0], [0, 0], [1, 1], [2, 2], [2, 2]])


def test_one_hot_draws_pass_the_gradient_of_the_probabilities():
    weights = np.asarray([[[1.0, 2.0, -3.0], [0.5, 0.0, 4.0]]], np.float32)
    uniform = jnp.asarray([[0.3, 0.9]])
    found = jax.grad(lambda logits: jnp.sum(OneHot(logits).sample(uniform) * weights))(jnp.asarray(LOGITS))
    expected = jax.grad(lambda logits: jnp.sum(jax.nn.softmax(logits) * weights))(jnp.asarray(LOGITS))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(expected).max() > 0.1


def test_one_hot_divergence_is_summed_over_the_group():
    other = np.log(np.asarray([[[0.2, 0.2, 0.6], [0.3, 0.3, 0.4]]], np.float32))
    expected = (np.exp(LOGITS) * (LOGITS - other)).sum(axis=(-2, -1))
    np.testing.assert_allclose(OneHot(jnp.asarray(LOGITS)).kl(OneHot(jnp.asarray(other + 5))), expected, rtol=1e-4)


def test_mixing_keeps_every_class_possible():
    sharp = jnp.asarray([[[100.0, 0.0, -100.0]]])
    np.testing.assert_allclose(OneHot.mixed(sharp, 0.03).probabilities[0, 0], [0.98, 0.01, 0.01], rtol=1e-4)
    np.testing.assert_array_equal(OneHot.mixed(sharp, 0.0).logits, sharp)


def test_two_hot_targets_have_the_value_as_their_mean():
    bins = np.asarray(TwoHot.bins(255), float)
    assert len(bins) == 255
    assert bins[127] == 0
    values = jnp.asarray([0.0, 0.3, -7.0, 1234.5, -1e6])
    logits = jnp.zeros((5, 255))
    # The gradient of a cross-entropy is the probability minus the target's.
    gradient = jax.grad(lambda x: jnp.sum(TwoHot(x).cross_entropy(values)))(logits)
    target = jax.nn.softmax(logits) - gradient
    assert ((np.asarray(target) > 1e-4).sum(axis=-1) <= 2).all()
    found = TwoHot(jnp.log(jnp.maximum(target, 1e-30))).mean()
    np.testing.assert_allclose(found, values, rtol=1e-3, atol=1e-3)


def test_a_two_hot_without_opinion_says_zero():
    assert TwoHot(jnp.zeros((1, 255))).mean()[0] == 0
