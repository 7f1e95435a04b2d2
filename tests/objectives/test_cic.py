"""CIC against its formulas in NumPy; its contrast reaches all three networks and its reward prefers what is spread."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.cic import CIC
from skillscape.stats import Moments
from skillscape.types import Experience, Spec

SKILLS, ROWS, NEIGHBOURS, TEMPERATURE, FLOOR = 3, 12, 4, 0.5, 0.05
OBJECTIVE = CIC(
    number_of_skills=SKILLS,
    hidden=(16,),
    feature_dim=5,
    temperature=TEMPERATURE,
    neighbours=NEIGHBOURS,
    distance_floor=FLOOR,
    learning_rate=1e-2,
    epsilon=1e-3,
)
STATE = OBJECTIVE.init(jax.random.key(0), Spec((2,), 2))
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    states = scale * generator.normal(size=(2, ROWS, 2))
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in states)
    return Experience(obs, jnp.zeros((ROWS, 2)), next_obs, jnp.eye(SKILLS)[np.arange(ROWS) % SKILLS], jnp.zeros(ROWS))


def network(name, rows):
    """One of the networks, by hand."""
    first, last = getattr(STATE.networks.params, name).layers
    hidden = np.maximum(rows @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def distances_by_hand(data):
    sources, targets = network("state", np.asarray(data.obs)), network("state", np.asarray(data.next_obs))
    return np.sort(np.linalg.norm(sources[:, None] - targets[None], axis=-1), axis=-1)[:, :NEIGHBOURS]


def test_loss():
    data = batch()
    pairs = np.concatenate([network("state", np.asarray(data.obs)), network("state", np.asarray(data.next_obs))], -1)
    similarity = unit(network("skill", np.asarray(data.skill))) @ unit(network("predictor", pairs)).T / TEMPERATURE
    log_softmax = similarity - np.log(np.exp(similarity).sum(axis=-1, keepdims=True))
    _, metrics = UPDATE(STATE, data, jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], -np.diag(log_softmax).mean(), rtol=1e-4)


def test_reward():
    distances = distances_by_hand(batch())
    scaled = distances / distances.var(ddof=1)
    assert (scaled < FLOOR).sum() < scaled.size
    _, reward, _ = REWARD(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(reward, np.log1p(np.maximum(scaled - FLOOR, 0).mean(axis=-1)), rtol=1e-3)


def test_distances_are_scaled_by_all_that_were_seen():
    second = batch(seed=1, scale=3.0)
    first_distances, distances = distances_by_hand(batch()), distances_by_hand(second)
    state, _, _ = REWARD(STATE, batch(), jax.random.key(0))
    state, reward, metrics = REWARD(state, second, jax.random.key(0))
    variance = np.concatenate([first_distances, distances]).var()
    np.testing.assert_allclose(metrics["distance_variance"], variance, rtol=0.05)
    scaled = np.maximum(distances / np.asarray(state.distances.variance) - FLOOR, 0)
    np.testing.assert_allclose(reward, np.log1p(scaled.mean(axis=-1)), rtol=1e-3)


@pytest.mark.parametrize("name", ["state", "predictor", "skill"])
def test_the_contrast_trains_every_layer(name):
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    before, after = (getattr(state.networks.params, name) for state in (STATE, learned))
    for old, new in zip(before.layers, after.layers, strict=True):
        assert jnp.any(old.weight != new.weight)
        assert jnp.any(old.bias != new.bias)


def test_learning_finds_the_skill_of_a_transition():
    # Each skill moves its own way: the contrast can come down to choosing among the rows of one skill.
    moves = jnp.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])[np.arange(ROWS) % SKILLS]
    data = batch()._replace(next_obs=batch().obs + moves)

    def step(state, key):
        return OBJECTIVE.update(state, data, key)

    _, metrics = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 300)))(STATE)
    assert metrics["model_loss"][-1] < np.log(ROWS / SKILLS) + 0.4
    assert metrics["model_loss"][0] > np.log(ROWS) - 0.2


def test_the_reward_prefers_spread_states():
    # One far state among near ones, in the same batch and so at the same scale.
    states = batch(scale=0.1).obs.at[0].set(5.0)
    _, reward, _ = REWARD(STATE, batch()._replace(obs=states, next_obs=states), jax.random.key(0))
    assert reward[0] > jnp.max(reward[1:]) + 0.5


def test_few_rows_have_fewer_neighbours():
    few = jax.tree.map(lambda field: field[:2], batch())
    _, reward, _ = OBJECTIVE.reward(STATE, few, jax.random.key(0))
    distances = distances_by_hand(few)
    scaled = np.maximum(distances / distances.var(ddof=1) - FLOOR, 0)
    np.testing.assert_allclose(reward, np.log1p(scaled.mean(axis=-1)), rtol=0.01)


def test_distances_that_never_varied_are_worth_nothing():
    never = STATE._replace(distances=Moments(jnp.zeros(()), jnp.zeros(()), jnp.asarray(1e6)))
    still = jnp.full((ROWS, 2), 0.3)
    _, reward, _ = REWARD(never, batch()._replace(obs=still, next_obs=still), jax.random.key(0))
    np.testing.assert_array_equal(reward, 0)
