"""METRA against its formulas in NumPy, its multiplier, and on a walk in which skills are directions."""

import dataclasses
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.metra import METRA
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Spec

SKILLS, DIMENSION, ROWS, SLACK, MULTIPLIER = 4, 2, 12, 1e-3, 30.0
DISCRETE = METRA(number_of_skills=SKILLS, hidden=(16,), learning_rate=3e-3, multiplier_learning_rate=1e-2)
CONTINUOUS = dataclasses.replace(DISCRETE, skill_kind="continuous", dimension=DIMENSION)
KEY = jax.random.key(0)
BOTH_KINDS = pytest.mark.parametrize("objective", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
BOTH_CONSTRAINTS = pytest.mark.parametrize("constraint", ["sum", "mean"])


@cache
def start(objective):
    return objective.init(KEY, Spec((2,), 2))


@cache
def compiled(objective, function):
    return jax.jit(getattr(objective, function))


def walk(objective, rows=ROWS, seed=0, length=0.5):
    """Each skill moves its own way, wherever it is."""
    generator = np.random.default_rng(seed)
    if objective.skill_kind == "discrete":
        index = np.arange(rows) % SKILLS
        skill, move = np.eye(SKILLS)[index], np.asarray([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[index]
    else:
        normal = generator.normal(size=(rows, DIMENSION))
        skill = move = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    obs = generator.uniform(-2, 2, size=(rows, 2))
    obs, next_obs, skill = (jnp.asarray(one, jnp.float32) for one in (obs, obs + length * move, skill))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, skill, jnp.zeros(rows))


def steps_by_hand(state, data):
    """φ(s') − φ(s)."""
    first, last = state.representation.params.layers

    def network(states):
        hidden = np.maximum(np.asarray(states) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
        return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)

    return network(data.next_obs) - network(data.obs)


def gain_by_hand(objective, state, data):
    skill = np.asarray(data.skill)
    if objective.skill_kind == "discrete":
        skill = np.where(skill == 1, 1.0, -1 / (SKILLS - 1))
    return (steps_by_hand(state, data) * skill).sum(axis=-1)


def kept_by_hand(steps, constraint):
    squares = steps**2
    length = squares.sum(axis=-1) if constraint == "sum" else squares.mean(axis=-1)
    return np.minimum(SLACK, 1 - length).mean()


@BOTH_KINDS
def test_reward(objective):
    data = walk(objective)
    _, reward, _ = compiled(objective, "reward")(start(objective), data, KEY)
    np.testing.assert_allclose(reward, gain_by_hand(objective, start(objective), data), rtol=1e-3, atol=1e-5)


@BOTH_KINDS
@BOTH_CONSTRAINTS
def test_loss(objective, constraint):
    objective = dataclasses.replace(objective, constraint=constraint)
    # Far enough that some steps are too long and some are not.
    data = walk(objective, length=6.0)
    state = start(objective)
    kept = kept_by_hand(steps_by_hand(state, data), constraint)
    assert kept < 0
    _, metrics = compiled(objective, "update")(state, data, KEY)
    gain = gain_by_hand(objective, state, data).mean()
    np.testing.assert_allclose(metrics["constraint"], kept, rtol=1e-3)
    np.testing.assert_allclose(metrics["model_loss"], -(gain + MULTIPLIER * kept), rtol=1e-3)


def test_kinds_of_skills():
    assert DISCRETE.skills == Discrete(SKILLS)
    assert CONTINUOUS.skills == Sphere(DIMENSION)
    alone = dataclasses.replace(DISCRETE, number_of_skills=1)
    data = walk(DISCRETE)._replace(skill=jnp.ones((ROWS, 1)))
    _, reward, _ = alone.reward(start(alone), data, KEY)
    assert jnp.isfinite(reward).all()


@BOTH_KINDS
def test_the_multiplier_grows_where_the_constraint_is_broken_and_falls_where_it_is_kept(objective):
    state = start(objective)
    np.testing.assert_allclose(state.multiplier.params, math.log(MULTIPLIER), rtol=1e-6)
    for length, change in ((50.0, 1e-2), (0.01, -1e-2)):
        moved, metrics = compiled(objective, "update")(state, walk(objective, length=length), KEY)
        assert np.sign(metrics["constraint"]) == -np.sign(change)
        # Adam's first step has the length of its learning rate, however small the slack is.
        np.testing.assert_allclose(moved.multiplier.params - state.multiplier.params, change, rtol=1e-2)


@cache
def learned(objective):
    data = walk(objective, rows=128)

    def step(state, key):
        return objective.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 800)))(start(objective))[0]


@BOTH_KINDS
@BOTH_CONSTRAINTS
def test_learning_makes_steps_as_long_as_allowed(objective, constraint):
    objective = dataclasses.replace(objective, constraint=constraint)
    data = walk(objective, rows=128, seed=1)
    squares = steps_by_hand(learned(objective), data) ** 2
    length = squares.sum(axis=-1) if constraint == "sum" else squares.mean(axis=-1)
    assert 0.75 < length.mean() < 1.1
    assert np.quantile(length, 0.95) < 1.35
    if constraint == "mean":
        # What the mean bounds is not the length.
        assert squares.sum(axis=-1).mean() > 1.4


@BOTH_KINDS
def test_moving_along_the_own_direction_is_rewarded(objective):
    data = walk(objective, rows=128, seed=1)
    reward = compiled(objective, "reward")
    _, along, _ = reward(learned(objective), data, KEY)
    _, back, _ = reward(learned(objective), data._replace(obs=data.next_obs, next_obs=data.obs), KEY)
    _, still, _ = reward(learned(objective), data._replace(next_obs=data.obs), KEY)
    assert jnp.min(along) > 0.4
    assert jnp.mean(along) > 0.8
    np.testing.assert_allclose(back, -along, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(still, 0)


def test_directions_are_opposite_where_moves_are():
    data = walk(CONTINUOUS, rows=128, seed=1)
    _, reward, _ = compiled(CONTINUOUS, "reward")(learned(CONTINUOUS), data._replace(skill=-data.skill), KEY)
    assert jnp.max(reward) < 0
