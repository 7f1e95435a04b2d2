"""APT against its formulas in NumPy, gradient included; its reward prefers states that are spread out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.apt import APT
from skillscape.types import Experience, Spec

ROWS, NEIGHBOURS, SPEC = 12, 4, Spec((2,), 3)
# With ε = 1 the first step of Adam tells the gradient: −step / rate = g / (|g| + 1).
OBJECTIVE = APT(hidden=(16,), feature_dim=6, neighbours=NEIGHBOURS, learning_rate=1.0, epsilon=1.0)
STATE = OBJECTIVE.init(jax.random.key(0), SPEC)
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in scale * generator.normal(size=(2, ROWS, 2)))
    action = jnp.asarray(generator.uniform(-1, 1, size=(ROWS, 3)), jnp.float32)
    return Experience(obs, action, next_obs, jnp.zeros((ROWS, 0)), jnp.zeros(ROWS))


def linear(layer, rows):
    return rows @ np.asarray(layer.weight, float).T + np.asarray(layer.bias, float)


def represent(networks, rows):
    rows = linear(networks.trunk, np.asarray(rows, float))
    centred = rows - rows.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return np.tanh(scaled * np.asarray(networks.norm.scale) + np.asarray(networks.norm.shift))


def network(mlp, *inputs):
    first, last = mlp.layers
    return linear(last, np.maximum(linear(first, np.concatenate(inputs, axis=-1)), 0))


def loss_by_hand(networks, data):
    sources, targets, action = (
        represent(networks, data.obs),
        represent(networks, data.next_obs),
        np.asarray(data.action),
    )
    forward = np.linalg.norm(network(networks.forward, sources, action) - targets, axis=-1)
    inverse = np.linalg.norm(np.tanh(network(networks.inverse, sources, targets)) - action, axis=-1)
    return forward.mean() + inverse.mean()


def distances_by_hand(data):
    """To the nearest in the batch, of which the state itself is the first."""
    rows = represent(STATE.networks.params, data.obs)
    return np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=-1), axis=-1)[:, :NEIGHBOURS]


def test_loss():
    _, metrics = UPDATE(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], loss_by_hand(STATE.networks.params, batch()), rtol=1e-4)
    np.testing.assert_allclose(metrics["model_loss"], metrics["forward_error"] + metrics["inverse_error"], rtol=1e-6)


def test_the_gradient_goes_through_both_states():
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    step = np.asarray(STATE.networks.params.trunk.weight - learned.networks.params.trunk.weight, float)
    gradient = step / (1 - np.abs(step))

    def shifted(row, column, by):
        weight = np.asarray(STATE.networks.params.trunk.weight, float)
        weight[row, column] += by
        return loss_by_hand(eqx.tree_at(lambda tree: tree.trunk.weight, STATE.networks.params, weight), batch())

    by_hand = [
        [(shifted(row, column, 1e-5) - shifted(row, column, -1e-5)) / 2e-5 for column in range(2)] for row in range(6)
    ]
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-2, atol=1e-3)


def test_reward():
    distances = distances_by_hand(batch())
    np.testing.assert_allclose(distances[:, 0], 0)
    _, reward, metrics = REWARD(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(reward, np.log1p(distances.mean(axis=-1)), rtol=1e-4)
    np.testing.assert_allclose(metrics["distance_mean"], distances.mean(), rtol=1e-4)


def test_distances_seen_earlier_do_not_matter_without_a_scale():
    state, _, _ = REWARD(STATE, batch(seed=1, scale=5.0), jax.random.key(0))
    np.testing.assert_array_equal(*(REWARD(one, batch(), jax.random.key(0))[1] for one in (state, STATE)))


@pytest.mark.parametrize("scale", ["mean", "variance"])
def test_reward_with_a_scale_and_a_floor(scale):
    objective = dataclasses.replace(OBJECTIVE, scale=scale, distance_floor=0.2)
    distances = distances_by_hand(batch())
    unit = distances.mean() if scale == "mean" else distances.var(ddof=1)
    _, reward, _ = objective.reward(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(reward, np.log1p(np.maximum(distances / unit - 0.2, 0).mean(axis=-1)), rtol=1e-3)


def test_the_reward_is_that_of_the_state_left_behind():
    elsewhere = batch()._replace(next_obs=batch(seed=1).next_obs)
    np.testing.assert_array_equal(*(REWARD(STATE, data, jax.random.key(0))[1] for data in (batch(), elsewhere)))


def test_spread_states_are_preferred():
    near = batch(scale=0.05).obs
    _, crowded, _ = REWARD(STATE, batch()._replace(obs=near), jax.random.key(0))
    _, spread, _ = REWARD(STATE, batch()._replace(obs=20 * near), jax.random.key(0))
    _, lonely, _ = REWARD(STATE, batch()._replace(obs=near.at[0].set(2.0)), jax.random.key(0))
    assert jnp.mean(spread) > 3 * jnp.mean(crowded)
    assert lonely[0] > 2 * jnp.max(lonely[1:])


def test_learning_makes_the_representation_know_the_action_and_stay_apart():
    data = batch()._replace(next_obs=batch().obs + 0.5 * batch().action[:, :2])
    objective = dataclasses.replace(OBJECTIVE, learning_rate=3e-3, epsilon=1e-8)
    start = objective.init(jax.random.key(0), SPEC)

    def step(state, key):
        return objective.update(state, data, key)

    learned, metrics = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 400)))(start)
    assert metrics["forward_error"][-1] < 0.3 * metrics["forward_error"][0]
    _, reward, _ = REWARD(learned, data, jax.random.key(0))
    assert jnp.mean(reward) > 0.3 * jnp.mean(REWARD(start, data, jax.random.key(0))[1])
