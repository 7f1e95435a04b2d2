"""LSD against its formulas in NumPy, its Lipschitz bound, and on a walk in which some steps are longer than others."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.lsd import LSD, spectral
from skillscape.skills import Discrete, Sphere
from skillscape.stats import Moments
from skillscape.types import Experience, Spec

SKILLS, DIMENSION, ROWS = 4, 2, 12
DISCRETE = LSD(number_of_skills=SKILLS, hidden=(16,), learning_rate=3e-3)
CONTINUOUS = dataclasses.replace(DISCRETE, skill_kind="continuous", dimension=DIMENSION)
KEY = jax.random.key(0)
BOTH_KINDS = pytest.mark.parametrize("objective", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])


@cache
def start(objective):
    """With moments that standardise visibly."""
    state = objective.init(KEY, Spec((2,), 2))
    return state._replace(states=Moments(jnp.asarray([1.0, -2.0]), jnp.asarray([4.0, 0.25]), jnp.asarray(100.0)))


def walk(objective, rows=ROWS, seed=0):
    """Each skill moves its own way, wherever it is; the first axis spans ten times as much as the second."""
    generator = np.random.default_rng(seed)
    if objective.skill_kind == "discrete":
        index = np.arange(rows) % SKILLS
        skill, move = np.eye(SKILLS)[index], np.asarray([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[index]
    else:
        normal = generator.normal(size=(rows, DIMENSION))
        skill = move = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    scale = np.asarray([10.0, 1.0])
    obs = generator.uniform(-2, 2, size=(rows, 2)) * scale
    obs, next_obs, skill = (jnp.asarray(one, jnp.float32) for one in (obs, obs + 0.5 * move * scale, skill))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, skill, jnp.zeros(rows))


def steps_by_hand(state, data, moments):
    """φ(s') − φ(s) with every weight over its largest singular value, by an SVD."""
    mean, std = np.asarray(moments.mean), np.sqrt(np.maximum(np.asarray(moments.variance), 0.01))
    first, last = (
        (np.asarray(layer.weight) / np.linalg.svd(np.asarray(layer.weight))[1][0], np.asarray(layer.bias))
        for layer in state.representation.params.layers
    )

    def network(states):
        hidden = np.maximum((np.asarray(states) - mean) / std @ first[0].T + first[1], 0)
        return hidden @ last[0].T + last[1]

    return network(data.next_obs) - network(data.obs)


def gain_by_hand(objective, steps, data):
    skill = np.asarray(data.skill)
    if objective.skill_kind == "discrete":
        skill = np.where(skill == 1, 1.0, -1 / (SKILLS - 1))
    return (steps * skill).sum(axis=-1)


@cache
def converged(objective):
    """With the singular vectors after many rounds."""
    state = start(objective)
    vectors = state.vectors
    for _ in range(300):
        vectors = spectral(state.representation.params, vectors)[1]
    return state._replace(vectors=vectors)


@BOTH_KINDS
def test_reward(objective):
    data, state = walk(objective), converged(objective)
    _, reward, _ = jax.jit(objective.reward)(state, data, KEY)
    expected = gain_by_hand(objective, steps_by_hand(state, data, state.states), data)
    np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-4)


@BOTH_KINDS
def test_loss_is_at_states_standardised_with_those_of_the_batch(objective):
    data, state = walk(objective), converged(objective)
    after, metrics = jax.jit(objective.update)(state, data, KEY)
    steps = steps_by_hand(state, data, after.states)
    assert after.states.count == 100 + ROWS
    np.testing.assert_allclose(metrics["model_loss"], -gain_by_hand(objective, steps, data).mean(), rtol=1e-3)
    np.testing.assert_allclose(metrics["squared_length"], (steps**2).sum(axis=-1).mean(), rtol=1e-3)


def test_an_update_makes_one_round_of_the_power_iteration_of_the_weights_before_it():
    state = start(DISCRETE)
    after, _ = DISCRETE.update(state, walk(DISCRETE), KEY)
    for layer, old, new in zip(state.representation.params.layers, state.vectors, after.vectors, strict=True):
        weight = np.asarray(layer.weight)
        right = weight.T @ np.asarray(old)
        left = weight @ right
        np.testing.assert_allclose(new, left / np.linalg.norm(left), rtol=1e-3, atol=1e-5)


def test_first_estimates_of_the_singular_values_are_close():
    state = DISCRETE.init(KEY, Spec((7,), 2))
    normalised, _ = spectral(state.representation.params, state.vectors)
    for layer in normalised.layers:
        assert np.linalg.svd(np.asarray(layer.weight))[1][0] == pytest.approx(1, rel=0.05)


def test_the_gradient_reaches_the_singular_value():
    state = converged(DISCRETE)

    def length(network):
        return sum(jnp.sum(layer.weight**2) for layer in spectral(network, state.vectors)[0].layers)

    gradients = jax.grad(length)(state.representation.params)
    # A weight divided by its singular value does not depend on its own scale.
    for layer, gradient in zip(state.representation.params.layers, gradients.layers, strict=True):
        assert jnp.any(jnp.abs(gradient.weight) > 1e-3)
        np.testing.assert_allclose(jnp.sum(layer.weight * gradient.weight), 0, atol=1e-4)


def test_kinds_of_skills():
    assert DISCRETE.skills == Discrete(SKILLS)
    assert CONTINUOUS.skills == Sphere(DIMENSION)


@cache
def learned(objective):
    data = walk(objective, rows=128)

    def step(state, key):
        return objective.update(state, data, key)

    return jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(KEY, 600)))(start(objective))[0]


@BOTH_KINDS
def test_steps_are_no_longer_than_those_of_the_standardised_states(objective):
    state, data = learned(objective), walk(objective, rows=128, seed=1)
    latent = jnp.linalg.norm(objective.represent(state, data.next_obs) - objective.represent(state, data.obs), axis=-1)
    std = jnp.sqrt(state.states.variance)[None]
    moved = jnp.linalg.norm((data.next_obs - data.obs) / std, axis=-1)
    assert jnp.all(latent <= 1.05 * moved)
    # And learning uses what is allowed.
    assert jnp.mean(latent) > 0.5 * jnp.mean(moved)


@BOTH_KINDS
def test_moving_along_the_own_direction_is_rewarded(objective):
    data, reward = walk(objective, rows=128, seed=1), jax.jit(objective.reward)
    _, along, _ = reward(learned(objective), data, KEY)
    _, back, _ = reward(learned(objective), data._replace(obs=data.next_obs, next_obs=data.obs), KEY)
    assert jnp.min(along) > 0.05
    np.testing.assert_allclose(back, -along, rtol=1e-3, atol=1e-5)


@BOTH_KINDS
def test_the_unit_of_an_entry_does_not_matter(objective):
    # The same walk in centimetres: states are standardised.
    unit = 100.0
    data = walk(objective, rows=64)
    scaled = data._replace(obs=data.obs * unit, next_obs=data.next_obs * unit)
    fresh = objective.init(KEY, Spec((2,), 2))
    (state, metrics), (other, other_metrics) = (jax.jit(objective.update)(fresh, one, KEY) for one in (data, scaled))
    np.testing.assert_allclose(other_metrics["model_loss"], metrics["model_loss"], rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(
        objective.reward(other, scaled, KEY)[1], objective.reward(state, data, KEY)[1], rtol=1e-2, atol=1e-3
    )


def test_images_go_through_normalised_convolutions():
    state = DISCRETE.init(KEY, Spec((16, 16, 3), 2))
    vectors = state.vectors
    for _ in range(200):
        normalised, vectors = spectral(state.representation.params, vectors)
    kernels = normalised.obs_encoder.layers
    assert len(kernels) == 2
    for kernel in kernels:
        matrix = np.asarray(kernel.weight).reshape(-1, kernel.weight.shape[-1])
        assert np.linalg.svd(matrix)[1][0] == pytest.approx(1, rel=1e-2)
