"""Returns, weights and scales against loops written out; where gradients of imagined trajectories go and where not."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import changed
from probes import quick

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, WorldConfig
from skillscape.backbones.dreamer.imagination import (
    BINS,
    Actor,
    Critic,
    cumulative_weights,
    imagine,
    lambda_returns,
    track_magnitude,
    track_mean,
    track_range,
)
from skillscape.backbones.dreamer.networks import create_critic
from skillscape.backbones.dreamer.world_model import Latent
from skillscape.nets import MLP
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.optim import TrainState, gradient_step
from skillscape.types import EnvSpec

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
SKILLED = Extrinsic(skill_kind="discrete", skill_width=4)
TINY = Dreamer(
    world=WorldConfig(embedding=5, deter=6, hidden=7, stoch=2, classes=3, units=8, layers=1),
    behaviour=BehaviourConfig(units=8, layers=1),
)
ROWS, HORIZON = 5, 3
KEY = jax.random.key(3)


@cache
def parts():
    shapes = jax.eval_shape(lambda: TINY.init(KEY, SPEC, SKILLED))
    generator = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.3 * generator.normal(size=leaf.shape), leaf.dtype),
        (shapes.world.params.dynamics, shapes.actor.params),
    )


@cache
def start():
    generator = np.random.default_rng(0)
    deter = jnp.asarray(generator.normal(size=(ROWS, 6)), jnp.float32)
    sample = jax.nn.one_hot(jnp.asarray(generator.integers(0, 3, (ROWS, 2))), 3)
    return Latent(deter, sample, sample)


SKILL = jnp.eye(4)[jnp.asarray([0, 3, 1, 1, 2])]


@cache
def dreaming():
    return quick(lambda dynamics, actor, start: imagine(dynamics, actor, start, SKILL, HORIZON, KEY))


@cache
def slopes():
    """Gradients of the sum of the last recurrent states to the dynamics, the actor and the start."""

    def last(dynamics, actor, start):
        return jnp.sum(imagine(dynamics, actor, start, SKILL, HORIZON, KEY).states.deter[-1])

    return quick(jax.grad(last, (1, 2)))


def test_returns_are_those_of_a_slow_loop():
    generator = np.random.default_rng(0)
    reward, value, discount = (generator.normal(size=(6, 3)) for _ in range(3))
    expected, later = [], value[5]
    for time in range(4, -1, -1):
        later = reward[time] + discount[time] * (0.05 * value[time + 1] + 0.95 * later)
        expected.insert(0, later)
    found = lambda_returns(*(jnp.asarray(part, jnp.float32) for part in (reward, value, discount)), 0.95)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_state_is_weighed_by_the_discounts_before_it():
    discount = jnp.asarray([[0.5], [0.2], [0.9]])
    np.testing.assert_allclose(cumulative_weights(discount), [[1.0], [0.5], [0.1]], rtol=1e-6)
    assert not np.any(jax.grad(lambda one: jnp.sum(cumulative_weights(one)))(discount))


def test_the_size_of_rewards_is_followed_without_their_sign():
    reward = jnp.asarray([[-2.0, 4.0], [0.0, -6.0]])
    assert track_magnitude(jnp.asarray(1.0), reward, 0.95) == pytest.approx(0.95 + 0.05 * 3)
    assert track_magnitude(jnp.asarray(1.0), reward, 1.0) == 1
    assert not np.any(jax.grad(lambda one: track_magnitude(jnp.asarray(1.0), one, 0.5))(reward))


def test_the_mean_of_rewards_is_of_all_of_them_at_first_and_then_runs():
    rewards = np.random.default_rng(0).normal(3.0, 1.0, (8, 4, 5)).astype(np.float32)
    mean = jnp.asarray(0.0)
    for update, reward in enumerate(rewards):
        mean = track_mean(mean, jnp.asarray(reward), jnp.asarray(update), 0.9)
        assert mean == pytest.approx(rewards[: update + 1].mean(), rel=1e-5)
    assert track_mean(jnp.asarray(1.0), jnp.full((4, 5), 3.0), jnp.asarray(99), 0.9) == pytest.approx(1.2)
    assert not np.any(jax.grad(lambda one: track_mean(mean, one, jnp.asarray(0), 0.9))(jnp.asarray(reward)))


def test_the_range_of_returns_leaves_out_the_extremes():
    returns = jnp.arange(101.0).reshape(1, 101).at[0, 100].set(1e6)
    assert track_range(jnp.asarray(10.0), returns, 0.01) == pytest.approx(0.99 * 10 + 0.01 * 90, rel=1e-5)


def test_a_dream_begins_at_its_start_and_follows_the_prior():
    dynamics, actor = parts()
    dream = dreaming()(dynamics, actor, start())
    assert dream.states.feature.shape == (HORIZON + 1, ROWS, 12)
    assert dream.action.shape == (HORIZON, ROWS, 2)
    assert dream.entropy.shape == (HORIZON, ROWS)
    np.testing.assert_array_equal(dream.states.deter[0], start().deter)
    np.testing.assert_array_equal(dream.states.stoch[0], start().stoch)
    states = dream.states
    moved = dynamics.transition(states.deter[1, 2], states.stoch[1, 2], dream.action[1, 2])
    np.testing.assert_allclose(states.deter[2, 2], moved, atol=1e-5)
    np.testing.assert_allclose(states.logits[2, 2], dynamics.infer_prior(moved), atol=1e-5)
    policy = actor(states.feature[1, 2], SKILL[2])
    assert dream.entropy[1, 2] == pytest.approx(float(policy.entropy()), rel=1e-4)
    assert dream.output_l2[1, 2] == pytest.approx(
        float(actor.with_output_l2(states.feature[1, 2], SKILL[2])[1]), rel=1e-4
    )
    assert (np.abs(dream.action) < 1).all()


def test_skills_change_what_is_done():
    dynamics, actor = parts()
    other = quick(lambda *rest: imagine(*rest, SKILL[::-1], HORIZON, KEY))(dynamics, actor, start())
    changed = np.asarray(other.entropy[0] != dreaming()(dynamics, actor, start()).entropy[0])
    np.testing.assert_array_equal(changed, [True, True, False, True, True])


def test_gradients_reach_the_actor_by_what_actions_do():
    dynamics, actor = parts()
    for_actor, _ = slopes()(dynamics, actor, start())
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(for_actor)) > 1e-4
    deaf = eqx.tree_at(lambda one: one.input.weight, dynamics, dynamics.input.weight.at[:, -2:].set(0.0))
    for_actor, _ = slopes()(deaf, actor, start())
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(for_actor))


def test_the_start_is_detached():
    _, for_start = slopes()(*parts(), start())
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(for_start))


def test_what_the_policy_reads_is_detached():
    # Deviations depend on the mean of an earlier action only by the state that it led to.
    def entropy(actor, dynamics):
        return jnp.sum(imagine(dynamics, actor, start(), SKILL, HORIZON, KEY).entropy)

    dynamics, actor = parts()
    slope = quick(jax.grad(entropy))(actor, dynamics).network.layers[-1]
    assert not np.any(slope.bias[:2])
    assert np.any(slope.bias[2:])


def test_the_policy_has_a_mean_inside_and_a_deviation_above_a_tenth():
    actor = eqx.tree_at(lambda one: one.network.layers[-1].bias, parts()[1], jnp.asarray([9.0, -9.0, -99.0, 99.0]))
    policy = actor(jnp.zeros(12), SKILL[0])
    np.testing.assert_allclose(policy.mean, [1, -1], atol=1e-3)
    np.testing.assert_allclose(policy.std, [0.1, 2.1], atol=1e-3)


def test_the_output_l2_is_half_the_square_of_what_enters_the_tanh():
    outputs = jnp.asarray([3.0, -4.0, 1.0, 2.0])
    actor = eqx.tree_at(
        lambda one: (one.network.layers[-1].weight, one.network.layers[-1].bias),
        parts()[1],
        (jnp.zeros_like(parts()[1].network.layers[-1].weight), outputs),
    )
    policy, output_l2 = actor.with_output_l2(jnp.arange(12.0), SKILL[0])
    assert output_l2 == pytest.approx((9 + 16 + 1 + 4) / 2)
    np.testing.assert_allclose(policy.mean, np.tanh([3.0, -4.0]), rtol=1e-5)


def test_a_controller_mixes_the_skills_whatever_it_is_told():
    _, actor = parts()
    shares = jnp.log(jnp.asarray([0.1, 0.2, 0.3, 0.4]))
    controller = MLP.create(KEY, 12, (), 4)
    fixed = eqx.tree_at(
        lambda one: (one.layers[0].weight, one.layers[0].bias), controller, (jnp.zeros((4, 12)), shares)
    )
    feature = jnp.arange(12.0) / 12
    found = [Actor(actor.network, fixed)(feature, skill) for skill in (SKILL[0], SKILL[1])]
    single = [actor(feature, skill) for skill in jnp.eye(4)]
    for field in range(2):
        expected = np.tensordot(np.exp(shares), np.stack([np.asarray(one[field]) for one in single]), 1)
        for one in found:
            np.testing.assert_allclose(one[field], expected, rtol=1e-5)
    penalties = [float(actor.with_output_l2(feature, skill)[1]) for skill in jnp.eye(4)]
    mixed = Actor(actor.network, fixed).with_output_l2(feature, SKILL[0])[1]
    assert mixed == pytest.approx(float(np.exp(shares) @ np.asarray(penalties)), rel=1e-5)


FEATURES = jnp.asarray(np.random.default_rng(0).normal(size=(2, ROWS, 12)), jnp.float32)
TARGETS = jnp.asarray(np.random.default_rng(1).normal(size=(2, ROWS)), jnp.float32)


def network(outputs):
    return MLP.create(KEY, 16, (8,), outputs, "elu")


def test_a_critic_of_one_value_is_fitted_by_squares():
    critic = Critic(network(1), "normal")
    values = critic.values(FEATURES, SKILL)
    alone = critic.network(jnp.concatenate([FEATURES[1, 3], SKILL[3]]))[0]
    assert values[1, 3] == pytest.approx(float(alone), rel=1e-4)
    np.testing.assert_allclose(critic.nll(FEATURES, SKILL, TARGETS), 0.5 * (values - TARGETS) ** 2, rtol=1e-5)


def test_successor_features_are_worth_their_product_with_the_skill():
    critic = Critic(network(4), "successor")
    raw = critic.network(jnp.concatenate([FEATURES[1, 3], SKILL[3]]))
    assert critic.values(FEATURES, SKILL)[1, 3] == pytest.approx(float(raw @ SKILL[3]), rel=1e-4)
    assert critic.outputs == 4


def test_a_skill_can_be_scaled_where_it_enters_and_there_alone():
    _, actor = parts()
    feature = jnp.arange(12.0) / 12
    scaled = Actor(actor.network, None, 3.0)(feature, SKILL[0])
    for found, expected in zip(scaled, actor(feature, 3 * SKILL[0]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    raw = network(4)(jnp.concatenate([FEATURES[1, 3], 3 * SKILL[3]]))
    values = Critic(network(4), "successor", 3.0).values(FEATURES, SKILL)
    assert values[1, 3] == pytest.approx(float(raw @ SKILL[3]), rel=1e-4)
    agent = jax.eval_shape(lambda: changed(TINY, behaviour={"skill_scale": 3.0}).init(KEY, SPEC, SKILLED))
    assert (agent.actor.params.skill_scale, agent.critic.params.skill_scale, agent.target.skill_scale) == (3, 3, 3)


def test_a_critic_of_bins_says_zero_at_first_and_is_drawn_to_its_targets():
    backbone = changed(TINY, world={"units": 32}, behaviour={"critic": "two-hot", "units": 32, "learning_rate": 0.01})
    critic = create_critic(backbone.behaviour, KEY, 16, 0)
    assert critic.outputs == BINS
    np.testing.assert_array_equal(critic.values(FEATURES, SKILL), 0)

    def loss(critic):
        nll = jnp.mean(critic.nll(FEATURES, SKILL, TARGETS))
        return nll, {}

    @quick
    def descended(critic):
        def step(critic, _):
            return gradient_step(backbone.behaviour.optimizer, loss, critic)[0], None

        return jax.lax.scan(step, TrainState.create(backbone.behaviour.optimizer, critic), None, length=500)[0].params

    np.testing.assert_allclose(descended(critic).values(FEATURES, SKILL), TARGETS, atol=0.3)
