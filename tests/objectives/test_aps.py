"""APS against its formulas in NumPy, its regression of a task, and on states that belong to task vectors."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.aps import APS
from skillscape.types import Experience, Spec

DIMENSION, ROWS, NEIGHBOURS, FLOOR = 4, 12, 5, 0.05
OBJECTIVE = APS(dimension=DIMENSION, hidden=(16,), neighbours=NEIGHBOURS, distance_floor=FLOOR, learning_rate=1e-2)
SWAPPED = dataclasses.replace(OBJECTIVE, faithful_regression=True)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)
INFER = jax.jit(OBJECTIVE.infer_skill)
KEY = jax.random.key(0)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def batch(seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in scale * generator.normal(size=(2, ROWS, 2)))
    skill = jnp.asarray(unit(generator.normal(size=(ROWS, DIMENSION))), jnp.float32)
    return Experience(obs, jnp.zeros((ROWS, 2)), next_obs, skill, jnp.zeros(ROWS))


def features(states):
    """φ, by hand."""
    first, last = STATE.features.params.layers
    hidden = np.maximum(np.asarray(states) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def distances_by_hand(data):
    """To the k nearest of the batch, oneself being one of them."""
    found = features(data.next_obs)
    distances = np.sort(np.linalg.norm(found[:, None] - found[None], axis=-1), axis=-1)[:, :NEIGHBOURS]
    assert (distances[:, 0] == 0).all()
    return distances


def reward_by_hand(data, mean):
    entropy = np.log1p(np.maximum(distances_by_hand(data) / mean - FLOOR, 0).mean(axis=-1))
    return entropy + (unit(features(data.next_obs)) * np.asarray(data.skill)).sum(axis=-1)


def test_loss():
    _, metrics = UPDATE(STATE, batch(), KEY)
    agreement = (unit(features(batch().next_obs)) * np.asarray(batch().skill)).sum(axis=-1)
    np.testing.assert_allclose(metrics["model_loss"], -agreement.mean(), rtol=1e-4)


def test_reward():
    _, reward, _ = REWARD(STATE, batch(), KEY)
    np.testing.assert_allclose(reward, reward_by_hand(batch(), distances_by_hand(batch()).mean()), rtol=1e-3, atol=1e-4)


def test_distances_are_scaled_by_the_mean_of_all_that_were_seen():
    second = batch(seed=1, scale=3.0)
    mean = np.concatenate([distances_by_hand(batch()), distances_by_hand(second)]).mean()
    state, _, _ = REWARD(STATE, batch(), KEY)
    _, reward, metrics = REWARD(state, second, KEY)
    np.testing.assert_allclose(metrics["distance_mean"], mean, rtol=1e-3)
    np.testing.assert_allclose(reward, reward_by_hand(second, mean), rtol=1e-3, atol=1e-4)


def test_the_critic_is_of_successor_features():
    assert OBJECTIVE.critic_head == "skill"
    assert OBJECTIVE.infers_skill


@pytest.mark.parametrize("rows", [3, 40], ids=["too few rows", "many rows"])
def test_regression(rows):
    generator = np.random.default_rng(2)
    obs, reward = generator.normal(size=(rows, 2)), generator.normal(size=rows)
    normalised = unit(features(obs))
    expected = np.linalg.lstsq(normalised, reward, rcond=None)[0]
    assert rows < DIMENSION or np.linalg.cond(normalised) < 100
    arguments = jnp.asarray(obs, jnp.float32), jnp.asarray(reward, jnp.float32)
    np.testing.assert_allclose(INFER(STATE, *arguments), unit(expected), atol=1e-2)
    np.testing.assert_allclose(SWAPPED.infer_skill(STATE, *arguments), unit(reward @ normalised), atol=1e-4)


def test_the_regression_finds_the_task_and_the_swapped_one_does_not():
    # States crowd on one side: the mean feature weighted by reward points to the crowd.
    obs = jnp.asarray(np.random.default_rng(3).normal(loc=1.0, size=(200, 2)), jnp.float32)
    task = unit(np.asarray([1.0, -2.0, 0.5, 1.0]))
    reward = jnp.asarray(unit(features(obs)) @ task, jnp.float32)
    assert INFER(STATE, obs, reward) @ task > 0.99
    assert SWAPPED.infer_skill(STATE, obs, reward) @ task < 0.9


@pytest.mark.parametrize("objective", [OBJECTIVE, SWAPPED], ids=["least squares", "swapped"])
def test_rewards_that_say_nothing_still_give_a_unit_vector(objective):
    skill = objective.infer_skill(STATE, batch().obs, jnp.zeros(ROWS))
    np.testing.assert_allclose(skill, 1 / np.sqrt(DIMENSION), rtol=1e-6)


def clusters(rows=40, seed=0):
    """Four task vectors, each with a place of its own."""
    kind = np.arange(rows) % DIMENSION
    middles = np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])[kind]
    states = middles + np.random.default_rng(seed).normal(scale=0.1, size=(rows, 2))
    next_obs = jnp.asarray(states, jnp.float32)
    return Experience(jnp.zeros((rows, 2)), jnp.zeros((rows, 2)), next_obs, jnp.eye(DIMENSION)[kind], jnp.zeros(rows))


@cache
def learned():
    def step(state, key):
        return OBJECTIVE.update(state, clusters(), key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 300)))(STATE)[0]


def test_learning_gives_each_task_its_states():
    held_out = clusters(seed=1)
    reward = jax.jit(OBJECTIVE.reward)
    _, own, metrics = reward(learned(), held_out, KEY)
    assert metrics["agreement"] > 0.9
    for shift in range(1, DIMENSION):
        _, other, _ = reward(learned(), held_out._replace(skill=jnp.roll(held_out.skill, shift, axis=-1)), KEY)
        assert jnp.min(own - other) > 0.5


def test_learned_features_name_the_task_of_a_place():
    obs = clusters(seed=1).next_obs
    at_the_third = (jnp.arange(len(obs)) % DIMENSION == 2).astype(jnp.float32)
    assert OBJECTIVE.infer_skill(learned(), obs, at_the_third)[2] > 0.9


def test_the_reward_prefers_spread_states():
    states = batch(scale=0.1).next_obs.at[0].set(5.0)
    # Without a task only the spread is left.
    _, reward, _ = REWARD(STATE, batch()._replace(next_obs=states, skill=jnp.zeros((ROWS, DIMENSION))), KEY)
    assert reward[0] > jnp.max(reward[1:]) + 0.5
