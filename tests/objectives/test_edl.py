"""EDL against its formulas in NumPy; its codes spread over what is seen, and then stay."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.base import Scale
from skillscape.objectives.edl import EDL, ROUNDS
from skillscape.stats import Moments
from skillscape.types import Experience, Spec

SKILLS, ROWS, VARIANCE, NEIGHBOURS, DISCOVERY, KEY = 3, 12, 0.3, 4, 50, jax.random.key(0)
OBJECTIVE = EDL(
    number_of_skills=SKILLS,
    discovery_updates=DISCOVERY,
    code_rate=0.1,
    variance=VARIANCE,
    neighbours=NEIGHBOURS,
)
SEEN = Moments(jnp.asarray([1.0, -2.0]), jnp.asarray([4.0, 0.25]), jnp.asarray(100.0))
EXPLORING = OBJECTIVE.init(KEY, Spec((2,), 2))._replace(states=SEEN)
FIXED = EXPLORING._replace(updates=jnp.asarray(DISCOVERY, jnp.int32))


def batch(seed=0, rows=ROWS):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in generator.normal(size=(2, rows, 2)))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, jnp.eye(SKILLS)[np.arange(rows) % SKILLS], jnp.zeros(rows))


def places_by_hand(states, moments=SEEN):
    return (np.asarray(states) - np.asarray(moments.mean)) / np.sqrt(np.asarray(moments.variance))


def squared_by_hand(places):
    return ((places[:, None] - np.asarray(EXPLORING.codes)[None]) ** 2).sum(axis=-1)


def test_reward_of_fixed_codes_is_the_likelihood_of_the_own_region():
    _, reward, _ = jax.jit(OBJECTIVE.reward)(FIXED, batch(), KEY)
    expected = -squared_by_hand(places_by_hand(batch().next_obs))[np.arange(ROWS), np.arange(ROWS) % SKILLS]
    np.testing.assert_allclose(reward, expected / (2 * VARIANCE), rtol=1e-4)


def test_reward_before_is_particle_entropy_whatever_the_skill():
    places = places_by_hand(batch().next_obs)
    distances = np.sort(np.linalg.norm(places[:, None] - places[None], axis=-1), axis=-1)[:, :NEIGHBOURS]
    expected = np.log1p((distances / distances.mean()).mean(axis=-1))
    state, reward, _ = jax.jit(OBJECTIVE.reward)(EXPLORING, batch(), KEY)
    np.testing.assert_allclose(reward, expected, rtol=1e-3)
    np.testing.assert_allclose(state.distances.mean, distances.mean(), rtol=1e-3)
    _, other, _ = OBJECTIVE.reward(EXPLORING, batch()._replace(skill=jnp.roll(batch().skill, 1, axis=-1)), KEY)
    np.testing.assert_allclose(other, reward, rtol=1e-5)


def test_codes_move_towards_the_states_assigned_to_them():
    after, metrics = jax.jit(OBJECTIVE.update)(EXPLORING, batch(), KEY)
    places = places_by_hand(batch().next_obs, after.states)
    assignment = np.exp(-squared_by_hand(places) / OBJECTIVE.assignment_temperature)
    for _ in range(ROUNDS):
        assignment /= assignment.sum(axis=0, keepdims=True)
        assignment /= assignment.sum(axis=1, keepdims=True)
    means = (assignment / assignment.sum(axis=0, keepdims=True)).T @ places
    np.testing.assert_allclose(after.codes, 0.9 * np.asarray(EXPLORING.codes) + 0.1 * means, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(metrics["model_loss"], squared_by_hand(places).min(axis=-1).mean(), rtol=1e-3)


def test_codes_and_moments_stay_once_they_are_fixed():
    after, metrics = OBJECTIVE.update(FIXED, batch(), KEY)
    assert metrics["codes_fixed"] == 1
    np.testing.assert_array_equal(after.codes, FIXED.codes)
    jax.tree.map(np.testing.assert_array_equal, after.states, FIXED.states)


def corners(rows=60, seed=0):
    generator = np.random.default_rng(seed)
    middles = np.asarray([[30.0, 0.0], [-30.0, 1.0], [0.0, -2.0]])[np.arange(rows) % 3]
    states = middles + generator.normal(scale=(2.0, 0.1), size=(rows, 2))
    return batch(rows=rows)._replace(next_obs=jnp.asarray(states, jnp.float32))


def test_each_region_of_what_was_seen_gets_a_skill_which_names_it():
    state, metrics = jax.jit(
        lambda state: jax.lax.scan(
            lambda state, key: OBJECTIVE.update(state, corners(), key), state, jax.random.split(KEY, 100)
        )
    )(OBJECTIVE.init(KEY, Spec((2,), 2)))
    np.testing.assert_array_equal(metrics["codes_fixed"], np.arange(100) >= DISCOVERY)
    goals = corners(seed=1).next_obs
    skill = np.argmax(OBJECTIVE.skill_for_goal(state, jnp.zeros_like(goals), goals), axis=-1)
    assert sorted(skill[:3]) == [0, 1, 2]
    np.testing.assert_array_equal(skill, np.tile(skill[:3], 20))
    # The reward is highest in the own region.
    own = corners(seed=1)._replace(skill=jnp.eye(SKILLS)[skill])
    other = own._replace(skill=jnp.roll(own.skill, 1, axis=-1))
    assert jnp.min(OBJECTIVE.reward(state, own, KEY)[1]) > jnp.max(OBJECTIVE.reward(state, other, KEY)[1])


@pytest.mark.parametrize(
    ("benchmark", "preset", "replayed", "updates"),
    [
        ("maze", "default", False, 1_000),
        ("maze", "long", False, 25_000),
        ("maze", "default", True, 25_000),
        ("urlb", "compact", True, 25_000),
        ("urlb", "paper", True, 250_000),
        ("urlb-pixels", "paper", True, 50_000),
        ("maze-pixels", "laptop", True, 1_000),
        ("urlb", "smoke", True, 10),
    ],
)
def test_discovery_is_part_of_the_budget(benchmark, preset, replayed, updates):
    scale = Scale("maze", "default", 128, 64, 32, 10, None, 1e-3, 1e-3)
    assert EDL.at(replace(scale, benchmark=benchmark, preset=preset, replayed=replayed)).discovery_updates == updates
