"""RND against its formulas in NumPy; what is visited more is less novel."""

import jax
import jax.numpy as jnp
import numpy as np

from skillscape.objectives.rnd import RND
from skillscape.types import Experience, Spec

ROWS, CLIP = 60, 5.0
OBJECTIVE = RND(hidden=(16, 16), feature_dim=8, clip=CLIP, learning_rate=1e-2)
SPEC = Spec((2,), 2)
STATE = OBJECTIVE.init(jax.random.key(0), SPEC)
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in scale * generator.normal(size=(2, ROWS, 2)))
    return Experience(obs, jnp.zeros((ROWS, 2)), next_obs, jnp.zeros((ROWS, 0)), jnp.zeros(ROWS))


def network(mlp, rows):
    for layer in mlp.layers[:-1]:
        rows = np.maximum(rows @ np.asarray(layer.weight).T + np.asarray(layer.bias), 0)
    return rows @ np.asarray(mlp.layers[-1].weight).T + np.asarray(mlp.layers[-1].bias)


def normalised(obs):
    obs = np.asarray(obs, float)
    return (obs - obs.mean(axis=0)) / np.sqrt(((obs - obs.mean(axis=0)) ** 2).mean(axis=0) + 1e-5)


def errors_by_hand(data):
    inputs = np.clip(normalised(data.obs), -CLIP, CLIP)
    return ((network(STATE.predictor.params, inputs) - network(STATE.target, inputs)) ** 2).mean(axis=-1)


def include(mean, variance, count, values):
    """Running moments of scalars, by hand."""
    size, delta = len(values), values.mean() - mean
    total = count + size
    spread = variance * count + values.var(ddof=1) * size + delta**2 * count * size / total
    return mean + delta * size / total, spread / total, total


def test_loss():
    _, metrics = UPDATE(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], errors_by_hand(batch()).mean(), rtol=1e-4)


def test_reward_is_the_error_over_its_running_deviation():
    state, running = STATE, (0.0, 1.0, 1e-4)
    for data in (batch(), batch(seed=1, scale=3.0)):
        state, reward, _ = REWARD(state, data, jax.random.key(0))
        running = include(*running, errors_by_hand(data))
        # Not centred: novelty is never negative.
        np.testing.assert_allclose(reward, errors_by_hand(data) / np.sqrt(running[1]), rtol=1e-3)
    np.testing.assert_allclose(state.errors.mean, running[0], rtol=1e-4)


def test_inputs_are_clipped():
    outlier = batch()._replace(obs=batch().obs.at[0].set(1e3))
    assert normalised(outlier.obs)[0].max() > CLIP
    _, reward, _ = REWARD(STATE, outlier, jax.random.key(0))
    errors = errors_by_hand(outlier)
    np.testing.assert_allclose(reward, errors / np.sqrt(include(0.0, 1.0, 1e-4, errors)[1]), rtol=1e-3)


def test_the_novelty_is_that_of_the_state_left_behind():
    elsewhere = batch()._replace(next_obs=batch(seed=1).next_obs)
    np.testing.assert_array_equal(*(REWARD(STATE, data, jax.random.key(0))[1] for data in (batch(), elsewhere)))


def test_identical_states_are_equally_novel():
    _, reward, metrics = REWARD(STATE, batch()._replace(obs=jnp.full((ROWS, 2), 0.3)), jax.random.key(0))
    at_zero = errors_by_hand(batch()._replace(obs=jnp.zeros((ROWS, 2))))[0]
    # Their common value is the mean of the batch up to rounding, which the deviation of √10⁻⁵ enlarges.
    np.testing.assert_allclose(metrics["novelty"], at_zero, rtol=1e-2)
    assert jnp.isfinite(reward).all()
    np.testing.assert_allclose(reward, reward[0], rtol=1e-5)


def test_only_the_predictor_learns():
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    for old, new in zip(jax.tree.leaves(STATE.target), jax.tree.leaves(learned.target), strict=True):
        np.testing.assert_array_equal(old, new)
    for old, new in zip(STATE.predictor.params.layers, learned.predictor.params.layers, strict=True):
        assert jnp.any(old.weight != new.weight)
    np.testing.assert_array_equal(learned.errors.count, STATE.errors.count)


def test_novelty_falls_with_visits():
    # Three places equally far from each other, visited 45, 12 and 3 times in each batch; eight starts, since each
    # random network finds one place or another easier.
    places = np.asarray([[1.0, 0.0], [-0.5, 0.87], [-0.5, -0.87]])
    visits = np.repeat([0, 1, 2], [45, 12, 3])
    obs = jnp.asarray(places[visits] + np.random.default_rng(0).normal(scale=0.05, size=(ROWS, 2)), jnp.float32)
    data = batch()._replace(obs=obs)

    def step(state, key):
        return OBJECTIVE.update(state, data, key)

    def learn(state):
        learned, _ = jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 40))
        _, rewards, metrics = OBJECTIVE.reward(learned, data, jax.random.key(0))
        return rewards, metrics["novelty"], OBJECTIVE.reward(state, data, jax.random.key(0))[2]["novelty"]

    starts = jax.vmap(lambda key: OBJECTIVE.init(key, SPEC))(jax.random.split(jax.random.key(0), 8))
    rewards, after, before = jax.jit(jax.vmap(learn))(starts)
    often, sometimes, seldom = (np.asarray(rewards)[:, visits == place].mean() for place in range(3))
    assert often < 0.7 * sometimes
    assert sometimes < 0.5 * seldom
    assert (after < 0.1 * before).all()
