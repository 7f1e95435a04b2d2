"""CSF against its formulas in NumPy, and on a walk in which skills are directions."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.csf import CSF
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Spec

SKILLS, DIMENSION, ROWS, NEGATIVES, WEIGHT = 4, 2, 12, 32, 5.0
CONTINUOUS = CSF(number_of_skills=SKILLS, dimension=DIMENSION, negatives=NEGATIVES, hidden=(16,), learning_rate=3e-3)
DISCRETE = dataclasses.replace(CONTINUOUS, skill_kind="discrete")
KEY = jax.random.key(0)
BOTH_KINDS = pytest.mark.parametrize("objective", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])


@cache
def start(objective):
    return objective.init(KEY, Spec((2,), 2))


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


def directions_by_hand(objective, skill):
    skill = np.asarray(skill)
    return np.where(skill == 1, 1.0, -1 / (SKILLS - 1)) if objective.skill_kind == "discrete" else skill


def steps_by_hand(state, data):
    first, last = state.representation.params.layers

    def network(states):
        hidden = np.maximum(np.asarray(states) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
        return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)

    return network(data.next_obs) - network(data.obs)


@BOTH_KINDS
def test_reward_is_without_the_contrast(objective):
    data, state = walk(objective), start(objective)
    _, reward, _ = jax.jit(objective.reward)(state, data, KEY)
    expected = (steps_by_hand(state, data) * directions_by_hand(objective, data.skill)).sum(axis=-1)
    np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-5)


@BOTH_KINDS
def test_loss(objective):
    data, state = walk(objective, length=6.0), start(objective)
    steps = steps_by_hand(state, data)
    others = directions_by_hand(objective, objective.skills.sample(KEY, NEGATIVES))
    gain = (steps * directions_by_hand(objective, data.skill)).sum(axis=-1)
    contrast = np.log(np.exp(steps @ others.T).sum(axis=-1))
    _, metrics = jax.jit(objective.update)(state, data, KEY)
    np.testing.assert_allclose(metrics["model_loss"], -(gain - WEIGHT * contrast).mean(), rtol=1e-4)


def test_other_skills_are_drawn_anew_at_each_update():
    state, data = start(CONTINUOUS), walk(CONTINUOUS, length=6.0)
    losses = [CONTINUOUS.update(state, data, jax.random.key(seed))[1]["contrast"] for seed in (0, 0, 1)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_kinds_of_skills_and_of_the_critic():
    assert DISCRETE.skills == Discrete(SKILLS)
    assert CONTINUOUS.skills == Sphere(DIMENSION)
    assert (CONTINUOUS.critic_head, CONTINUOUS.critic_width) == ("skill", DIMENSION)
    assert (DISCRETE.critic_head, DISCRETE.critic_width) == ("scalar", 1)


def learned(objective):
    data = walk(objective, rows=128)

    def step(state, key):
        return objective.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 800)))(start(objective))[0]


def test_moving_along_the_own_direction_is_rewarded():
    # With ξ = 5 the contrast weighs more than the gain: steps stay short, but point along their skills.
    data, state = walk(CONTINUOUS, rows=128, seed=1), learned(CONTINUOUS)
    reward = jax.jit(CONTINUOUS.reward)
    _, along, _ = reward(state, data, KEY)
    _, against, _ = reward(state, data._replace(skill=-data.skill), KEY)
    length = np.linalg.norm(steps_by_hand(state, data), axis=-1)
    assert np.mean(np.asarray(along) / length) > 0.9
    assert jnp.min(along) > 0
    assert jnp.max(against) < 0


def test_a_smaller_weight_of_the_contrast_allows_longer_steps():
    data = walk(CONTINUOUS, rows=128, seed=1)
    weights = (5.0, 2.0)
    short, long = (
        np.linalg.norm(steps_by_hand(learned(dataclasses.replace(CONTINUOUS, contrast_weight=weight)), data), axis=-1)
        for weight in weights
    )
    # On the circle the stationary length solves ξ I₁(l) / I₀(l) = 1, as if the draws were the whole circle.
    grid = np.linspace(0.01, 5, 5000)
    angles = np.cos(np.linspace(0, 2 * np.pi, 400, endpoint=False))
    ratio = [(angles * np.exp(one * angles)).mean() / np.exp(one * angles).mean() for one in grid]
    expected = [grid[np.argmin(np.abs(weight * np.asarray(ratio) - 1))] for weight in weights]
    np.testing.assert_allclose([short.mean(), long.mean()], expected, rtol=0.15)
