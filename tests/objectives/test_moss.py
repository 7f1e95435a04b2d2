"""MOSS against its formulas in NumPy; its two modes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.cic import CIC
from skillscape.objectives.moss import MOSS
from skillscape.skills import SignedBox
from skillscape.types import Experience, Spec

WIDTH, ROWS, NEIGHBOURS, TEMPERATURE, FLOOR = 5, 12, 4, 0.5, 0.05
OBJECTIVE = MOSS(
    skill_dim=WIDTH,
    hidden=(16,),
    feature_dim=6,
    temperature=TEMPERATURE,
    neighbours=NEIGHBOURS,
    distance_floor=FLOOR,
    learning_rate=1e-2,
)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)
KEY = jax.random.key(0)


def batch(seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in scale * generator.normal(size=(2, ROWS, 2)))
    skill = generator.uniform(size=(ROWS, WIDTH)) * np.where(np.arange(ROWS) % 3 == 2, -1, 1)[:, None]
    return Experience(obs, jnp.zeros((ROWS, 2)), next_obs, jnp.asarray(skill, jnp.float32), jnp.zeros(ROWS))


def network(name, rows):
    first, last = getattr(STATE.networks.params, name).layers
    hidden = np.maximum(np.asarray(rows) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def distances_by_hand(data, sources):
    """From the sources to the nearest next states."""
    both = network("state", sources), network("state", data.next_obs)
    return np.sort(np.linalg.norm(both[0][:, None] - both[1][None], axis=-1), axis=-1)[:, :NEIGHBOURS]


def reward_by_hand(data, distances, mean, variance):
    standardised = np.maximum((distances - mean) / variance - FLOOR, 0)
    mode = np.where(np.asarray(data.skill)[:, 0] < 0, -1, 1)
    return mode * np.log1p(standardised.mean(axis=-1))


@pytest.mark.parametrize("reward_state", ["obs", "next_obs"])
def test_reward(reward_state):
    data = batch()
    objective = MOSS(**{**vars(OBJECTIVE), "reward_state": reward_state})
    distances = distances_by_hand(data, data.states(reward_state))
    expected = reward_by_hand(data, distances, distances.mean(), distances.var(ddof=1))
    assert np.ptp(np.abs(expected)) > 0.1
    _, reward, _ = jax.jit(objective.reward)(STATE, data, KEY)
    np.testing.assert_allclose(reward, expected, rtol=1e-2, atol=1e-4)


def test_distances_are_standardised_by_all_that_were_seen():
    second = batch(seed=1, scale=3.0)
    seen = np.concatenate([distances_by_hand(data, data.obs) for data in (batch(), second)])
    state, _, _ = REWARD(STATE, batch(), KEY)
    state, reward, metrics = REWARD(state, second, KEY)
    np.testing.assert_allclose(metrics["distance_mean"], seen.mean(), rtol=1e-3)
    np.testing.assert_allclose(metrics["distance_variance"], seen.var(), rtol=0.05)
    expected = reward_by_hand(
        second, distances_by_hand(second, second.obs), seen.mean(), np.asarray(state.distances.variance)
    )
    np.testing.assert_allclose(reward, expected, rtol=1e-2, atol=1e-4)


def test_loss():
    data = batch()
    pairs = np.concatenate([network("state", data.obs), network("state", data.next_obs)], axis=-1)
    similarity = unit(network("skill", data.skill)) @ unit(network("predictor", pairs)).T / TEMPERATURE
    log_softmax = similarity - np.log(np.exp(similarity).sum(axis=-1, keepdims=True))
    _, metrics = UPDATE(STATE, data, KEY)
    np.testing.assert_allclose(metrics["model_loss"], -np.diag(log_softmax).mean(), rtol=1e-4)


def test_networks_and_loss_are_those_of_cic():
    cic = CIC(skill_dim=WIDTH, hidden=(16,), feature_dim=6, temperature=TEMPERATURE, learning_rate=1e-2)
    state = cic.init(KEY, Spec((2,), 2))
    (ours, metrics), (theirs, expected) = UPDATE(STATE, batch(), KEY), jax.jit(cic.update)(state, batch(), KEY)
    # Two compiled programs may sum in different orders.
    np.testing.assert_allclose(metrics["model_loss"], expected["model_loss"], rtol=1e-6)
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, ours.networks, theirs.networks)


def test_a_far_state_is_sought_by_one_mode_and_avoided_by_the_other():
    data = batch(scale=0.1)
    data = data._replace(obs=data.obs.at[0].set(5.0))
    explore, control = (data._replace(skill=sign * jnp.abs(data.skill)) for sign in (1, -1))
    (_, sought, _), (_, avoided, _) = (REWARD(STATE, each, KEY) for each in (explore, control))
    np.testing.assert_allclose(avoided, -sought, rtol=1e-6)
    assert sought[0] > jnp.max(sought[1:]) + 0.5


def test_skills_and_the_one_that_is_finetuned():
    assert OBJECTIVE.skills == SignedBox(WIDTH)
    assert OBJECTIVE.adaptation == "constant"
