"""Gradient steps against the update rules written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from skillscape.optim import TrainState, adam, decaying_adam, ema, gradient_step, trained_parameters


def quadratic(params):
    value = jnp.sum((params["x"] - 3.0) ** 2)
    return value, {"loss": value}


def test_descend_takes_one_step_down_the_gradient():
    start = TrainState.create(optax.sgd(0.1), {"x": jnp.asarray([1.0, 4.0])})
    moved, metrics = gradient_step(optax.sgd(0.1), quadratic, start)
    np.testing.assert_allclose(moved.params["x"], [1.4, 3.8], rtol=1e-6)
    assert metrics["loss"] == 5.0


def test_descend_keeps_the_old_learner():
    start = TrainState.create(adam(0.1), {"x": jnp.asarray([1.0])})
    gradient_step(adam(0.1), quadratic, start)
    assert start.params["x"] == 1.0


def test_descend_carries_the_state_of_the_optimiser():
    rule = adam(0.1)

    def twice(start):
        return gradient_step(rule, quadratic, gradient_step(rule, quadratic, start)[0])[0]

    moved = jax.jit(twice)(TrainState.create(rule, {"x": jnp.asarray([1.0])}))
    x, first, second = 1.0, 0.0, 0.0
    for step in (1, 2):
        gradient = 2 * (x - 3)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        x -= 0.1 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(moved.params["x"], x, rtol=1e-5)
    assert isinstance(moved, TrainState)


def test_adam_uses_its_epsilon():
    moved, _ = gradient_step(
        adam(0.1, epsilon=4.0), quadratic, TrainState.create(adam(0.1, epsilon=4.0), {"x": jnp.asarray([1.0])})
    )
    np.testing.assert_allclose(moved.params["x"], 1 + 0.1 * 4 / (4 + 4), rtol=1e-5)


def test_adam_clips_the_global_norm_first():
    rule = adam(0.1, epsilon=1.0, clip_norm=0.5)
    start = TrainState.create(rule, {"x": jnp.asarray([0.0, 3.0 + 4.0])})  # gradient (-6, 8), norm 10 → (-0.3, 0.4)
    moved, _ = gradient_step(rule, quadratic, start)
    np.testing.assert_allclose(moved.params["x"], [0.1 * 0.3 / 1.3, 7 - 0.1 * 0.4 / 1.4], rtol=1e-5)


def test_ema_moves_by_the_rate():
    average = ema({"x": jnp.asarray([0.0, 2.0])}, {"x": jnp.asarray([1.0, 4.0])}, 0.25)
    np.testing.assert_allclose(average["x"], [0.25, 2.5])


def test_decay_shrinks_whatever_the_learning_rate():
    rule = decaying_adam(0.1, epsilon=1.0, clip_norm=0.5, decay=0.01)
    start = {"x": jnp.asarray([0.0, 3.0 + 4.0]), "y": jnp.asarray(2.0)}
    moved, _ = gradient_step(rule, quadratic, TrainState.create(rule, start))
    np.testing.assert_allclose(moved.params["x"], [0.1 * 0.3 / 1.3, 0.99 * 7 - 0.1 * 0.4 / 1.4], rtol=1e-5)
    np.testing.assert_allclose(moved.params["y"], 0.99 * 2, rtol=1e-6)


def test_parameters_are_those_that_gradient_steps_move():
    weights = {"weight": jnp.zeros((3, 4)), "bias": jnp.zeros(4), "temperature": jnp.asarray(0.0)}
    agent = {"actor": TrainState.create(adam(0.1), weights), "target": weights, "moments": jnp.zeros(5)}
    assert trained_parameters(agent) == 3 * 4 + 4 + 1
    assert trained_parameters(jax.eval_shape(lambda: agent)) == 17
    assert trained_parameters({"moments": jnp.zeros(5), "head": None}) == 0
