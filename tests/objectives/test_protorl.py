"""ProtoRL against its formulas in NumPy, gradient and draws included; even prototypes, rewards far from the queue."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.protorl import ProtoRL
from skillscape.types import Experience, Spec

PROTOTYPES, QUEUE, NEIGHBOURS, WIDTH, TEMPERATURE, RATE = 5, 12, 3, 6, 0.2, 0.1
SPEC = Spec((2,), 2)
# With ε = 1 the first step of Adam tells the gradient: −step / rate = g / (|g| + 1).
OBJECTIVE = ProtoRL(
    number_of_prototypes=PROTOTYPES,
    queue_size=QUEUE,
    neighbours=NEIGHBOURS,
    feature_dim=WIDTH,
    hidden=(16,),
    temperature=TEMPERATURE,
    tau=RATE,
    learning_rate=1.0,
    epsilon=1.0,
)
FRESH = OBJECTIVE.init(jax.random.key(0), SPEC)
# As after some steps: prototypes off the sphere, and a slow predictor that is not the fast one.
STATE = eqx.tree_at(
    lambda state: (state.networks.params.prototypes, state.target),
    FRESH,
    (
        FRESH.networks.params.prototypes * jnp.linspace(0.5, 2.0, PROTOTYPES)[:, None],
        OBJECTIVE.init(jax.random.key(1), SPEC).target,
    ),
)
REWARD = jax.jit(OBJECTIVE.reward)
UPDATE = jax.jit(OBJECTIVE.update)


def batch(rows=8, seed=0):
    generator = np.random.default_rng(seed)
    obs, next_obs = (jnp.asarray(one, jnp.float32) for one in generator.normal(size=(2, rows, 2)))
    return Experience(obs, jnp.zeros((rows, 2)), next_obs, jnp.zeros((rows, 0)), jnp.zeros(rows))


def linear(layer, rows):
    return np.asarray(rows, float) @ np.asarray(layer.weight, float).T + np.asarray(layer.bias, float)


def unit(rows):
    rows = np.asarray(rows, float)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def representation(data):
    return unit(linear(STATE.networks.params.predictor, data.next_obs))


def assignment_by_hand(data):
    """On the transport plan, prototypes by samples: no projector on this side."""
    prototypes = unit(STATE.networks.params.prototypes)
    plan = np.exp(prototypes @ unit(linear(STATE.target, data.next_obs)).T / TEMPERATURE)
    for _ in range(3):
        plan /= plan.sum(axis=1, keepdims=True) * PROTOTYPES
        plan /= plan.sum(axis=0, keepdims=True) * plan.shape[1]
    return (plan / plan.sum(axis=0, keepdims=True)).T


def loss_by_hand(data, predictor, projector, prototypes):
    first, last = projector.layers
    states = unit(linear(last, np.maximum(linear(first, linear(predictor, data.obs)), 0)))
    scores = states @ np.asarray(prototypes, float).T / TEMPERATURE
    log_probability = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return -(assignment_by_hand(data) * log_probability).sum(axis=-1).mean()


def test_loss():
    networks = STATE.networks.params
    by_hand = loss_by_hand(batch(), networks.predictor, networks.projector, unit(networks.prototypes))
    _, metrics = UPDATE(STATE, batch(), jax.random.key(0))
    np.testing.assert_allclose(metrics["model_loss"], by_hand, rtol=1e-4)


@pytest.mark.parametrize("name", ["predictor", "prototypes"])
def test_the_gradient_takes_assignments_and_lengths_as_given(name):
    networks = eqx.tree_at(lambda tree: tree.prototypes, STATE.networks.params, unit(STATE.networks.params.prototypes))
    learned = UPDATE(STATE, batch(), jax.random.key(0))[0].networks.params

    def weights(tree):
        return tree.prototypes if name == "prototypes" else tree.predictor.weight

    before = np.asarray(weights(networks), float)
    step = before - np.asarray(weights(learned), float)

    def shifted(index, by):
        moved = before.copy()
        moved[index] += by
        tree = eqx.tree_at(weights, networks, moved)
        return loss_by_hand(batch(), tree.predictor, tree.projector, tree.prototypes)

    by_hand = np.asarray([(shifted(i, 1e-5) - shifted(i, -1e-5)) / 2e-5 for i in np.ndindex(*before.shape)])
    np.testing.assert_allclose(step / (1 - np.abs(step)), by_hand.reshape(before.shape), rtol=1e-2, atol=1e-3)


def test_the_slow_predictor_follows_the_new_one():
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    new = learned.networks.params.predictor
    np.testing.assert_allclose(
        learned.target.weight, (1 - RATE) * STATE.target.weight + RATE * new.weight, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        learned.target.bias, (1 - RATE) * STATE.target.bias + RATE * new.bias, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(learned.queue, STATE.queue)


def test_the_projector_learns():
    learned, _ = UPDATE(STATE, batch(), jax.random.key(0))
    before, after = (state.networks.params.projector for state in (STATE, learned))
    for old, new in zip(before.layers, after.layers, strict=True):
        assert jnp.any(old.weight != new.weight)


def test_reward_is_the_distance_to_the_last_neighbour_in_the_new_queue():
    state, _, _ = REWARD(STATE, batch(), jax.random.key(0))
    state, reward, _ = REWARD(state, batch(seed=1), jax.random.key(1))
    distances = np.linalg.norm(representation(batch(seed=1))[:, None] - np.asarray(state.queue)[None], axis=-1)
    np.testing.assert_allclose(reward, np.sort(distances, axis=-1)[:, NEIGHBOURS - 1], rtol=1e-4, atol=1e-6)


def test_the_newest_candidates_push_out_the_oldest():
    state, queues = STATE, []
    for seed in range(3):
        state, _, _ = REWARD(state, batch(seed=seed), jax.random.key(seed))
        queues.append(np.asarray(state.queue))
        candidates, rows = queues[-1][:PROTOTYPES], representation(batch(seed=seed))
        assert np.linalg.norm(candidates[:, None] - rows[None], axis=-1).min(axis=-1).max() < 1e-5
    np.testing.assert_array_equal(queues[0][PROTOTYPES:], 0)
    np.testing.assert_array_equal(queues[1][PROTOTYPES:], queues[0][: QUEUE - PROTOTYPES])
    np.testing.assert_array_equal(queues[2][PROTOTYPES:], queues[1][: QUEUE - PROTOTYPES])


def test_zeros_of_an_unfilled_queue_bound_the_reward():
    _, reward, _ = REWARD(STATE, batch(), jax.random.key(0))
    assert jnp.max(reward) <= 1 + 1e-5


def test_each_prototype_draws_from_the_batch_by_a_softmax_over_its_rows():
    data, draws = batch(), 4000
    queues = jax.jit(jax.vmap(lambda key: OBJECTIVE.reward(STATE, data, key)[0].queue))(
        jax.random.split(jax.random.key(0), draws)
    )
    rows = representation(data)
    drawn = np.linalg.norm(np.asarray(queues)[:, :PROTOTYPES, None] - rows[None, None], axis=-1).argmin(axis=-1)
    scores = unit(STATE.networks.params.prototypes) @ rows.T
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for prototype in range(PROTOTYPES):
        frequency = np.bincount(drawn[:, prototype], minlength=len(rows)) / draws
        np.testing.assert_allclose(frequency, probability[prototype], atol=4 * np.sqrt(0.25 / draws))


def test_parameters_do_not_change_in_a_reward():
    state, _, _ = REWARD(STATE, batch(), jax.random.key(0))
    before, after = (jax.tree.leaves((one.networks, one.target)) for one in (STATE, state))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_critic_is_kept():
    assert OBJECTIVE.keeps_critic


def test_learning_uses_all_prototypes_evenly():
    objective = dataclasses.replace(OBJECTIVE, learning_rate=3e-3, epsilon=1e-8)
    data = batch(64)._replace(next_obs=batch(64).obs)
    start = objective.init(jax.random.key(3), SPEC)

    def step(state, key):
        return objective.update(state, data, key)

    learned, _ = jax.jit(lambda state: jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 500)))(start)

    def usage(state):
        networks = state.networks.params
        first, last = networks.projector.layers
        states = unit(linear(last, np.maximum(linear(first, linear(networks.predictor, data.obs)), 0)))
        scores = states @ unit(networks.prototypes).T / TEMPERATURE
        return (np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)).mean(axis=0)

    assert np.abs(usage(learned) - 1 / PROTOTYPES).max() < 0.05
    assert np.abs(usage(start) - 1 / PROTOTYPES).max() > 0.1


def test_states_far_from_the_queue_are_rewarded():
    near = batch(64)._replace(next_obs=1.0 + 0.1 * batch(64).next_obs)
    state = STATE
    for seed in range(4):
        state, known, _ = REWARD(state, near, jax.random.key(seed))
    mixed = near._replace(next_obs=near.next_obs.at[0].set(-1.0))
    _, reward, _ = REWARD(state, mixed, jax.random.key(9))
    assert jnp.max(known) < 0.5
    assert reward[0] > 2 * jnp.max(reward[1:])
