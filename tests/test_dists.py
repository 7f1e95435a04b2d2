"""Distributions against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from skillscape.dists import Beta, DiagonalNormal, TruncatedNormal

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
    mean, deviation = 0.7, 0.4
    posterior = scipy.stats.norm(mean, deviation)
    expected = posterior.expect(lambda h: posterior.logpdf(h) - scipy.stats.norm.logpdf(h))
    divergence = DiagonalNormal(jnp.full(3, mean), jnp.full(3, 2 * np.log(deviation))).kl_to_standard()
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
