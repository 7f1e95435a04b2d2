"""BeCL against its formulas in NumPy, rows without a positive, and on skills that keep to places of their own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.becl import BeCL
from skillscape.types import Experience, Spec

SKILLS, ROWS, TEMPERATURE, TINY = 3, 12, 0.5, 1e-6
OBJECTIVE = BeCL(
    number_of_skills=SKILLS,
    hidden=(16,),
    projection_hidden=(14,),
    feature_dim=5,
    temperature=TEMPERATURE,
    learning_rate=1e-2,
)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)
KEY = jax.random.key(0)


def experience(states, skill):
    rows = len(skill)
    elsewhere = jnp.asarray(np.random.default_rng(9).normal(size=(rows, 2)), jnp.float32)
    next_obs = jnp.asarray(states, jnp.float32)
    return Experience(elsewhere, jnp.zeros((rows, 2)), next_obs, jnp.eye(SKILLS)[np.asarray(skill)], jnp.zeros(rows))


def batch(skill=None, seed=0):
    skill = [0, 1, 1, 2, 0, 0, 2, 1, 0, 2, 2, 1] if skill is None else skill
    return experience(np.random.default_rng(seed).normal(size=(len(skill), 2)), skill)


def network(mlp, rows):
    """A network with one hidden layer, by hand."""
    first, last = mlp.layers
    hidden = np.maximum(rows @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def shares_by_hand(data):
    """The share of one positive among all other rows, row by row; nan where there is no positive."""
    networks = STATE.networks.params
    features = network(networks.projection, network(networks.embedding, np.asarray(data.next_obs)))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    skill = np.argmax(data.skill, axis=-1)
    shares = []
    for row in range(len(skill)):
        others = [other for other in range(len(skill)) if other != row]
        logits = features[others] @ features[row] / TEMPERATURE
        weights = np.exp(logits - logits.max())
        positives = [weight for weight, other in zip(weights, others, strict=True) if skill[other] == skill[row]]
        shares.append(positives[0] / (weights.sum() + TINY) + TINY if positives else np.nan)
    return np.asarray(shares)


def test_reward():
    _, reward, _ = REWARD(STATE, batch(), KEY)
    np.testing.assert_allclose(reward, shares_by_hand(batch()), rtol=1e-4)
    _, scaled, _ = jax.jit(dataclasses.replace(OBJECTIVE, reward_scale=100.0).reward)(STATE, batch(), KEY)
    np.testing.assert_allclose(scaled, 100 * reward, rtol=1e-5)


def test_loss():
    _, metrics = UPDATE(STATE, batch(), KEY)
    np.testing.assert_allclose(metrics["model_loss"], -np.log(shares_by_hand(batch())).mean(), rtol=1e-4)


def test_three_steps_for_one_of_the_backbone():
    assert OBJECTIVE.updates_per_step == 3


@pytest.mark.parametrize("name", ["embedding", "projection"])
def test_the_contrast_trains_every_layer(name):
    learned, _ = UPDATE(STATE, batch(), KEY)
    before, after = (getattr(state.networks.params, name) for state in (STATE, learned))
    for old, new in zip(before.layers, after.layers, strict=True):
        assert jnp.any(old.weight != new.weight)
        assert jnp.any(old.bias != new.bias)


def test_rows_without_a_positive_take_no_part():
    data = batch([0, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1])
    by_hand = shares_by_hand(data)
    alone = np.isnan(by_hand)
    np.testing.assert_array_equal(np.flatnonzero(alone), [0, 4])
    _, reward, metrics = REWARD(STATE, data, KEY)
    np.testing.assert_allclose(reward, np.where(alone, TINY, by_hand), rtol=1e-4)
    np.testing.assert_allclose(metrics["has_positive"], (~alone).mean(), rtol=1e-5)
    _, metrics = UPDATE(STATE, data, KEY)
    np.testing.assert_allclose(metrics["model_loss"], -np.log(by_hand[~alone]).mean(), rtol=1e-4)


def test_a_batch_without_any_positive_teaches_nothing():
    data = batch(list(range(SKILLS)))
    learned, metrics = jax.jit(OBJECTIVE.update)(STATE, data, KEY)
    assert metrics["model_loss"] == 0
    assert all(
        jnp.all(old == new)
        for old, new in zip(
            jax.tree.leaves(STATE.networks.params), jax.tree.leaves(learned.networks.params), strict=True
        )
    )
    _, reward, _ = jax.jit(OBJECTIVE.reward)(STATE, data, KEY)
    np.testing.assert_allclose(reward, TINY, rtol=1e-5)


def test_low_temperatures_do_not_overflow():
    cold = dataclasses.replace(OBJECTIVE, temperature=0.005)
    learned, metrics = jax.jit(cold.update)(STATE, batch(), KEY)
    _, reward, _ = jax.jit(cold.reward)(STATE, batch(), KEY)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((learned, metrics, reward)))


def blobs(rows=30, seed=0):
    skill = np.arange(rows) % SKILLS
    middles = np.asarray([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])[skill]
    return experience(middles + np.random.default_rng(seed).normal(scale=0.15, size=(rows, 2)), skill)


def test_learning_tells_places_apart():
    def step(state, key):
        return OBJECTIVE.update(state, blobs(), key)

    learned, metrics = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 300)))(STATE)
    # The best there is: all weight on the rows of the own skill, shared evenly.
    assert metrics["model_loss"][0] > np.log(29) - 0.4
    assert metrics["model_loss"][-1] < np.log(9) + 0.5
    held_out = blobs(seed=1)
    reward = jax.jit(OBJECTIVE.reward)
    _, own, _ = reward(learned, held_out, KEY)
    # One state of each skill strays into the place of the next.
    strayed = held_out._replace(next_obs=held_out.next_obs.at[-3:].set(jnp.roll(held_out.next_obs[-3:], 1, axis=0)))
    _, other, _ = reward(learned, strayed, KEY)
    assert jnp.min(own) > 2 * jnp.max(other[-3:])
