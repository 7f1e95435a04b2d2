"""PPO: the advantages, the values and policies it learns where they are known, and the laws of a backbone."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import (
    ACTION,
    CONSTANT,
    ENDLESS,
    HORIZON,
    OBSERVATION,
    PROBE_PPO,
    TWO_STEPS,
    compiled_probe_iteration,
    probe_state,
    quick,
)
from scipy.stats import beta

from skillscape.backbones.ppo import PPO, Sample, _in_minibatches, advantages
from skillscape.objectives.base import Objective
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.stats import Moments
from skillscape.types import EnvSpec, Rollout

SPEC = EnvSpec(obs_shape=(2,), action_dim=2, horizon=3)
SKILLED = Extrinsic(skill_kind="discrete", skill_width=4)
SMALL = PPO(episodes=4, hidden=(8, 8), minibatches=2, normalize_obs=False)
ROWS = 5


# Advantages


def warmup_steps(seed, steps=12, episodes=6):
    """Rewards, values, and episode ends of which about half terminate and half are cut."""
    generator = np.random.default_rng(seed)
    reward, value, next_value = generator.normal(size=(3, steps, episodes)).astype(np.float32)
    last = (generator.random((steps, episodes)) < 0.3).astype(np.float32)
    terminated = last * (generator.random((steps, episodes)) < 0.5)
    return reward, (0.9 * (1 - terminated)).astype(np.float32), last, value, next_value


compiled_advantages = quick(advantages, static_argnums=5)


def plain_advantages(reward, discount, last, value, next_value, gae_lambda):
    """The definition: the sum of discounted errors up to the end of the episode."""
    steps, episodes = reward.shape
    result = np.zeros((steps, episodes))
    for episode in range(episodes):
        for start in range(steps):
            weight = 1.0
            for step in range(start, steps):
                at = step, episode
                result[start, episode] += weight * (reward[at] + discount[at] * next_value[at] - value[at])
                weight *= discount[at] * gae_lambda
                if last[at]:
                    break
    return result


@pytest.mark.parametrize("seed", range(3))
def test_advantages_are_the_sums_of_their_definition(seed):
    steps = warmup_steps(seed)
    np.testing.assert_allclose(compiled_advantages(*steps, 0.8), plain_advantages(*steps, 0.8), rtol=1e-4, atol=1e-5)


def test_nothing_after_an_episode_end_changes_an_advantage_before_it():
    reward, discount, last, value, next_value = warmup_steps(3)
    last[6] = 1
    before = compiled_advantages(reward, discount, last, value, next_value, 0.8)[:7]
    reward[7:] += 100
    value[7:] -= 100
    next_value[7:] += 100
    np.testing.assert_array_equal(compiled_advantages(reward, discount, last, value, next_value, 0.8)[:7], before)


@pytest.mark.parametrize(("discount", "expected"), [(0.0, 1.0 - 5.0), (0.9, 1.0 + 0.9 * 7.0 - 5.0)])
def test_only_a_cut_episode_bootstraps_from_its_last_state(discount, expected):
    one = np.ones((1, 1), np.float32)
    found = compiled_advantages(one, np.float32(discount) * one, one, 5 * one, 7 * one, 0.8)
    assert found[0, 0] == pytest.approx(expected, rel=1e-6)


# Learning where the answer is known


def train_on(probe, iterations):
    state = probe_state(0)
    for _ in range(iterations):
        state, _ = compiled_probe_iteration()(probe, state)
    return state.agent


def values_of(agent):
    """V at x = -1 and 1, at the first step and at a later one."""
    places = jnp.array([[[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 1.0], [1.0, 1.0]]])
    return np.asarray(jax.vmap(jax.vmap(agent.networks.params.value))(places)[..., 0])


def test_a_sure_reward_at_the_end_is_the_value():
    assert values_of(train_on(CONSTANT, 30))[0] == pytest.approx([1, 1], abs=0.1)


def test_a_reward_that_can_be_seen_is_the_value_of_seeing_it():
    assert values_of(train_on(OBSERVATION, 30))[0] == pytest.approx([-1, 1], abs=0.1)


def test_a_reward_one_step_ahead_is_discounted_once():
    values = values_of(train_on(TWO_STEPS, 40))
    assert values[0] == pytest.approx([0.5, 0.5], abs=0.1)
    assert values[1] == pytest.approx([1, 1], abs=0.1)


def test_a_task_that_never_ends_is_worth_its_endless_sum():
    values = values_of(train_on(ENDLESS, 40))
    assert values == pytest.approx(np.full((2, 2), 1 / (1 - PROBE_PPO.discount)), abs=0.15)


def test_the_policy_finds_the_action_that_the_observation_asks_for():
    agent = train_on(ACTION, 40)
    places = jnp.array([[-1.0, 0.0], [1.0, 0.0]])
    actions, _ = PROBE_PPO.act(agent, (), places, jnp.zeros((2, 0)), jax.random.key(0), False)
    assert actions[0, 0] < -0.7
    assert actions[1, 0] > 0.7


def test_all_iterations_share_one_compilation():
    state = probe_state(1)
    for probe in (CONSTANT, ENDLESS, ENDLESS):
        state, _ = compiled_probe_iteration()(probe, state)
    assert compiled_probe_iteration()._cache_size() == 1


# The loss


def test_the_surrogate_of_an_unchanged_policy_is_its_mean_advantage(skilled_agent):
    loss, metrics = loss_of(skilled_agent, log_prob_shift=0.0)
    assert metrics["policy_loss"] == pytest.approx(-2.0, rel=1e-5)
    assert metrics["clipped"] == 0
    parts = metrics["policy_loss"] - SMALL.entropy * metrics["entropy"]
    assert loss == pytest.approx(float(parts), rel=1e-5)


def test_the_value_is_fitted_by_squares(skilled_agent):
    networks = skilled_agent.networks.params
    inputs, target = jax.random.normal(jax.random.key(1), (ROWS, 6)), jnp.arange(ROWS, dtype=jnp.float32)
    rest = (jnp.zeros((ROWS, 2)), jnp.zeros(ROWS), jnp.zeros(ROWS))
    loss, metrics = SMALL.critic_loss(networks, Sample(inputs, *rest, target))
    values = np.asarray([networks.value(row)[0] for row in inputs])
    assert loss == metrics["value_loss"] == pytest.approx(0.5 * ((values - np.arange(ROWS)) ** 2).mean(), rel=1e-4)


@pytest.mark.parametrize(("shift", "expected"), [(1.0, -2.0 * (1 + SMALL.clip)), (-1.0, -2.0 * np.exp(-1))])
def test_a_ratio_beyond_the_clip_earns_no_more(skilled_agent, shift, expected):
    _, metrics = loss_of(skilled_agent, log_prob_shift=shift)
    assert metrics["policy_loss"] == pytest.approx(expected, rel=1e-4)
    assert metrics["clipped"] == 1


@quick
def loss_of(agent, log_prob_shift):
    inputs = jax.random.normal(jax.random.key(1), (ROWS, 6))
    networks = agent.networks.params
    action = SMALL._policy(networks, inputs).sample(jax.random.key(2))
    log_prob = SMALL._policy(networks, inputs).log_prob(action) - log_prob_shift
    return SMALL.actor_loss(networks, Sample(inputs, action, log_prob, jnp.full(ROWS, 2.0), jnp.zeros(ROWS)))


# Acting


@pytest.fixture(scope="module")
def skilled_agent():
    return quick(lambda key: SMALL.init(key, SPEC, SKILLED))(jax.random.key(0))


@pytest.fixture(scope="module")
def act():
    return quick(lambda *arguments: SMALL.act(*arguments)[0], static_argnums=5)


OBS = np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
SKILL = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]]


def test_actions_have_one_row_per_state_and_stay_in_range(act, skilled_agent):
    draws = np.stack([act(skilled_agent, (), OBS, SKILL, jax.random.key(seed), True) for seed in range(50)])
    assert draws.shape == (50, ROWS, 2)
    assert draws.dtype == np.float32
    assert (np.abs(draws) <= 1).all()
    assert draws.min() < -0.5 < 0.5 < draws.max()


def test_exploring_depends_on_the_key_and_the_mode_does_not(act, skilled_agent):
    draws = [np.asarray(act(skilled_agent, (), OBS, SKILL, jax.random.key(seed), True)) for seed in (0, 1)]
    modes = [np.asarray(act(skilled_agent, (), OBS, SKILL, jax.random.key(seed), False)) for seed in (0, 1)]
    assert (draws[0] != draws[1]).all()
    np.testing.assert_array_equal(modes[0], modes[1])


def test_a_row_acts_the_same_alone_and_in_company(act, skilled_agent):
    together = act(skilled_agent, (), OBS, SKILL, jax.random.key(0), False)
    for row in range(ROWS):
        alone = act(skilled_agent, (), OBS[row : row + 1], SKILL[row : row + 1], jax.random.key(0), False)
        np.testing.assert_allclose(alone[0], together[row], atol=1e-6)


def test_the_skill_changes_the_action(act, skilled_agent):
    same_place = np.repeat(OBS[:1], 4, axis=0)
    actions = np.asarray(act(skilled_agent, (), same_place, np.eye(4, dtype=np.float32), jax.random.key(0), False))
    assert len(np.unique(actions, axis=0)) == 4


def test_normalised_inputs_are_standardised_by_the_running_moments(act, skilled_agent):
    moments = Moments(jnp.array([100.0, -50.0]), jnp.array([4.0, 9.0]), jnp.float32(1000))
    normalising = replace(SMALL, normalize_obs=True)
    far = OBS * np.float32([2, 3]) + np.float32([100, -50])
    agent = skilled_agent._replace(moments=moments)
    found = quick(lambda *arguments: normalising.act(*arguments, False)[0])(agent, (), far, SKILL, jax.random.key(0))
    np.testing.assert_allclose(found, act(skilled_agent, (), OBS, SKILL, jax.random.key(0), False), atol=1e-4)


def concentrations(networks, obs, skill):
    """α and β of every action dimension, by loops."""
    x = np.concatenate([obs, SMALL.skill_scale * skill]).astype(float)
    for index, layer in enumerate(networks.policy.layers):
        x = np.asarray(layer.weight, float) @ x + np.asarray(layer.bias, float)
        x = np.maximum(x, 0) if index < len(networks.policy.layers) - 1 else x
    return np.split(np.log1p(np.exp(x)) + SMALL.min_concentration, 2)


def log_density(alpha, beta_, action):
    """On [0, 1], which actions are stretched from."""
    return beta.logpdf((action + 1) / 2, alpha, beta_).sum()


def test_the_likelihood_of_actions_is_that_of_the_policy(skilled_agent):
    action = np.random.default_rng(1).uniform(-0.9, 0.9, (ROWS, 2)).astype(np.float32)
    found = SMALL.log_prob(skilled_agent, *map(jnp.asarray, (OBS, SKILL, action)))
    networks = skilled_agent.networks.params
    expected = [
        log_density(*concentrations(networks, obs, skill), one)
        for obs, skill, one in zip(OBS, SKILL, action, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_the_likelihood_is_finite_at_the_ends_of_the_range(skilled_agent):
    found = SMALL.log_prob(skilled_agent, jnp.asarray(OBS), jnp.asarray(SKILL), jnp.ones((ROWS, 2)).at[:, 0].set(-1.0))
    assert np.isfinite(found).all()


# The controller


@pytest.fixture(scope="module")
def controlled(skilled_agent):
    return SMALL.with_controller(skilled_agent, jax.random.key(5), SPEC, 4)


def tilted(agent):
    """Shares that depend on the state."""
    last = jnp.asarray(np.random.default_rng(0).normal(size=(4, SMALL.hidden[0])), jnp.float32)
    networks = eqx.tree_at(lambda net: net.controller.layers[-1].weight, agent.networks.params, 3 * last)
    return agent._replace(networks=agent.networks._replace(params=networks))


def shares(agent, obs):
    logits = np.asarray(agent.networks.params.controller(jnp.asarray(obs)), float)
    return np.exp(logits) / np.exp(logits).sum()


def mixed(agent, obs):
    """Σ_z c(z|s) α(s, z) and the same of β."""
    single = [concentrations(agent.networks.params, obs, skill) for skill in np.eye(4)]
    return np.tensordot(shares(agent, obs), np.array(single), 1)


def test_a_controller_begins_as_a_uniform_mixture_of_unchanged_skills(controlled, skilled_agent):
    np.testing.assert_array_equal(shares(controlled, OBS[0]), np.full(4, 0.25))
    before, after = skilled_agent.networks.params, controlled.networks.params
    jax.tree.map(np.testing.assert_array_equal, (after.policy, after.value), (before.policy, before.value))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(controlled.networks.opt_state))


@pytest.mark.parametrize("change", [lambda agent: agent, tilted], ids=["uniform", "tilted"])
def test_a_controller_mixes_concentrations_whatever_the_skill(controlled, act, change):
    agent = change(controlled)
    found = [np.asarray(act(agent, (), OBS, skill, jax.random.key(0), False)) for skill in (SKILL, 5 * SKILL[::-1])]
    np.testing.assert_array_equal(*found)
    action = np.random.default_rng(1).uniform(-0.9, 0.9, (ROWS, 2)).astype(np.float32)
    likelihood = SMALL.log_prob(agent, *map(jnp.asarray, (OBS, SKILL, action)))
    for row, obs in enumerate(OBS):
        alpha, beta_ = mixed(agent, obs)
        np.testing.assert_allclose(found[0][row], 2 * (alpha - 1) / (alpha + beta_ - 2) - 1, rtol=1e-3, atol=1e-4)
        assert likelihood[row] == pytest.approx(log_density(alpha, beta_, action[row]), rel=1e-3, abs=1e-4)
    uniform = change(controlled) is controlled
    assert (max(shares(agent, OBS[0])) > 0.4) != uniform


def test_a_controller_reads_normalised_observations(controlled):
    moments = Moments(jnp.array([100.0, -50.0]), jnp.array([4.0, 9.0]), jnp.float32(1000))
    normalising = replace(SMALL, normalize_obs=True)
    far = OBS * np.float32([2, 3]) + np.float32([100, -50])
    agent = tilted(controlled)
    rest = jnp.asarray(SKILL), jax.random.key(0), False
    found, _ = normalising.act(agent._replace(moments=moments), (), jnp.asarray(far), *rest)
    expected, _ = SMALL.act(agent, (), jnp.asarray(OBS), *rest)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_controller_learns_and_so_do_the_skills_it_mixes(controlled):
    generator = np.random.default_rng(0)
    data = rollout(4)._replace(
        obs=jnp.asarray(generator.normal(size=(3, 4, 2)), jnp.float32),
        action=jnp.asarray(generator.uniform(-0.9, 0.9, (3, 4, 2)), jnp.float32),
        reward=jnp.asarray(generator.normal(size=(3, 4)), jnp.float32),
    )
    after, _, metrics = quick(lambda *rest: SMALL.learn(rest[0], SKILLED, None, *rest[1:]))(
        controlled, data, jax.random.key(2)
    )
    old, new = controlled.networks.params, after.networks.params
    assert kinds(after) == kinds(controlled)
    assert (old.controller.layers[-1].bias != new.controller.layers[-1].bias).any()
    assert (old.policy.layers[-1].weight != new.policy.layers[-1].weight).any()
    assert all(np.isfinite(value) for value in metrics.values())
    kept = SMALL.adapt(after, jax.random.key(3)).networks.params
    jax.tree.map(np.testing.assert_array_equal, kept.controller, new.controller)


# Learning keeps its shape


def rollout(skills, steps=3, episodes=4):
    field = jnp.ones((steps, episodes))
    return Rollout(
        obs=jnp.ones((steps, episodes, 2)),
        action=jnp.zeros((steps, episodes, 2)),
        next_obs=jnp.ones((steps, episodes, 2)),
        skill=jnp.zeros((steps, episodes, skills)),
        reward=field,
        discount=field,
        last=jnp.zeros((steps, episodes)).at[-1].set(1.0),
    )


def kinds(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


@pytest.mark.parametrize("objective", [Extrinsic(), SKILLED, DIAYN(number_of_skills=4, hidden=(8,))])
@pytest.mark.parametrize("normalize_obs", [False, True])
def test_learning_keeps_structure_shapes_and_types(objective, normalize_obs):
    backbone = replace(SMALL, normalize_obs=normalize_obs)
    agent = jax.eval_shape(lambda: backbone.init(jax.random.key(0), SPEC, objective))
    state = jax.eval_shape(lambda: objective.init(jax.random.key(1), backbone.objective_spec(SPEC)))
    learned, learned_state, metrics = jax.eval_shape(
        lambda *arguments: backbone.learn(arguments[0], objective, *arguments[1:]),
        agent,
        state,
        rollout(objective.skills.width),
        jax.random.key(2),
    )
    assert kinds((learned, learned_state)) == kinds((agent, state))
    assert all(value.shape == () for value in metrics.values())


@final
@dataclass(frozen=True)
class Mirror(Objective[Any]):
    """Its state is the mean of what it saw last, s and s'; it learns and rewards nothing."""

    name: ClassVar[str] = "mirror"
    label: ClassVar[str] = "Mirror"

    def init(self, key, spec):
        return jnp.zeros((2, *spec.obs_shape))

    def update(self, state, batch, key):
        return jnp.stack([batch.obs.mean(axis=0), batch.next_obs.mean(axis=0)]), {}

    def reward(self, state, batch, key):
        return state, batch.reward, {}


@pytest.mark.parametrize("standardised", [False, True])
def test_what_the_objective_sees_is_standardised_if_asked_for(standardised):
    backbone = replace(SMALL, minibatches=1, normalize_objective_obs=standardised)
    agent = backbone.init(jax.random.key(0), SPEC, Mirror())
    moments = Moments(jnp.array([3.0, -1.0]), jnp.array([4.0, 0.25]), jnp.asarray(1e3))
    agent = agent._replace(moments=moments)
    batch = rollout(0)
    batch = batch._replace(next_obs=2 * batch.obs)
    _, seen, _ = quick(lambda *given: backbone.learn(given[0], Mirror(), *given[1:]))(
        agent, jnp.zeros((2, 2)), batch, jax.random.key(1)
    )
    wanted = [[-1, 4], [-0.5, 5]] if standardised else [[1, 1], [2, 2]]  # 6 deviations are clipped to 5
    np.testing.assert_allclose(seen, wanted, rtol=1e-5)
    # Skills are inferred from the same states.
    obs = jnp.ones((1, 2))
    np.testing.assert_allclose(backbone.objective_obs(agent, obs, jnp.zeros((1, 2))), wanted[:1], rtol=1e-5)


@pytest.fixture(scope="module")
def learned():
    """An agent before and after learning from one rollout."""
    return probe_state(0).agent, compiled_probe_iteration()(ENDLESS, probe_state(0))[0].agent


def test_learning_folds_the_observations_into_the_moments(learned):
    _, after = learned
    later = 1 - 1 / HORIZON  # the share of steps that are not the first, which is what the second entry tells
    assert after.moments.mean[1] == pytest.approx(later, rel=1e-3)
    assert after.moments.variance[1] == pytest.approx(later * (1 - later), rel=0.02)
    assert after.moments.count == pytest.approx(PROBE_PPO.episodes * HORIZON, rel=1e-3)


def test_learning_moves_policy_and_value(learned):
    before, after = learned
    for part in ("policy", "value"):
        old, new = (getattr(agent.networks.params, part).layers[0].weight for agent in (before, after))
        assert np.abs(new - old).max() > 0


def test_adapting_keeps_the_policy_and_the_moments(learned):
    _, agent = learned
    adapted = quick(PROBE_PPO.adapt)(agent, jax.random.key(5))
    kept = (agent.networks.params.policy, agent.moments)
    jax.tree.map(np.testing.assert_array_equal, (adapted.networks.params.policy, adapted.moments), kept)


def test_adapting_keeps_the_value_where_asked(learned):
    _, agent = learned
    adapted = quick(lambda *rest: PROBE_PPO.adapt(*rest, keep_critic=True))(agent, jax.random.key(5))
    jax.tree.map(np.testing.assert_array_equal, adapted.networks.params, agent.networks.params)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(adapted.networks.opt_state))


def test_a_policy_that_was_adapted_acts_as_before_and_learns_a_task(learned):
    _, agent = learned
    places = jnp.array([[-1.0, 0.0], [1.0, 0.0]])
    adapted = PROBE_PPO.task_config(pretrained=True).adapt(agent, jax.random.key(5))
    before, after = (
        PROBE_PPO.act(one, (), places, jnp.zeros((2, 0)), jax.random.key(0), False)[0] for one in (agent, adapted)
    )
    np.testing.assert_array_equal(before, after)
    state = probe_state(0)._replace(agent=adapted)
    for _ in range(40):
        state, _ = compiled_probe_iteration()(ACTION, state)
    actions, _ = PROBE_PPO.act(state.agent, (), places, jnp.zeros((2, 0)), jax.random.key(0), False)
    assert actions[0, 0] < -0.7
    assert actions[1, 0] > 0.7


def test_adapting_starts_value_and_optimiser_afresh(learned):
    _, agent = learned
    adapted = quick(PROBE_PPO.adapt)(agent, jax.random.key(5))
    old, new = agent.networks.params.value, adapted.networks.params.value
    assert jax.tree.map(jnp.shape, old) == jax.tree.map(jnp.shape, new)
    assert all((before.weight != after.weight).all() for before, after in zip(old.layers, new.layers, strict=True))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(adapted.networks.opt_state))


# Minibatches


@cache
def passes(rows, epochs, minibatches):
    """The rows that each minibatch sees: [epochs, minibatches, size]."""
    size = rows // minibatches
    empty = (jnp.int32(0), jnp.zeros((epochs * minibatches, size), jnp.int32))

    def record(state, step):
        count, seen = state
        return (count + 1, seen.at[count].set(step[0])), {"count": count.astype(jnp.float32)}

    run = quick(lambda data, key: _in_minibatches(record, empty, data, epochs, minibatches, key))
    (_, seen), metrics = run(jnp.arange(rows, dtype=jnp.int32), jax.random.key(0))
    return np.asarray(seen).reshape(epochs, minibatches, size), metrics


def test_each_pass_sees_every_row_once():
    seen, _ = passes(rows=12, epochs=3, minibatches=4)
    for one in seen:
        np.testing.assert_array_equal(np.sort(one, axis=None), np.arange(12))


def test_passes_are_shuffled_differently():
    seen, _ = passes(rows=12, epochs=3, minibatches=4)
    orders = {tuple(one.ravel()) for one in seen}
    assert len(orders | {tuple(range(12))}) == 4


def test_rows_that_fill_no_minibatch_are_left_out_of_a_pass():
    seen, _ = passes(rows=14, epochs=2, minibatches=4)
    assert all(np.unique(one).size == 12 for one in seen)


def test_metrics_are_the_mean_of_the_last_pass():
    _, metrics = passes(rows=12, epochs=3, minibatches=4)
    assert metrics["count"] == np.mean([8, 9, 10, 11])
