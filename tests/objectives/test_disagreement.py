"""Disagreement against its formulas in NumPy; it falls where data are plentiful, noisy or not, and stays elsewhere."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from skillscape.objectives.disagreement import Disagreement
from skillscape.types import Experience, Spec

MEMBERS = 5
OBJECTIVE = Disagreement(ensemble_size=MEMBERS, hidden=(16,), learning_rate=1e-2)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 3))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(rows=12, seed=0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in generator.normal(size=(2, rows, 2)))
    action = jnp.asarray(generator.uniform(-1, 1, size=(rows, 3)), jnp.float32)
    return Experience(obs, action, next_obs, jnp.zeros((rows, 0)), jnp.zeros(rows))


def predictions_by_hand(data):
    first, last = STATE.ensemble.params.layers
    rows = np.concatenate([np.asarray(data.obs), np.asarray(data.action)], axis=-1)
    predictions = []
    for member in range(MEMBERS):
        hidden = np.maximum(rows @ np.asarray(first.weight[member]).T + np.asarray(first.bias[member]), 0)
        predictions.append(hidden @ np.asarray(last.weight[member]).T + np.asarray(last.bias[member]))
    return np.stack(predictions)


def test_reward():
    predictions = predictions_by_hand(batch())
    variance = ((predictions - predictions.mean(axis=0)) ** 2).sum(axis=0) / (MEMBERS - 1)
    _, reward, _ = REWARD(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(reward, variance.mean(axis=-1), rtol=1e-4)


def test_loss():
    errors = np.linalg.norm(predictions_by_hand(batch()) - np.asarray(batch().next_obs), axis=-1)
    assert errors.shape == (MEMBERS, 12)
    _, metrics = UPDATE(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], errors.mean(), rtol=1e-4)


def test_where_an_action_led_has_no_part_in_the_reward():
    elsewhere = batch()._replace(next_obs=batch(seed=1).next_obs)
    np.testing.assert_array_equal(*(REWARD(STATE, data, jax.random.key(0))[1] for data in (batch(), elsewhere)))


def test_every_member_starts_elsewhere_and_learns():
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    for old, new in zip(STATE.ensemble.params.layers, learned.ensemble.params.layers, strict=True):
        assert len(np.unique(np.asarray(old.weight)[:, 0, 0])) == MEMBERS
        assert jnp.any(old.weight != new.weight, axis=(1, 2)).all()


def test_a_perfect_prediction_has_a_finite_gradient():
    still = STATE._replace(ensemble=STATE.ensemble._replace(params=jax.tree.map(jnp.zeros_like, STATE.ensemble.params)))
    learned, metrics = UPDATE(still, jax.tree.map(jnp.zeros_like, batch()), jax.random.key(0))
    assert metrics["model_loss"] == 0
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(learned.ensemble.params))


def transitions(middle, seed, noise=0.0):
    data = batch(64, seed)
    obs = middle + 0.3 * data.obs
    return data._replace(obs=obs, next_obs=-obs + 0.5 * data.action[:, :2] + noise * data.next_obs)


@cache
def learned_on_the_left(noise):
    def step(state, data):
        return OBJECTIVE.update(state, data, jax.random.key(0))

    batches = [transitions(-2.0, seed, noise) for seed in range(40)]
    stacked = jax.tree.map(lambda *leaves: jnp.tile(jnp.stack(leaves), (10,) + (1,) * leaves[0].ndim), *batches)
    return jax.jit(lambda state: jax.lax.scan(step, state, stacked))(STATE)


def mean_reward(state, middle):
    return jnp.mean(REWARD(state, transitions(middle, seed=99), jax.random.key(0))[1])


def test_models_agree_where_data_are_plentiful_and_not_elsewhere():
    learned, _ = learned_on_the_left(0.0)
    assert mean_reward(learned, -2.0) < 0.02 * mean_reward(STATE, -2.0)
    assert mean_reward(learned, 2.0) > 0.2 * mean_reward(STATE, 2.0)


def test_noise_is_not_disagreement():
    learned, metrics = learned_on_the_left(0.5)
    # Their errors stay as large as the noise, and they agree all the same.
    assert metrics["model_loss"][-1] > 0.4
    assert mean_reward(learned, -2.0) < 0.1 * mean_reward(STATE, -2.0)
