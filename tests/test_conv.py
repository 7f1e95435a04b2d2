"""Convolutions in both of their forms, what an eye gives of a state, and its outline."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import quick

from skillscape.conv import convolve, convolve_transposed, lowering, preprocess
from skillscape.errors import UserError
from skillscape.nets import MLP
from skillscape.objectives.encoders import (
    DEPTH,
    ENCODER_KEY,
    ObsEncoder,
    StateNet,
    coarse_target,
    coarse_target_size,
    empty_states,
    to_storage,
)

KEY = jax.random.key(0)


def image(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).integers(0, 256, shape), jnp.uint8)


def same(one, other):
    """Whether two trees have the same leaves under the same names, to the last bit."""
    (left, right) = (jax.tree_util.tree_leaves_with_path(tree) for tree in (one, other))
    assert [path for path, _ in left] == [path for path, _ in right]
    return all(np.array_equal(a, b) for (_, a), (_, b) in zip(left, right, strict=True))


# Convolutions


@pytest.mark.parametrize("shape", [(10, 12, 3), (9, 7, 2), (4, 4, 1)])
def test_a_convolution_is_the_same_in_both_lowerings(shape):
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=shape), jnp.float32)
    kernel = jnp.asarray(generator.normal(size=(4, 4, shape[2], 5)), jnp.float32)
    raw = [lambda *both, form=form: convolve(*both, form) for form in ("convolution", "product")]
    forms = [quick(form) for form in raw]
    np.testing.assert_allclose(*(form(x, kernel) for form in forms), atol=1e-4)
    by_hand = sum(
        np.asarray(x)[a : a + shape[0] - 3 : 2, b : b + shape[1] - 3 : 2] @ np.asarray(kernel)[a, b]
        for a in range(4)
        for b in range(4)
    )
    np.testing.assert_allclose(forms[1](x, kernel), by_hand, atol=1e-4)
    slopes = [quick(jax.grad(lambda *both, form=form: jnp.sum(form(*both) ** 2), (0, 1)))(x, kernel) for form in raw]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("shape", "size"), [((1, 1, 3), 5), ((5, 4, 2), 5), ((3, 4, 2), 6)])
def test_a_transposed_convolution_is_the_same_in_both_lowerings(shape, size):
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=shape), jnp.float32)
    kernel = jnp.asarray(generator.normal(size=(size, size, shape[2], 3)), jnp.float32)
    raw = [lambda *both, form=form: convolve_transposed(*both, form) for form in ("convolution", "product")]
    forms = [quick(form) for form in raw]
    by_hand = np.zeros((2 * (shape[0] - 1) + size, 2 * (shape[1] - 1) + size, 3))
    for i in range(shape[0]):
        for j in range(shape[1]):
            by_hand[2 * i : 2 * i + size, 2 * j : 2 * j + size] += np.einsum("c,abco->abo", x[i, j], kernel)
    for form in forms:
        np.testing.assert_allclose(form(x, kernel), by_hand, atol=1e-4)
    slopes = [quick(jax.grad(lambda *both, form=form: jnp.sum(form(*both) ** 2), (0, 1)))(x, kernel) for form in raw]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


def test_a_cpu_multiplies():
    assert lowering() == "product"


# Bytes


def test_bytes_become_numbers_around_zero():
    np.testing.assert_allclose(preprocess(jnp.asarray([0, 255], jnp.uint8)), [-0.5, 0.5])
    np.testing.assert_array_equal(preprocess(jnp.asarray([3.0, -2.0])), [3.0, -2.0])


def test_what_is_stored_is_what_was_seen():
    seen = image(5, 6, 3)
    np.testing.assert_array_equal(to_storage(seen), seen)
    np.testing.assert_array_equal(to_storage(preprocess(seen)), seen)
    np.testing.assert_array_equal(to_storage(jnp.full((1, 1, 2), 0.7)), 255)
    np.testing.assert_array_equal(to_storage(jnp.asarray([3.0, -2.0])), [3.0, -2.0])
    assert empty_states(4, (5, 6, 3)).dtype == to_storage(preprocess(seen)).dtype == jnp.uint8
    assert empty_states(4, (2,)).dtype == jnp.float32


# What networks read


def test_an_eye_for_vectors_has_nothing_to_learn_and_changes_nothing():
    obs_encoder, state = ObsEncoder.create(KEY, (5,)), jnp.asarray([0.1, -3.0, 1e6, 0.0, 7.0])
    assert jax.tree.leaves(obs_encoder) == []
    assert obs_encoder.width == 5
    np.testing.assert_array_equal(obs_encoder(state), state)


def test_on_vectors_a_state_net_is_an_mlp_to_the_last_bit():
    net, mlp = StateNet.create(KEY, (5,), (8, 7), 3), MLP.create(KEY, 5, (8, 7), 3)
    assert same(net, mlp)
    state = jnp.linspace(-1, 1, 5)
    np.testing.assert_array_equal(net(state), mlp(state))
    both = StateNet.create(KEY, (3,), (8, 7), 3, extra=2)
    assert same(both, mlp)
    np.testing.assert_array_equal(both(state[:3], state[3:]), mlp(state))


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((64, 64, 3), [(31, 31), (14, 14), (6, 6), (2, 2)]),
        ((84, 84, 9), [(41, 41), (19, 19), (8, 8), (3, 3)]),
        ((32, 32, 3), [(15, 15), (6, 6), (2, 2)]),
        ((16, 16, 3), [(7, 7), (2, 2)]),
        ((17, 40, 1), [(7, 19), (2, 8)]),
        ((4, 5, 2), [(1, 1)]),
        ((3, 50, 2), []),
        ((1, 1, 3), []),
    ],
    ids=str,
)
def test_an_eye_has_the_convolutions_that_an_image_is_large_enough_for(shape, sides):
    obs_encoder = jax.eval_shape(lambda: ObsEncoder.create(KEY, shape))
    depths = [DEPTH * 2**layer for layer in range(len(sides))]
    assert [layer.weight.shape[3] for layer in obs_encoder.layers] == depths
    assert obs_encoder.width == (math.prod(sides[-1]) * depths[-1] if sides else math.prod(shape))
    assert jax.eval_shape(lambda obs_encoder: obs_encoder(image(*shape)), obs_encoder).shape == (obs_encoder.width,)


def test_what_an_eye_gives_is_its_convolutions_of_the_prepared_image():
    obs_encoder, seen = ObsEncoder.create(KEY, (10, 13, 3)), image(10, 13, 3)
    expected = np.asarray(seen, float) / 255 - 0.5
    for layer in obs_encoder.layers:
        size = [(side - 4) // 2 + 1 for side in expected.shape[:2]]
        weight = np.asarray(layer.weight, float)
        windows = [
            expected[a : a + 2 * size[0] - 1 : 2, b : b + 2 * size[1] - 1 : 2] @ weight[a, b]
            for a in range(4)
            for b in range(4)
        ]
        expected = np.maximum(sum(windows) + np.asarray(layer.bias), 0)
    assert len(obs_encoder.layers) == 2
    np.testing.assert_allclose(obs_encoder(seen), expected.reshape(-1), atol=1e-5)
    np.testing.assert_allclose(obs_encoder(preprocess(seen)), expected.reshape(-1), atol=1e-5)
    tiny = ObsEncoder.create(KEY, (3, 2, 1))
    np.testing.assert_allclose(tiny(image(3, 2, 1)), np.asarray(image(3, 2, 1)).reshape(-1) / 255 - 0.5, atol=1e-6)


def test_what_differs_between_images_still_does_behind_all_convolutions():
    images = preprocess(jnp.repeat(jnp.repeat(image(20, 4, 4, 3), 16, axis=1), 16, axis=2))
    seen = np.asarray(quick(lambda images: jax.vmap(ObsEncoder.create(KEY, (64, 64, 3)))(images))(images))
    assert 0.2 < np.mean(seen**2) / np.mean(np.asarray(images) ** 2) < 5
    assert np.mean(np.var(seen, axis=0)) > 0.2 * np.mean(seen**2)


def test_an_eye_draws_from_a_key_of_its_own():
    net = StateNet.create(KEY, (8, 8, 1), (), 2)
    first, again = (ObsEncoder.create(key, (8, 8, 1)) for key in (KEY, KEY))
    assert same(net.obs_encoder, first)
    assert same(first, again)
    behind = MLP.create(KEY, net.obs_encoder.width, (), 2)
    assert all(np.array_equal(a.weight, b.weight) for a, b in zip(net.layers, behind.layers, strict=True))
    # Keys split off the same key are others' already: the eye's is none of them.
    own = jax.random.key_data(jax.random.fold_in(KEY, ENCODER_KEY))
    assert not (jax.random.key_data(jax.random.split(KEY, 64)) == own[None]).all(axis=1).any()


def test_the_gradient_reaches_every_convolution():
    net = StateNet.create(KEY, (16, 16, 3), (8,), 2)
    slope = quick(jax.grad(lambda net: jnp.sum(net(image(16, 16, 3)) ** 2)))(net)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(slope))


# What is predicted


@pytest.mark.parametrize("shape", [(16, 16, 3), (8, 8, 1), (64, 64, 3), (13, 20, 2), (9, 5, 1), (3, 2, 4)], ids=str)
def test_an_outline_is_the_mean_over_the_area_of_each_cell(shape):
    rows, columns = (min(side, 8) for side in shape[:2])
    # With every pixel drawn as a block of its own, cells end between pixels.
    fine = np.repeat(np.repeat(np.asarray(image(*shape), float), rows, axis=0), columns, axis=1) / 255 - 0.5
    cells = fine.reshape(rows, shape[0], columns, shape[1], shape[2]).mean(axis=(1, 3))
    assert coarse_target_size(shape) == cells.size
    np.testing.assert_allclose(coarse_target(image(*shape)), cells.reshape(-1), atol=1e-5)
    np.testing.assert_allclose(coarse_target(preprocess(image(*shape))), cells.reshape(-1), atol=1e-5)


def test_the_outline_of_a_vector_is_the_vector():
    state = jnp.asarray([0.1, -3.0, 1e6])
    np.testing.assert_array_equal(coarse_target(state), state)
    assert coarse_target_size((3,)) == 3


def test_outlines_lie_between_black_and_white():
    np.testing.assert_allclose(coarse_target(jnp.zeros((11, 30, 3), jnp.uint8)), -0.5, atol=1e-6)
    np.testing.assert_allclose(coarse_target(jnp.full((11, 30, 3), 255, jnp.uint8)), 0.5, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (4, 4), (2, 8, 8, 3)], ids=str)
def test_states_that_are_neither_vectors_nor_images_are_refused(shape):
    for function in (
        lambda shape: ObsEncoder.create(KEY, shape),
        lambda shape: coarse_target(jnp.zeros(shape)),
        coarse_target_size,
    ):
        with pytest.raises(UserError, match="neither vectors nor images"):
            function(shape)
