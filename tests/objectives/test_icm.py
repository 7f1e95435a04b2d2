"""ICM against its formulas in NumPy; its error falls where it was trained and nowhere else."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.icm import ICM
from skillscape.types import Experience, Spec

OBJECTIVE = ICM(hidden=(16,), learning_rate=1e-2)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 3))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(rows=12, seed=0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in generator.normal(size=(2, rows, 2)))
    action = jnp.asarray(generator.uniform(-1, 1, size=(rows, 3)), jnp.float32)
    return Experience(obs, action, next_obs, jnp.zeros((rows, 0)), jnp.zeros(rows))


def network(name, *inputs):
    """One of the networks, by hand."""
    first, last = getattr(STATE.networks.params, name).layers
    rows = np.concatenate([np.asarray(one) for one in inputs], axis=-1)
    hidden = np.maximum(rows @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def errors_by_hand(data):
    forward = np.linalg.norm(network("forward", data.obs, data.action) - np.asarray(data.next_obs), axis=-1)
    inverse = np.linalg.norm(np.tanh(network("inverse", data.obs, data.next_obs)) - np.asarray(data.action), axis=-1)
    return forward, inverse


def test_reward():
    _, reward, _ = REWARD(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(reward, np.log(1 + errors_by_hand(batch())[0]), rtol=1e-4)


def test_loss():
    forward, inverse = errors_by_hand(batch())
    _, metrics = UPDATE(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(metrics["forward_error"], forward.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["inverse_error"], inverse.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["model_loss"], forward.mean() + inverse.mean(), rtol=1e-4)


@pytest.mark.parametrize("name", ["forward", "inverse"])
def test_both_models_learn(name):
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    before, after = (getattr(state.networks.params, name) for state in (STATE, learned))
    for old, new in zip(before.layers, after.layers, strict=True):
        assert jnp.any(old.weight != new.weight)
        assert jnp.any(old.bias != new.bias)


def test_the_inverse_model_has_no_say_in_the_reward():
    other = eqx.tree_at(
        lambda state: state.networks.params.inverse.layers[0].weight, STATE, replace_fn=lambda weight: 1 - weight
    )
    np.testing.assert_array_equal(*(REWARD(state, batch(), jax.random.key(0))[1] for state in (STATE, other)))


def test_a_perfect_prediction_has_a_finite_gradient():
    # The norm of zero has no derivative of its own; all parameters and data being zero, nothing may move.
    still = STATE._replace(networks=STATE.networks._replace(params=jax.tree.map(jnp.zeros_like, STATE.networks.params)))
    learned, metrics = UPDATE(still, jax.tree.map(jnp.zeros_like, batch()), jax.random.key(0))
    assert metrics["model_loss"] == 0
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(learned.networks.params))


def transitions(middle, seed):
    """Around ``middle``; actions move the state on the left and turn it around on the right."""
    data = batch(64, seed)
    obs = middle + 0.3 * data.obs
    moved = obs + 0.5 * data.action[:, :2]
    return data._replace(obs=obs, next_obs=moved if middle < 0 else -moved)


@cache
def learned_on_the_left():
    def step(state, seed_batch):
        return OBJECTIVE.update(state, seed_batch, jax.random.key(0))

    batches = [transitions(-1.0, seed) for seed in range(20)]
    stacked = jax.tree.map(lambda *leaves: jnp.tile(jnp.stack(leaves), (20,) + (1,) * leaves[0].ndim), *batches)
    return jax.jit(lambda state: jax.lax.scan(step, state, stacked))(STATE)[0]


def test_the_error_falls_where_it_was_trained_and_nowhere_else():
    def mean_reward(state, middle):
        return jnp.mean(REWARD(state, transitions(middle, seed=99), jax.random.key(0))[1])

    assert mean_reward(learned_on_the_left(), -1.0) < 0.2 * mean_reward(STATE, -1.0)
    assert mean_reward(learned_on_the_left(), 1.0) > 0.8 * mean_reward(STATE, 1.0)
