"""Networks: shapes, initial ranges, and the soft modules against a loop over modules written out in NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.nets import GRU, MLP, ConditionalMLP, LayerNorm, Linear, SoftModular, orthogonal, uniform

WIDTH, MODULES, MODULE_WIDTH, TEMPERATURE = 6, 3, 4, 0.7
X = jnp.asarray([0.3, -0.7])
SKILL = jnp.asarray([1.0, -2.0, 0.5, 3.0, -0.1, 0.9])


def relu(x):
    return np.maximum(x, 0.0)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def affine(linear, x):
    return np.asarray(linear.weight) @ x + np.asarray(linear.bias)


def soft_modular(layers, seed=0):
    return SoftModular.create(jax.random.key(seed), 2, WIDTH, layers, MODULES, MODULE_WIDTH, 5, TEMPERATURE)


def test_uniform_fills_its_range():
    draws = np.asarray(uniform(jax.random.key(0), (50, 50), 25))
    assert np.abs(draws).max() <= 0.2
    assert draws.min() < -0.19
    assert draws.max() > 0.19


def test_uniform_of_nothing_is_finite():
    assert np.isfinite(uniform(jax.random.key(0), (3,), 0)).all()


def test_linear_is_affine():
    linear = Linear(jnp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), jnp.asarray([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(linear(jnp.asarray([1.0, -1.0])), [-0.9, -0.8, -0.7], rtol=1e-6)


def test_linear_starts_within_its_fan_in():
    linear = Linear.create(jax.random.key(0), 16, 64)
    assert linear.weight.shape == (64, 16)
    assert linear.bias.shape == (64,)
    assert max(np.abs(linear.weight).max(), np.abs(linear.bias).max()) <= 0.25


def test_linear_weights_and_biases_are_drawn_apart():
    linear = Linear.create(jax.random.key(0), 1, 8)
    assert not np.any(linear.weight[:, 0] == linear.bias)


def test_linear_without_inputs_is_its_bias():
    linear = Linear.create(jax.random.key(0), 0, 3)
    np.testing.assert_array_equal(linear(jnp.zeros(0)), linear.bias)


@pytest.mark.parametrize(("inputs", "outputs", "numbers"), [(7, 3, 3), (5, 5, 5), (3, 40, 4)])
def test_squared_errors_are_those_of_the_outputs(inputs, outputs, numbers):
    linear = Linear.create(jax.random.key(0), inputs, outputs)
    x, y = jax.random.normal(jax.random.key(1), (inputs,)), 3 * jax.random.normal(jax.random.key(2), (outputs,))
    assert linear.target(y).shape == (numbers,)

    def direct(linear, x, y):
        return jnp.sum((y - linear(x)) ** 2)

    def preprocess(linear, x, y):
        return linear.squared_error(x, linear.target(y))

    np.testing.assert_allclose(preprocess(linear, x, y), direct(linear, x, y), rtol=1e-5)
    found, expected = (jax.grad(function, (0, 1, 2))(linear, x, y) for function in (preprocess, direct))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_mlp_has_relu_between_layers_and_none_at_the_end():
    mlp = MLP.create(jax.random.key(0), 2, (5, 7), 3)
    x = np.asarray(X)
    expected = affine(mlp.layers[2], relu(affine(mlp.layers[1], relu(affine(mlp.layers[0], x)))))
    np.testing.assert_allclose(mlp(X), expected, rtol=1e-5, atol=1e-6)
    assert (expected < 0).any()


def test_mlp_without_hidden_layers_is_linear():
    mlp = MLP.create(jax.random.key(0), 2, (), 3)
    np.testing.assert_allclose(mlp(X), affine(mlp.layers[0], np.asarray(X)), rtol=1e-5, atol=1e-6)


def test_mlp_layers_start_different():
    mlp = MLP.create(jax.random.key(0), 4, (4,), 4)
    assert not np.any(mlp.layers[0].weight == mlp.layers[1].weight)


def test_every_leaf_is_an_array():
    for net in (MLP.create(jax.random.key(0), 2, (3,), 1), soft_modular(2)):
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(net))


def test_conditional_mlp_adds_the_skill_before_the_first_relu():
    net = ConditionalMLP.create(jax.random.key(0), 2, WIDTH, 2, 5)
    hidden = relu(affine(net.first, np.asarray(X)) + np.asarray(SKILL))
    expected = affine(net.rest.layers[1], relu(affine(net.rest.layers[0], hidden)))
    np.testing.assert_allclose(net.conditioned(net.shared(X), SKILL), expected, rtol=1e-5, atol=1e-6)
    assert len(net.rest.layers) == 2


def routing_by_hand(net, embedded, skill):
    joint = embedded * skill
    feature, between = joint, []
    for layer in range(len(net.weights)):
        logits = np.asarray(net.routes[layer]) @ relu(feature) + np.asarray(net.route_biases[layer])
        mixing = softmax(logits.reshape(MODULES, MODULES) / TEMPERATURE)
        between.append(mixing)
        feature = (np.asarray(net.gates[layer]) @ mixing.ravel() + np.asarray(net.gate_biases[layer])) * joint
    return between, softmax(affine(net.last_route, relu(feature)) / TEMPERATURE)


def output_by_hand(net, x, skill):
    """Module by module, as the equations read."""
    embedded = affine(net.embed, x)
    between, joining = routing_by_hand(net, embedded, skill)
    first = np.asarray(net.first.weight).reshape(MODULES, MODULE_WIDTH, WIDTH)
    first_bias = np.asarray(net.first.bias).reshape(MODULES, MODULE_WIDTH)
    sent = [relu(first[j] @ relu(embedded) + first_bias[j]) for j in range(MODULES)]
    for layer, mixing in enumerate(between):
        received = [sum(mixing[i, j] * sent[j] for j in range(MODULES)) for i in range(MODULES)]
        weights, biases = np.asarray(net.weights[layer]), np.asarray(net.biases[layer])
        sent = [relu(weights[i] @ received[i] + biases[i]) for i in range(MODULES)]
    return affine(net.output, sum(joining[j] * sent[j] for j in range(MODULES)))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_soft_modules_follow_their_equations(layers):
    net = soft_modular(layers)
    expected = output_by_hand(net, np.asarray(X), np.asarray(SKILL))
    np.testing.assert_allclose(net.conditioned(net.shared(X), SKILL), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("skills", [1, MODULES, MODULES + 1, 12])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_soft_modules_under_each_skill_are_those_under_one(layers, skills):
    # With more skills than modules the second layer multiplies before it mixes.
    net = soft_modular(layers)
    inputs = jax.random.normal(jax.random.key(1), (5, 2))
    embedded = 3 * jax.random.normal(jax.random.key(2), (skills, WIDTH))

    def total(net, inputs, embedded, hidden):
        return jnp.sum(jnp.sin(3 * jax.vmap(lambda x: hidden(net, net.shared(x), embedded))(inputs)))

    def plain(net, shared, embedded):
        return jax.vmap(net.hidden, (None, 0))(shared, embedded)

    for x in inputs:
        shared = net.shared(x)
        expected = plain(net, shared, embedded)
        found = net.hidden_of_each(shared, embedded)
        assert found.shape == (skills, MODULE_WIDTH)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        outputs = jax.vmap(net.conditioned, (None, 0))(shared, embedded)
        np.testing.assert_allclose(net.conditioned_on_each(shared, embedded), outputs, rtol=1e-5, atol=1e-6)
    found, expected = (
        jax.grad(total, (0, 1, 2))(net, inputs, embedded, hidden) for hidden in (SoftModular.hidden_of_each, plain)
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def products(function, *arguments):
    """The multiply-adds of all dense products in a function."""
    total = 0
    for equation in jax.make_jaxpr(function)(*arguments).eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            summed = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            total += summed * math.prod(equation.outvars[0].aval.shape)
    return total


def test_the_second_layer_costs_the_square_of_the_modules_and_no_more_with_skills():
    net = soft_modular(2)
    few, many = 2 * MODULES, 5 * MODULES
    counts = [products(net.hidden_of_each, net.shared(X), jnp.ones((skills, WIDTH))) for skills in (few, many)]
    routing = products(net.routing, net.shared(X)[0], SKILL)
    assert counts[1] - counts[0] == (many - few) * routing
    assert counts[0] == few * routing + MODULES**2 * MODULE_WIDTH**2


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_routings_follow_their_equations(layers):
    net = soft_modular(layers)
    between, joining = net.routing(net.shared(X)[0], SKILL)
    by_hand, joining_by_hand = routing_by_hand(net, affine(net.embed, np.asarray(X)), np.asarray(SKILL))
    assert len(between) == layers - 1
    np.testing.assert_allclose(np.asarray(between), np.asarray(by_hand).reshape(np.shape(between)), rtol=1e-5)
    np.testing.assert_allclose(joining, joining_by_hand, rtol=1e-5)


def test_routing_rows_sum_to_one():
    net = soft_modular(3)
    inputs = 10 * jax.random.normal(jax.random.key(1), (20, 2))
    skills = 10 * jax.random.normal(jax.random.key(2), (20, WIDTH))
    between, joining = jax.vmap(lambda x, skill: net.routing(net.shared(x)[0], skill))(inputs, skills)
    np.testing.assert_allclose(jnp.sum(jnp.stack(between), axis=-1), np.ones((2, 20, MODULES)), rtol=1e-5)
    np.testing.assert_allclose(jnp.sum(joining, axis=-1), np.ones(20), rtol=1e-5)
    # Columns, the receiving modules, do not: the softmax is over the senders.
    assert np.abs(np.asarray(jnp.sum(between[0], axis=-2)) - 1).max() > 0.1


def test_each_routing_depends_on_the_skill():
    net = soft_modular(3)
    embedded = net.shared(X)[0]
    here, there = net.routing(embedded, SKILL), net.routing(embedded, -SKILL)
    changes = [np.abs(a - b).max() for a, b in zip([*here[0], here[1]], [*there[0], there[1]], strict=True)]
    assert min(changes) > 1e-3


def test_soft_modules_start_with_an_open_embedding_and_open_gates():
    net = soft_modular(3)
    np.testing.assert_array_equal(net.embed.bias, 1)
    np.testing.assert_array_equal(net.gate_biases, 1)


def test_layer_norm_standardises_one_vector():
    scale, shift = np.float32([1.0, 2.0, -1.0, 0.5]), np.float32([0.0, 1.0, 2.0, 3.0])
    x = np.float32([3.0, -1.0, 10.0, 0.0])
    expected = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * scale + shift
    np.testing.assert_allclose(LayerNorm(jnp.asarray(scale), jnp.asarray(shift))(jnp.asarray(x)), expected, rtol=1e-5)


def test_layer_norm_starts_plain_and_is_finite_where_nothing_varies():
    norm = LayerNorm.create(4)
    found = np.asarray(norm(100 * jax.random.normal(jax.random.key(0), (4,))))
    np.testing.assert_allclose([found.mean(), found.var()], [0, 1], atol=1e-4)
    np.testing.assert_array_equal(norm(jnp.full(4, 7.0)), 0)


@pytest.mark.parametrize(("rows", "columns"), [(7, 3), (3, 7), (5, 5), (1, 4), (4, 1)])
def test_orthogonal_matrices_have_orthonormal_rows_or_columns(rows, columns):
    matrix = np.asarray(orthogonal(jax.random.key(0), rows, columns))
    assert matrix.shape == (rows, columns)
    product = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    np.testing.assert_allclose(product, np.eye(min(rows, columns)), atol=1e-5)


def test_orthogonal_draws_favour_no_sign_and_no_direction():
    # QR alone gives a triangle of one sign, and with it columns that lean one way.
    draws = np.stack([orthogonal(jax.random.key(seed), 2, 2) for seed in range(400)])
    assert np.abs(draws.mean(axis=0)).max() < 5 * np.sqrt(0.5 / 400)
    assert abs((np.linalg.det(draws) > 0).mean() - 0.5) < 5 * np.sqrt(0.25 / 400)


def test_orthogonal_layers_start_without_a_bias():
    linear = Linear.orthogonal(jax.random.key(0), 3, 5)
    assert linear.weight.shape == (5, 3)
    np.testing.assert_array_equal(linear.bias, np.zeros(5))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_gated_step_resets_after_the_linear_map_and_remembers_at_first():
    cell = GRU.create(jax.random.key(0), 2, 3)
    state = np.asarray([0.5, -0.2, 0.9])
    mapped = affine(cell.gates, np.concatenate([np.asarray(X), state]))
    normed = (mapped - mapped.mean()) / np.sqrt(mapped.var() + 1e-5)
    reset, candidate, update = normed[:3], normed[3:6], normed[6:]
    share = sigmoid(update - 1)
    expected = share * np.tanh(sigmoid(reset) * candidate) + (1 - share) * state
    np.testing.assert_allclose(cell(X, jnp.asarray(state, jnp.float32)), expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "low"), [("relu", 0.0), ("elu", np.expm1(-3.0)), ("silu", -3 * sigmoid(-3.0))])
def test_the_activation_stands_between_the_layers(name, low):
    one = Linear(jnp.ones((1, 1)), jnp.zeros(1))
    np.testing.assert_allclose(MLP((one, one), name)(jnp.asarray([-3.0])), [low], rtol=1e-5)
    np.testing.assert_allclose(MLP((one,), name)(jnp.asarray([-3.0])), [-3.0])
