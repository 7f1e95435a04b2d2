"""DIAYN against its formulas in NumPy, and on skills that keep to places of their own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.diayn import DIAYN
from skillscape.types import Experience, Spec

SKILLS = 3
OBJECTIVE = DIAYN(number_of_skills=SKILLS, hidden=(16,), learning_rate=1e-2, epsilon=1e-3)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))


def blobs(rows=30, seed=0):
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    middles = np.asarray([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])[skill]
    states = jnp.asarray(middles + generator.normal(scale=0.2, size=(rows, 2)), jnp.float32)
    elsewhere = jnp.asarray(generator.normal(size=(rows, 2)), jnp.float32)
    return Experience(elsewhere, jnp.zeros((rows, 2)), states, jnp.eye(SKILLS)[skill], jnp.zeros(rows))


def log_probability(batch):
    """log q(z|s') of the own skill, by hand."""
    first, last = STATE.discriminator.params.layers
    hidden = np.maximum(np.asarray(batch.next_obs) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    logits = hidden @ np.asarray(last.weight).T + np.asarray(last.bias)
    return (logits * np.asarray(batch.skill)).sum(axis=-1) - np.log(np.exp(logits).sum(axis=-1))


def test_reward():
    _, reward, _ = OBJECTIVE.reward(STATE, blobs(), jax.random.key(0))
    np.testing.assert_allclose(reward, log_probability(blobs()) + math.log(SKILLS), rtol=1e-4, atol=1e-5)


def test_loss():
    _, metrics = jax.jit(OBJECTIVE.update)(STATE, blobs(), jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], -log_probability(blobs()).mean(), rtol=1e-4)


def test_scores_are_log_probabilities():
    scores = OBJECTIVE.score_skills(STATE, blobs().next_obs)
    np.testing.assert_allclose(np.exp(scores).sum(axis=-1), 1, rtol=1e-5)


def test_learning_tells_places_apart():
    def step(state, key):
        return OBJECTIVE.update(state, blobs(), key)

    keys = jax.random.split(jax.random.key(0), 300)
    learned, metrics = jax.jit(lambda state: jax.lax.scan(step, state, keys))(STATE)
    held_out = blobs(60, seed=1)
    _, reward, _ = OBJECTIVE.reward(learned, held_out, jax.random.key(0))
    assert metrics["discriminator_accuracy"][-1] == 1
    assert jnp.mean(reward) == pytest.approx(math.log(SKILLS), abs=0.1)
    assert jnp.max(reward) <= math.log(SKILLS) + 1e-5
