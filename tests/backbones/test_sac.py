"""SAC: one learning step worked out again in NumPy, and policies that are known to be best."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import quick

from skillscape.backbones.sac import SAC
from skillscape.dists import SquashedNormal
from skillscape.objectives.becl import BeCL
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec, Transitions

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
SKILLS = 4
SKILLED = Extrinsic(skill_kind="discrete", skill_width=SKILLS)
FEATURES = Extrinsic(skill_kind="sphere", skill_width=SKILLS, successor_features=True)
SMALL = SAC(hidden=(8, 8), batch_size=6, learning_rate=1e-3, tau=0.05, initial_temperature=0.3)
ROWS = 6
KEY = jax.random.key(11)


@cache
def agent(objective=SKILLED, seed=0):
    """A fresh agent whose target is not its critic, as in the middle of training."""
    fresh = SMALL.init(jax.random.key(seed), SPEC, objective)
    other = SMALL.init(jax.random.key(seed + 100), SPEC, objective)
    return fresh._replace(target=other.critic.params)


def batch(seed=0, rows=ROWS, objective=SKILLED):
    generator = np.random.default_rng(seed)
    normal = [generator.normal(size=(rows, 3)).astype(np.float32) for _ in range(3)]
    return Transitions(
        obs=normal[0],
        action=generator.uniform(-1, 1, (rows, 2)).astype(np.float32),
        skill=np.asarray(objective.skills.sample(jax.random.key(seed), rows)),
        reward=generator.normal(size=rows).astype(np.float32),
        discount=np.float32([0.97, 0.97, 0, 0.97, 0, 0.97])[:rows],
        bootstrap_obs=normal[1],
        next_obs=normal[2],
        next_discount=np.float32([0.99, 0.99, 0.99, 0, 0, 0.99])[:rows],
    )


@cache
def learned(objective=SKILLED):
    learn = quick(lambda agent, batch, key: SMALL.learn(agent, objective, None, batch, key))
    return learn(agent(objective), batch(objective=objective), KEY)


# The networks and losses in NumPy, in double precision


def mlp(layers, x):
    for index, (weight, bias) in enumerate(layers):
        x = np.asarray(weight, float) @ x + np.asarray(bias, float)
        x = np.maximum(x, 0) if index < len(layers) - 1 else x
    return x


def values(critic, obs, skill, action):
    found = []
    for head in range(2):
        layers = [(layer.weight[head], layer.bias[head]) for layer in critic.networks.layers]
        outputs = mlp(layers, np.concatenate([obs, skill, action]))
        found.append(outputs[0] if len(outputs) == 1 else outputs @ skill)
    return np.array(found)


def draw(actor, obs, skill, noise):
    """An action and its log density, by the change of variables."""
    outputs = mlp([(layer.weight, layer.bias) for layer in actor.network.layers], np.append(obs, skill))
    mean, std = outputs[:2], np.exp(np.clip(outputs[2:], -10, 2))
    action = np.tanh(mean + std * noise)
    normal = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    return action, np.sum(normal - np.log(1 - action**2))


def noises():
    _, _, target_key, actor_key = jax.random.split(KEY, 4)
    return [np.asarray(jax.random.normal(key, (ROWS, 2)), float) for key in (target_key, actor_key)]


def targets(agent, data, temperature=0.3):
    found = []
    for row, noise in enumerate(noises()[0]):
        action, log_prob = draw(agent.actor.params, data.next_obs[row], data.skill[row], noise)
        value = values(agent.target, data.next_obs[row], data.skill[row], action).min() - temperature * log_prob
        found.append(data.reward[row] + data.next_discount[row] * value)
    return np.array(found)


def critic_error(critic, data, wanted):
    errors = [values(critic, *row) - y for *row, y in zip(data.obs, data.skill, data.action, wanted, strict=True)]
    return (np.array(errors) ** 2).mean(axis=0).sum()


def actor_error(actor, critic, data, temperature=0.3):
    """The actor's loss, and the entropy of its policy."""
    losses, log_probs = [], []
    for obs, skill, noise in zip(data.obs, data.skill, noises()[1], strict=True):
        action, log_prob = draw(actor, obs, skill, noise)
        losses.append(temperature * log_prob - values(critic, obs, skill, action).min())
        log_probs.append(log_prob)
    return np.mean(losses), -np.mean(log_probs)


@pytest.mark.parametrize("objective", [SKILLED, FEATURES], ids=["scalar", "successor features"])
def test_losses_are_those_of_a_derivation_in_numpy(objective):
    data = batch(objective=objective)
    after, _, metrics = learned(objective)
    before = agent(objective)
    wanted = targets(before, data)
    assert metrics["critic_loss"] == pytest.approx(critic_error(before.critic.params, data, wanted), rel=1e-4)
    # The actor climbs the critic that was just updated.
    loss, entropy = actor_error(before.actor.params, after.critic.params, data)
    assert metrics["actor_loss"] == pytest.approx(loss, rel=1e-4)
    assert metrics["policy_entropy"] == pytest.approx(entropy, rel=1e-4)
    assert metrics["reward"] == pytest.approx(data.reward.mean(), rel=1e-4)


def slopes_of(error, params, where):
    """Numeric derivatives of an error by the entries of one array."""
    leaf = np.asarray(where(params), float)
    slopes = np.empty_like(leaf)
    for index in np.ndindex(leaf.shape):
        moved = []
        for sign in (1, -1):
            shifted = leaf.copy()
            shifted[index] += sign * 1e-5
            moved.append(error(eqx.tree_at(where, params, shifted)))
        slopes[index] = (moved[0] - moved[1]) / 2e-5
    return slopes


def check_first_step(before, after, slopes):
    """Adam's first step is the learning rate against the sign of the gradient."""
    sure = np.abs(slopes) > 1e-5
    assert sure.any()
    step = np.asarray(after, float) - np.asarray(before, float)
    np.testing.assert_allclose(step[sure], -SMALL.learning_rate * np.sign(slopes[sure]), rtol=0.02)


@pytest.mark.parametrize("layer", range(3))
def test_the_first_step_of_the_critic_descends_its_error(layer):
    before, after = agent().critic.params, learned()[0].critic.params
    wanted = targets(agent(), batch())

    def where(net):
        return net.networks.layers[layer].bias

    check_first_step(
        where(before), where(after), slopes_of(lambda net: critic_error(net, batch(), wanted), before, where)
    )


@pytest.mark.parametrize("layer", range(3))
def test_the_first_step_of_the_actor_descends_its_error(layer):
    before, after, critic = agent().actor.params, learned()[0].actor.params, learned()[0].critic.params

    def where(net):
        return net.network.layers[layer].bias

    check_first_step(
        where(before), where(after), slopes_of(lambda net: actor_error(net, critic, batch())[0], before, where)
    )


@pytest.mark.parametrize(("scale", "sign"), [(20.0, -1), (-20.0, 1)])
def test_the_temperature_holds_the_entropy_at_its_target(scale, sign):
    # A target of −40 nats is below any policy's entropy, one of +40 above: the temperature falls, or rises.
    backbone = replace(SMALL, entropy_scale=scale)
    after, _, metrics = quick(lambda *rest: backbone.learn(rest[0], SKILLED, None, *rest[1:]))(agent(), batch(), KEY)
    assert float(after.log_temperature.params) == pytest.approx(np.log(0.3) + sign * 1e-3, abs=1e-5)
    assert metrics["temperature"] == pytest.approx(0.3)


def test_the_target_follows_the_updated_critic_slowly():
    after, before = learned()[0], agent()
    expected = jax.tree.map(lambda old, new: 0.95 * old + 0.05 * new, before.target, after.critic.params)
    jax.tree.map(lambda ours, wanted: np.testing.assert_allclose(ours, wanted, atol=1e-6), after.target, expected)


@pytest.mark.parametrize(
    "objective",
    [Extrinsic(), SKILLED, FEATURES, DIAYN(number_of_skills=SKILLS, hidden=(8,)), BeCL(SKILLS, hidden=(8,))],
)
def test_learning_keeps_structure_shapes_and_types(objective):
    before = jax.eval_shape(lambda: SMALL.init(KEY, SPEC, objective))
    state = jax.eval_shape(lambda: objective.init(KEY, SMALL.objective_spec(SPEC)))
    after, state_after, metrics = jax.eval_shape(
        lambda *rest: SMALL.learn(rest[0], objective, *rest[1:]), before, state, batch(objective=objective), KEY
    )

    def kinds(tree):
        return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)

    assert kinds((after, state_after)) == kinds((before, state))
    assert all(value.shape == () for value in metrics.values())


def test_a_method_is_rewarded_for_single_steps():
    objective = DIAYN(number_of_skills=SKILLS, hidden=(8,))
    state = objective.init(jax.random.key(3), SMALL.objective_spec(SPEC))
    _, fitted, metrics = quick(lambda *rest: SMALL.learn(rest[0], objective, *rest[1:]))(agent(), state, batch(), KEY)
    scores = np.asarray(objective.score_skills(fitted, jnp.asarray(batch().next_obs)))
    assert metrics["reward"] == pytest.approx((scores * batch().skill).sum(axis=1).mean() + np.log(SKILLS), abs=1e-5)


# Fine-tuning and the controller


@pytest.mark.parametrize("keep_critic", [False, True])
def test_adapting_keeps_the_actor_and_the_critic_where_asked(keep_critic):
    before = learned()[0]
    after = SMALL.adapt(before, jax.random.key(7), keep_critic=keep_critic)
    jax.tree.map(np.testing.assert_array_equal, after.actor.params, before.actor.params)
    same = jax.tree.map(lambda ours, theirs: bool((ours == theirs).all()), after.critic.params, before.critic.params)
    assert all(jax.tree.leaves(same)) == keep_critic
    jax.tree.map(np.testing.assert_array_equal, after.target, after.critic.params)
    assert float(after.log_temperature.params) == pytest.approx(np.log(0.3))
    shapes = jax.tree.map(np.shape, (after, before))
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])


def test_a_controller_begins_with_the_mean_of_all_skills():
    before = learned()[0]
    controlled = SMALL.with_controller(before, jax.random.key(5), SPEC, SKILLS)
    act = quick(lambda *rest: SMALL.act(*rest, False)[0])
    layers = [(layer.weight, layer.bias) for layer in before.actor.params.network.layers]
    expected = [
        np.tanh(np.mean([mlp(layers, np.append(obs, z))[:2] for z in np.eye(SKILLS)], 0)) for obs in batch().obs
    ]
    for skill in (batch().skill, batch(1).skill):
        found = act(controlled.actor.params, (), batch().obs, skill, KEY)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    after, _, _ = quick(lambda *rest: SMALL.learn(rest[0], SKILLED, None, *rest[1:]))(controlled, batch(), KEY)
    assert (after.actor.params.controller.layers[-1].bias != 0).any()


# Acting


def test_the_policy_explores_by_drawing_and_otherwise_takes_its_mean():
    act = quick(lambda *rest: SMALL.act(*rest)[0], static_argnums=5)
    data = batch()
    found = act(agent().actor.params, (), data.obs, data.skill, KEY, False)
    expected = [draw(agent().actor.params, *row, 0.0)[0] for row in zip(data.obs, data.skill, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    noise = np.asarray(jax.random.normal(KEY, (ROWS, 2)), float)
    drawn = act(agent().actor.params, (), data.obs, data.skill, KEY, True)
    expected = [draw(agent().actor.params, *row)[0] for row in zip(data.obs, data.skill, noise, strict=True)]
    np.testing.assert_allclose(drawn, expected, atol=1e-5)


def test_the_likelihood_of_actions_is_that_of_the_policy():
    data = batch()
    noise = np.random.default_rng(0).normal(size=(ROWS, 2))
    rows = [draw(agent().actor.params, *row) for row in zip(data.obs, data.skill, noise, strict=True)]
    actions = jnp.asarray([action for action, _ in rows], jnp.float32)
    found = SMALL.log_prob(agent(), jnp.asarray(data.obs), jnp.asarray(data.skill), actions)
    np.testing.assert_allclose(found, [log_prob for _, log_prob in rows], rtol=1e-3)


def test_the_density_of_the_policy_integrates_to_one_and_never_overflows():
    policy = SquashedNormal(jnp.array([0.4]), jnp.array([-0.3]))
    grid = jnp.linspace(-1 + 1e-5, 1 - 1e-5, 20_001)[:, None]
    density = jnp.exp(jax.vmap(policy.log_prob)(grid))
    assert float(jnp.sum(density) * (grid[1, 0] - grid[0, 0])) == pytest.approx(1, abs=1e-3)
    far = SquashedNormal(jnp.array([60.0]), jnp.array([0.0]))
    slope = jax.grad(lambda mean: SquashedNormal(mean, far.log_std).log_prob_of_noise(jnp.zeros(1)))(far.mean)
    assert np.isfinite(far.log_prob_of_noise(jnp.zeros(1)))
    assert slope == pytest.approx(2.0)
    assert np.isfinite(far.log_prob(jnp.array([1.0])))


# Learning where the answer is known

PROBE = EnvSpec(obs_shape=(1,), action_dim=1, horizon=2)
LEARNER = SAC(hidden=(32, 32), learning_rate=3e-3, tau=0.1, initial_temperature=0.01, entropy_scale=2.0)


@cache
def probe_learning():
    """Two hundred learning steps on a fixed batch, as one program."""

    def learn(agent, batch):
        def once(agent, key):
            agent, _, _ = LEARNER.learn(agent, Extrinsic(), None, batch, key)
            return agent, None

        return jax.lax.scan(once, agent, jax.random.split(KEY, 200))[0]

    return quick(learn)


def trained_on(obs, action, reward, discount, next_obs, rounds):
    columns = [np.asarray(column, np.float32) for column in (obs, action, reward, discount, next_obs)]
    obs, action, reward, discount, next_obs = columns
    skill = np.zeros((len(obs), 0), np.float32)
    data = Transitions(obs, action, skill, reward, discount, next_obs, next_obs, discount)
    agent = LEARNER.init(jax.random.key(0), PROBE, Extrinsic())
    for _ in range(rounds):
        agent = probe_learning()(agent, data)
    return agent


def best_actions(agent, obs):
    obs = jnp.asarray(obs)
    return np.asarray(LEARNER.act(agent.actor.params, (), obs, jnp.zeros((len(obs), 0)), KEY, False)[0])[:, 0]


def test_the_actor_finds_the_action_that_pays_best_in_each_state():
    generator = np.random.default_rng(0)
    side = generator.choice([-1.0, 1.0], (256, 1))
    action = generator.uniform(-1, 1, (256, 1))
    reward = -((action - 0.5 * side) ** 2)[:, 0]
    agent = trained_on(side, action, reward, np.zeros(256), side, rounds=3)
    assert best_actions(agent, [[-1.0], [1.0]]) == pytest.approx([-0.5, 0.5], abs=0.15)


def test_a_reward_one_step_ahead_reaches_the_action_before_it():
    # From 0 an action leads to the state ±1 of its own sign; there the task ends, with a reward that is the state.
    generator = np.random.default_rng(1)
    action = generator.uniform(-1, 1, (256, 1))
    first = np.arange(256) < 128
    after = np.where(action[:, 0] > 0, 1.0, -1.0)
    obs = np.where(first, 0.0, generator.choice([-1.0, 1.0], 256))
    reward, discount = np.where(first, 0.0, obs), np.where(first, 0.5, 0.0)
    agent = trained_on(obs[:, None], action, reward, discount, after[:, None], rounds=4)
    assert best_actions(agent, [[0.0]])[0] > 0.3
