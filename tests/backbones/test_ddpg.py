"""DDPG: one learning step worked out again in NumPy, the laws of a backbone, and policies that are known to be best."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import quick

from skillscape.backbones.ddpg import DDPG
from skillscape.objectives.becl import BeCL
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec, Experience, Transitions

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=10)
SKILLS = 4
SKILLED = Extrinsic(skill_kind="discrete", skill_width=SKILLS)
FEATURES = Extrinsic(skill_kind="sphere", skill_width=SKILLS, successor_features=True)
SMALL = DDPG(width=8, batch_size=6, learning_rate=1e-3, tau=0.05)
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
def compiled_learn(backbone=SMALL, objective=SKILLED):
    return quick(lambda agent, batch, key: backbone.learn(agent, objective, None, batch, key))


@cache
def learned(backbone=SMALL, objective=SKILLED):
    return compiled_learn(backbone, objective)(agent(objective), batch(objective=objective), KEY)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


# The networks and losses in NumPy, in double precision


def trunk(net, x):
    y = np.asarray(net.linear.weight, float) @ x + np.asarray(net.linear.bias, float)
    y = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    return np.tanh(y * np.asarray(net.norm.scale, float) + np.asarray(net.norm.shift, float))


def mean_action(actor, obs, skill):
    hidden = np.maximum(
        np.asarray(actor.hidden.weight, float) @ trunk(actor.trunk, np.append(obs, skill))
        + np.asarray(actor.hidden.bias, float),
        0,
    )
    return np.tanh(np.asarray(actor.output.weight, float) @ hidden + np.asarray(actor.output.bias, float))


def values(critic, obs, skill, action):
    """Q₁ and Q₂, each head on its own half of the hidden layer."""
    features = trunk(critic.trunk, np.concatenate([obs, skill, action]))
    weight, bias = np.asarray(critic.hidden.weight, float), np.asarray(critic.hidden.bias, float)
    found = []
    for head in range(2):
        part = slice(head * SMALL.width, (head + 1) * SMALL.width)
        hidden = np.maximum(weight[part] @ features + bias[part], 0)
        outputs = np.asarray(critic.weight[head], float) @ hidden + np.asarray(critic.bias[head], float)
        found.append(outputs[0] if len(outputs) == 1 else outputs @ skill)
    return np.array(found)


def noises():
    """The standard normal draws of the target's and of the actor's actions."""
    _, _, target_key, actor_key = jax.random.split(KEY, 4)
    return (np.asarray(jax.random.normal(key, (ROWS, 2))) for key in (target_key, actor_key))


def noisy(mean, noise):
    return np.clip(mean + np.clip(0.2 * noise, -0.3, 0.3), -1 + 1e-6, 1 - 1e-6)


def targets(agent, data, bootstrap_obs, discount):
    noise, _ = noises()
    found = []
    for row in range(ROWS):
        mean = mean_action(agent.actor.params, bootstrap_obs[row], data.skill[row])
        value = values(agent.target, bootstrap_obs[row], data.skill[row], noisy(mean, noise[row])).min()
        found.append(data.reward[row] + discount[row] * value)
    return np.array(found)


def critic_error(critic, data, wanted):
    errors = [values(critic, *row) - y for *row, y in zip(data.obs, data.skill, data.action, wanted, strict=True)]
    return (np.array(errors) ** 2).mean(axis=0).sum()


def actor_error(actor, critic, data):
    _, noise = noises()
    actions = [noisy(mean_action(actor, obs, z), eps) for obs, z, eps in zip(data.obs, data.skill, noise, strict=True)]
    worth = [values(critic, *row).min() for row in zip(data.obs, data.skill, actions, strict=True)]
    return -np.mean(worth)


@pytest.mark.parametrize("pairs", ["n-step", "one-step"])
@pytest.mark.parametrize("objective", [SKILLED, FEATURES], ids=["scalar", "successor features"])
def test_the_critic_is_drawn_to_the_reward_and_the_smaller_value_after_it(objective, pairs):
    data = batch(objective=objective)
    _, _, metrics = learned(replace(SMALL, pairs=pairs), objective)
    seen = (data.bootstrap_obs, data.discount) if pairs == "n-step" else (data.next_obs, data.next_discount)
    wanted = targets(agent(objective), data, *seen)
    assert metrics["critic_loss"] == pytest.approx(critic_error(agent(objective).critic.params, data, wanted), rel=1e-4)
    assert metrics["reward"] == pytest.approx(data.reward.mean(), rel=1e-4)


@pytest.mark.parametrize("objective", [SKILLED, FEATURES], ids=["scalar", "successor features"])
def test_the_actor_climbs_the_critic_that_was_just_updated(objective):
    data = batch(objective=objective)
    after, _, metrics = learned(objective=objective)
    before = agent(objective)
    new = actor_error(before.actor.params, after.critic.params, data)
    assert metrics["actor_loss"] == pytest.approx(new, rel=1e-4)
    assert abs(new - actor_error(before.actor.params, before.critic.params, data)) > 1e-3


def first_step(error, params, where, before):
    """What Adam's first step adds to one entry: the learning rate against the sign of a numeric derivative."""
    step = 1e-5
    leaf = np.asarray(where(params), float)
    slopes = []
    for index in np.ndindex(leaf.shape):
        moved = []
        for sign in (1, -1):
            shifted = leaf.copy()
            shifted[index] += sign * step
            moved.append(error(eqx.tree_at(where, params, shifted)))
        slopes.append((moved[0] - moved[1]) / (2 * step))
    slopes = np.array(slopes).reshape(leaf.shape)
    sure = np.abs(slopes) > 1e-5
    assert sure.any()
    np.testing.assert_allclose(before[sure], -SMALL.learning_rate * np.sign(slopes[sure]), rtol=0.02)


CRITIC_PARTS = {
    "trunk": lambda net: net.trunk.linear.bias,
    "norm": lambda net: net.trunk.norm.scale,
    "hidden": lambda net: net.hidden.bias,
    "output": lambda net: net.weight,
}
ACTOR_PARTS = {
    "trunk": lambda net: net.trunk.linear.bias,
    "norm": lambda net: net.trunk.norm.shift,
    "hidden": lambda net: net.hidden.bias,
    "output": lambda net: net.output.weight,
}


@pytest.mark.parametrize("part", CRITIC_PARTS)
def test_the_first_step_of_the_critic_descends_its_error(part):
    before, after = agent().critic.params, learned()[0].critic.params
    wanted = targets(agent(), batch(), batch().bootstrap_obs, batch().discount)
    where = CRITIC_PARTS[part]
    step = np.asarray(where(after)) - np.asarray(where(before))
    first_step(lambda critic: critic_error(critic, batch(), wanted), before, where, step)


@pytest.mark.parametrize("part", ACTOR_PARTS)
def test_the_first_step_of_the_actor_ascends_the_value(part):
    before, after = agent().actor.params, learned()[0].actor.params
    critic, where = learned()[0].critic.params, ACTOR_PARTS[part]
    step = np.asarray(where(after)) - np.asarray(where(before))
    first_step(lambda actor: actor_error(actor, critic, batch()), before, where, step)


def test_the_target_follows_the_updated_critic_slowly():
    after, before = learned()[0], agent()
    for new, old, critic in zip(leaves(after.target), leaves(before.target), leaves(after.critic.params), strict=True):
        np.testing.assert_allclose(new, 0.95 * old + 0.05 * critic, atol=1e-6)


def test_a_method_is_fitted_and_rewards_the_pair_that_was_asked_for():
    objective = DIAYN(number_of_skills=SKILLS, hidden=(8,))
    state = objective.init(jax.random.key(3), SMALL.objective_spec(SPEC))
    for pairs, seen in (("n-step", batch().bootstrap_obs), ("one-step", batch().next_obs)):
        backbone = replace(SMALL, pairs=pairs)
        learn = quick(lambda *rest, backbone=backbone: backbone.learn(rest[0], objective, *rest[1:]))
        _, fitted, metrics = learn(agent(), state, batch(), KEY)
        scores = np.asarray(objective.score_skills(fitted, jnp.asarray(seen)))
        expected = (scores * batch().skill).sum(axis=1).mean() + np.log(SKILLS)
        assert metrics["reward"] == pytest.approx(expected, abs=1e-5)
        assert (
            np.asarray(fitted.discriminator.params.layers[0].weight) != state.discriminator.params.layers[0].weight
        ).any()


def test_several_updates_take_a_part_of_the_batch_each_and_the_agent_learns_from_the_last():
    objective = BeCL(number_of_skills=SKILLS, hidden=(8,))
    parts = [batch(seed, objective=objective) for seed in range(3)]
    whole = jax.tree.map(lambda *values: np.concatenate(values), *parts)
    features = SMALL.objective_spec(SPEC)
    state = objective.init(KEY, features)
    learn = quick(lambda agent, state, batch: SMALL.learn(agent, objective, state, batch, KEY))
    _, fitted, metrics = learn(agent(objective), state, whole)

    model_key, reward_key, _, _ = jax.random.split(KEY, 4)
    expected = state
    for part, update_key in zip(parts, jax.random.split(model_key, 3), strict=True):
        seen = Experience(part.obs, part.action, part.bootstrap_obs, part.skill, part.reward)
        expected, _ = objective.update(expected, seen, update_key)
    for ours, theirs in zip(leaves(fitted), leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    _, reward, _ = objective.reward(expected, seen, reward_key)
    np.testing.assert_allclose(metrics["reward"], np.mean(reward), rtol=1e-4)


@pytest.mark.parametrize("objective", [Extrinsic(), SKILLED, FEATURES, DIAYN(number_of_skills=SKILLS, hidden=(8,))])
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


# The critic


def both(critic, objective=SKILLED):
    data = batch(objective=objective)
    return np.asarray(critic(jnp.asarray(data.obs[0]), jnp.asarray(data.skill[0]), jnp.asarray(data.action[0])))


def test_a_fresh_target_is_the_critic_and_the_heads_differ():
    fresh = SMALL.init(jax.random.key(0), SPEC, SKILLED)
    jax.tree.map(np.testing.assert_array_equal, fresh.target, fresh.critic.params)
    one, two = both(fresh.critic.params)
    assert one != two


def test_both_values_stand_on_one_trunk_and_on_heads_of_their_own():
    critic = agent().critic.params
    before = both(critic)
    moved = eqx.tree_at(lambda net: net.trunk.linear.bias, critic, critic.trunk.linear.bias.at[0].add(1.0))
    assert (both(moved) != before).all()
    for head in range(2):
        part = slice(head * SMALL.width, (head + 1) * SMALL.width)
        raised = critic.hidden.bias.at[part].add(1.0)
        for changed in (
            eqx.tree_at(lambda net: net.hidden.bias, critic, raised),
            eqx.tree_at(lambda net: net.weight, critic, critic.weight.at[head].multiply(2.0)),
        ):
            after = both(changed)
            assert after[head] != before[head]
            assert after[1 - head] == before[1 - head]


def test_successor_features_are_worth_their_product_with_the_skill():
    critic = agent(FEATURES).critic.params
    assert critic.bias.shape == (2, SKILLS)
    data = batch(objective=FEATURES)
    np.testing.assert_allclose(
        both(critic, FEATURES), values(critic, data.obs[0], data.skill[0], data.action[0]), rtol=1e-4
    )


# Fine-tuning


@pytest.mark.parametrize("fresh_target", [True, False])
@pytest.mark.parametrize("objective", [SKILLED, FEATURES], ids=["scalar", "successor features"])
def test_adapting_keeps_the_actor_and_the_trunk_of_the_critic_and_nothing_else(objective, fresh_target):
    before = learned(objective=objective)[0]
    after = replace(SMALL, fresh_target=fresh_target).adapt(before, jax.random.key(7))
    jax.tree.map(np.testing.assert_array_equal, after.actor.params, before.actor.params)
    old, new = before.critic.params, after.critic.params
    jax.tree.map(np.testing.assert_array_equal, new.trunk, old.trunk)
    assert (new.hidden.weight != old.hidden.weight).all()
    assert (new.weight != old.weight).all()
    np.testing.assert_array_equal(new.bias, np.zeros_like(old.bias))
    for part in (after.actor, after.critic):
        assert all((leaf == 0).all() for leaf in leaves(part.opt_state))
    if not fresh_target:
        jax.tree.map(np.testing.assert_array_equal, after.target, new)
        return
    # As in URLB's code: the target is the fresh critic, whose heads the critic has on the pre-trained trunk.
    for other in (new, old, before.target):
        assert (after.target.trunk.linear.weight != other.trunk.linear.weight).all()
    for part in ("hidden", "weight", "bias"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after.target, part), getattr(new, part))


def test_a_kept_critic_meets_a_target_that_is_fresh():
    before = learned()[0]
    after = SMALL.adapt(before, jax.random.key(7), keep_critic=True)
    jax.tree.map(np.testing.assert_array_equal, after.critic.params, before.critic.params)
    assert (after.target.hidden.weight != before.critic.params.hidden.weight).all()


# The controller


@pytest.fixture(scope="module")
def controlled():
    return SMALL.with_controller(learned()[0], jax.random.key(5), SPEC, SKILLS)


@cache
def compiled_act():
    return quick(lambda *rest: SMALL.act(*rest)[0], static_argnums=5)


def test_a_controller_begins_with_the_mean_of_all_skills(controlled):
    obs = batch().obs
    found = compiled_act()(controlled.actor.params, (), obs, batch().skill, KEY, False)
    actor = learned()[0].actor.params
    expected = [np.mean([mean_action(actor, one, z) for z in np.eye(SKILLS)], axis=0) for one in obs]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_controller_mixes_with_shares_that_depend_on_the_state_not_on_the_skill(controlled):
    last = jnp.asarray(np.random.default_rng(0).normal(size=(SKILLS, SMALL.width)), jnp.float32)
    actor = eqx.tree_at(lambda net: net.controller.layers[-1].weight, controlled.actor.params, last)
    obs = batch().obs
    found = [compiled_act()(actor, (), obs, skill, KEY, False) for skill in (batch().skill, 5 * batch(1).skill)]
    np.testing.assert_array_equal(*found)
    plain = learned()[0].actor.params
    for row, one in zip(found[0], obs, strict=True):
        logits = np.asarray(actor.controller(jnp.asarray(one)), float)
        share = np.exp(logits) / np.exp(logits).sum()
        assert share.max() > 1.2 / SKILLS
        np.testing.assert_allclose(row, share @ [mean_action(plain, one, z) for z in np.eye(SKILLS)], atol=1e-5)


def test_a_controller_learns_and_so_do_the_skills_it_mixes(controlled):
    after, _, _ = quick(lambda *rest: SMALL.learn(rest[0], SKILLED, None, *rest[1:]))(controlled, batch(), KEY)
    old, new = controlled.actor.params, after.actor.params
    assert (old.controller.layers[-1].bias != new.controller.layers[-1].bias).all()
    assert (old.output.weight != new.output.weight).any()
    np.testing.assert_array_equal(
        controlled.actor.params.trunk.linear.weight, learned()[0].actor.params.trunk.linear.weight
    )


# Acting


def test_without_exploration_the_action_is_the_mean():
    data = batch()
    found = compiled_act()(agent().actor.params, (), data.obs, data.skill, KEY, False)
    expected = [mean_action(agent().actor.params, *row) for row in zip(data.obs, data.skill, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(
        found, compiled_act()(agent().actor.params, (), data.obs, data.skill, jax.random.key(1), False)
    )


def test_exploration_is_normal_around_the_mean_and_not_clipped():
    # A policy whose mean is zero everywhere keeps the clamp out of sight.
    actor = eqx.tree_at(lambda net: net.output.weight, agent().actor.params, jnp.zeros((2, SMALL.width)))
    many = np.zeros((4000, 3), np.float32), np.zeros((4000, SKILLS), np.float32)
    draws = np.asarray(compiled_act()(actor, (), *many, KEY, True))
    assert draws.std() == pytest.approx(0.2, rel=0.03)
    assert abs(draws.mean()) < 0.01
    assert (np.abs(draws) > 0.3).mean() == pytest.approx(0.134, abs=0.02)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.06


def test_the_likelihood_of_actions_is_that_of_the_policy():
    data = batch()
    found = SMALL.log_prob(agent(), jnp.asarray(data.obs), jnp.asarray(data.skill), jnp.asarray(data.action))
    for row, one in enumerate(found):
        scaled = (data.action[row] - mean_action(agent().actor.params, data.obs[row], data.skill[row])) / 0.2
        assert one == pytest.approx((-0.5 * scaled**2 - np.log(0.2 * np.sqrt(2 * np.pi))).sum(), rel=1e-4)


# Learning where the answer is known

PROBE = EnvSpec(obs_shape=(1,), action_dim=1, horizon=2)
LEARNER = DDPG(width=32, batch_size=64, learning_rate=3e-3, tau=0.1)


@cache
def probe_learning():
    """Two hundred learning steps on a fixed batch, as one program."""

    def learn(agent, batch):
        def once(agent, key):
            agent, _, _ = LEARNER.learn(agent, Extrinsic(), None, batch, key)
            return agent, None

        return jax.lax.scan(once, agent, jax.random.split(KEY, 200))[0]

    return quick(learn)


def probe_batch(obs, action, reward, discount, bootstrap_obs):
    columns = [np.asarray(column, np.float32) for column in (obs, action, reward, discount, bootstrap_obs)]
    obs, action, reward, discount, bootstrap_obs = columns
    skill = np.zeros((len(obs), 0), np.float32)
    return Transitions(obs, action, skill, reward, discount, bootstrap_obs, bootstrap_obs, discount)


def trained_on(data, rounds):
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
    found = best_actions(trained_on(probe_batch(side, action, reward, np.zeros(256), side), 2), [[-1.0], [1.0]])
    assert found == pytest.approx([-0.5, 0.5], abs=0.15)


def test_a_reward_one_step_ahead_reaches_the_action_before_it():
    # From 0 an action leads to the state ±1 of its own sign; there the task ends, with a reward that is the state.
    generator = np.random.default_rng(1)
    action = generator.uniform(-1, 1, (256, 1))
    first = np.arange(256) < 128
    after = np.where(action[:, 0] > 0, 1.0, -1.0)
    obs = np.where(first, 0.0, generator.choice([-1.0, 1.0], 256))
    reward, discount = np.where(first, 0.0, obs), np.where(first, 0.5, 0.0)
    agent = trained_on(probe_batch(obs[:, None], action, reward, discount, after[:, None]), 4)
    assert best_actions(agent, [[0.0]])[0] > 0.3
    cases = ((1.0, 0.0), (-1.0, 0.0), (0.0, 0.7), (0.0, -0.7))
    critic = agent.critic.params
    worth = [float(critic(jnp.array([place]), jnp.zeros(0), jnp.array([action])).min()) for place, action in cases]
    assert worth == pytest.approx([1, -1, 0.5, -0.5], abs=0.25)
