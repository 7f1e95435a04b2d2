"""DADS in its maze form against its formulas in NumPy, and on skills that keep to places of their own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.dads import DADS
from skillscape.types import Experience, Spec

SKILLS = 3
SPEC = Spec((2,), 2)
OBJECTIVE = DADS(number_of_skills=SKILLS, hidden=(16,), learning_rate=1e-2, epsilon=1e-3, variance=0.5)
STATE = OBJECTIVE.init(jax.random.key(0), SPEC)
MIDDLES = np.asarray([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])


def blobs(rows=30, seed=0):
    generator = np.random.default_rng(seed)
    skill = np.arange(rows) % SKILLS
    states = jnp.asarray(MIDDLES[skill] + generator.normal(scale=0.2, size=(rows, 2)), jnp.float32)
    elsewhere = jnp.asarray(generator.normal(size=(rows, 2)), jnp.float32)
    return Experience(elsewhere, jnp.zeros((rows, 2)), states, jnp.eye(SKILLS)[skill], jnp.zeros(rows))


def squared_errors(batch):
    """‖s' − ŝ(k)‖² for every row and skill, by hand."""
    first, last = STATE.model.params.layers
    hidden = np.maximum(np.asarray(first.weight).T + np.asarray(first.bias), 0)  # one-hot input picks a column
    means = hidden @ np.asarray(last.weight).T + np.asarray(last.bias)
    return ((np.asarray(batch.next_obs)[:, None] - means[None]) ** 2).sum(axis=-1)


@pytest.mark.parametrize("variance", [0.5, 0.1])
def test_reward(variance):
    batch = blobs()
    objective = DADS(number_of_skills=SKILLS, hidden=(16,), variance=variance)
    _, reward, _ = objective.reward(STATE, batch, jax.random.key(0))
    density = np.exp(-squared_errors(batch) / (2 * variance))
    own = (density * np.asarray(batch.skill)).sum(axis=-1)
    np.testing.assert_allclose(reward, np.log(SKILLS * own / density.sum(axis=-1)), rtol=1e-3, atol=1e-4)


def test_the_default_scores_by_the_plain_squared_error():
    scores = DADS(number_of_skills=SKILLS, hidden=(16,)).score_skills(STATE, blobs().next_obs)
    np.testing.assert_allclose(scores, -squared_errors(blobs()), rtol=1e-4)


def test_loss():
    _, metrics = jax.jit(OBJECTIVE.update)(STATE, blobs(), jax.random.key(0))
    own = (squared_errors(blobs()) * np.asarray(blobs().skill)).sum(axis=-1)
    np.testing.assert_allclose(metrics["model_loss"], own.mean(), rtol=1e-4)


def test_learning_finds_the_places():
    def step(state, key):
        return OBJECTIVE.update(state, blobs(), key)

    keys = jax.random.split(jax.random.key(0), 500)
    learned, _ = jax.jit(lambda state: jax.lax.scan(step, state, keys))(STATE)
    np.testing.assert_allclose(jax.vmap(learned.model.params)(jnp.eye(SKILLS)), MIDDLES, atol=0.25)
    _, reward, _ = OBJECTIVE.reward(learned, blobs(60, seed=1), jax.random.key(0))
    assert jnp.mean(reward) == pytest.approx(math.log(SKILLS), abs=0.1)
    assert jnp.max(reward) <= math.log(SKILLS) + 1e-5
