"""CSD against its formulas in NumPy, its multiplier, and its liking for what is hard to change."""

import dataclasses
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.csd import CSD
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Spec

SKILLS, DIMENSION, ROWS, SLACK, MULTIPLIER = 4, 2, 12, 1e-6, 3000.0
DISCRETE = CSD(number_of_skills=SKILLS, hidden=(16,), learning_rate=3e-3, multiplier_learning_rate=1e-2)
CONTINUOUS = dataclasses.replace(DISCRETE, skill_kind="continuous", dimension=DIMENSION)
KEY = jax.random.key(0)
BOTH_KINDS = pytest.mark.parametrize("objective", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
# Which axis moves easily; the other way round for the other kind, so that no axis is preferred as such.
EASE = {DISCRETE: (0.1, 1.0), CONTINUOUS: (1.0, 0.1)}


@cache
def start(objective):
    return objective.init(KEY, Spec((2,), 2))


@cache
def compiled(objective, function):
    return jax.jit(getattr(objective, function))


def walk(objective, rows=ROWS, seed=0, ease=(1.0, 1.0)):
    """Each skill moves its own way; ``ease`` is how far anything, skills and chance, moves along each axis."""
    generator = np.random.default_rng(seed)
    if objective.skill_kind == "discrete":
        index = np.arange(rows) % SKILLS
        skill, move = np.eye(SKILLS)[index], np.asarray([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[index]
    else:
        normal = generator.normal(size=(rows, DIMENSION))
        skill = move = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    obs = np.asarray(ease) * generator.uniform(-2, 2, size=(rows, 2))
    next_obs = obs + np.asarray(ease) * (0.5 * move + 0.2 * generator.normal(size=(rows, 2)))
    obs, next_obs, skill = (jnp.asarray(one, jnp.float32) for one in (obs, next_obs, skill))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, skill, jnp.zeros(rows))


def network(mlp, states):
    """A network with one hidden layer, by hand."""
    first, last = mlp.layers
    hidden = np.maximum(np.asarray(states) @ np.asarray(first.weight).T + np.asarray(first.bias), 0)
    return hidden @ np.asarray(last.weight).T + np.asarray(last.bias)


def steps_by_hand(state, data):
    mlp = state.representation.params
    return network(mlp, data.next_obs) - network(mlp, data.obs)


def gain_by_hand(objective, state, data):
    skill = np.asarray(data.skill)
    if objective.skill_kind == "discrete":
        skill = np.where(skill == 1, 1.0, -1 / (SKILLS - 1))
    return (steps_by_hand(state, data) * skill).sum(axis=-1)


def changes_by_hand(state, data):
    """s' − s − μ(s), and σ(s)."""
    model = state.changes.params
    surprise = np.asarray(data.next_obs - data.obs) - network(model.mean, data.obs)
    return surprise, np.exp(network(model.log_std, data.obs))


def distance_by_hand(state, data, constraint):
    surprise, std = changes_by_hand(state, data)
    # Variances over their geometric mean.
    weights = np.prod(std, axis=-1, keepdims=True) ** (2 / std.shape[-1]) / std**2
    np.testing.assert_allclose(weights.prod(axis=-1), 1, rtol=1e-3)
    return (surprise**2 * weights).sum(axis=-1) / (1 if constraint == "sum" else surprise.shape[-1])


@BOTH_KINDS
def test_reward(objective):
    data = walk(objective)
    _, reward, _ = compiled(objective, "reward")(start(objective), data, KEY)
    # Ten is the scale of the authors' code.
    np.testing.assert_allclose(reward, 10 * gain_by_hand(objective, start(objective), data), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "objective", [DISCRETE, dataclasses.replace(CONTINUOUS, constraint="mean")], ids=["sum", "mean"]
)
def test_losses(objective):
    constraint, state, data = objective.constraint, start(objective), walk(objective)
    # The model expects these changes: some distances are shorter than the steps of the representation.
    expected = np.asarray(data.obs) + network(state.changes.params.mean, data.obs)
    data = data._replace(next_obs=data.next_obs.at[:6].set(jnp.asarray(expected[:6], jnp.float32)))
    distance = distance_by_hand(state, data, constraint)
    squares = steps_by_hand(state, data) ** 2
    length = squares.sum(axis=-1) if constraint == "sum" else squares.mean(axis=-1)
    kept = np.minimum(SLACK, distance - length).mean()
    assert (distance < length).sum() >= 6
    assert (distance > length).sum() >= 2
    surprise, std = changes_by_hand(state, data)
    density = -0.5 * (surprise / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)
    _, metrics = compiled(objective, "update")(state, data, KEY)
    np.testing.assert_allclose(metrics["distance"], distance.mean(), rtol=1e-3)
    np.testing.assert_allclose(metrics["constraint"], kept, rtol=1e-3)
    gain = gain_by_hand(objective, state, data).mean()
    np.testing.assert_allclose(metrics["model_loss"], -(gain + MULTIPLIER * kept), rtol=1e-3)
    np.testing.assert_allclose(metrics["change_loss"], -density.sum(axis=-1).mean(), rtol=1e-3)


def test_kinds_of_skills():
    assert DISCRETE.skills == Discrete(SKILLS)
    assert CONTINUOUS.skills == Sphere(DIMENSION)


def test_the_multiplier_grows_where_the_constraint_is_broken_and_falls_where_it_is_kept():
    state, data = start(DISCRETE), walk(DISCRETE)
    model = state.changes.params
    surprising = data._replace(next_obs=data.obs + 10.0)
    expected = data._replace(next_obs=data.obs + jax.vmap(model.mean)(data.obs))
    np.testing.assert_allclose(state.multiplier.params, math.log(MULTIPLIER), rtol=1e-6)
    for one, change in ((expected, 1e-2), (surprising, -1e-2)):
        moved, _ = compiled(DISCRETE, "update")(state, one, KEY)
        # Adam's first step has the length of its learning rate, however small the slack is.
        np.testing.assert_allclose(moved.multiplier.params - state.multiplier.params, change, rtol=2e-2)


@cache
def learned(objective):
    data = walk(objective, rows=256, ease=EASE[objective])

    def step(state, key):
        return objective.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 1200)))(start(objective))[0]


def pushed(axis, ease):
    """The same short push along one axis from many places."""
    obs = walk(DISCRETE, rows=32, seed=2, ease=ease).obs
    return walk(DISCRETE, rows=32)._replace(obs=obs, next_obs=obs.at[:, axis].add(0.1))


@BOTH_KINDS
def test_what_is_hard_to_change_counts_for_more(objective):
    state, ease = learned(objective), EASE[objective]
    hard = int(np.argmin(ease))
    in_hard, in_easy = (pushed(axis, ease) for axis in (hard, 1 - hard))
    far, near = (float(jnp.mean(objective.distance(state, one))) for one in (in_hard, in_easy))
    assert far > 5 * near
    long, short = (np.linalg.norm(steps_by_hand(state, one), axis=-1).mean() for one in (in_hard, in_easy))
    assert long > 2 * short


@BOTH_KINDS
def test_moving_along_the_own_direction_is_rewarded_within_the_constraint(objective):
    state, data = learned(objective), walk(objective, rows=128, seed=1, ease=EASE[objective])
    _, along, _ = compiled(objective, "reward")(state, data, KEY)
    back = data._replace(obs=data.next_obs, next_obs=data.obs)
    _, against, _ = compiled(objective, "reward")(state, back, KEY)
    assert jnp.mean(along > 0) > 0.95
    np.testing.assert_allclose(against, -along, rtol=1e-3, atol=1e-5)
    length, distance = (steps_by_hand(state, data) ** 2).sum(axis=-1), np.asarray(objective.distance(state, data))
    assert (length <= distance * 1.1 + 1e-3).mean() > 0.9
