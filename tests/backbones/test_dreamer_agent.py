"""Dreamer as a whole: acting, learning with every objective, fine-tuning, and tasks whose best return is known."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import KEY, ROWS, SKILLED, SKILLS, SPEC, TIMES, TINY, begun, changed, sequences
from probes import quick

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, ReplayConfig, WorldConfig
from skillscape.backbones.dreamer.objective_interface import (
    fit_reward_head,
    imagined_starts,
    pairs,
    replayed_states,
    standardised,
)
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.becl import BeCL
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.types import EnvSpec, Sequences, Spec

# Sizes that compile fast; an objective takes those of them it has.
SMALL = {
    "number_of_skills": SKILLS,
    "hidden": (8,),
    "projection_hidden": (8,),
    "feature_dim": 4,
    "neighbours": 3,
    "width": 8,
    "layers": 2,
    "modules": 2,
    "module_width": 4,
    "latent_dim": 2,
    "history": 0,
}


def small(method, **more):
    wanted = {**SMALL, **more}
    taken = {field.name for field in dataclasses.fields(registry()[method])} & wanted.keys()
    return registry()[method](**{name: wanted[name] for name in taken})


@cache
def learning(backbone=TINY, objective=SKILLED):
    return quick(lambda agent, state, batch, key: backbone.learn(agent, objective, state, batch, key))


@cache
def learned(backbone=TINY, objective=SKILLED):
    """After two updates."""
    agent, state = begun(backbone, objective)
    for update in range(2):
        agent, state, metrics = learning(backbone, objective)(
            agent, state, sequences(objective, update), jax.random.key(update)
        )
    return agent, state, metrics


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(one, other):
    return all(np.array_equal(left, right) for left, right in zip(leaves(one), leaves(other), strict=True))


def kinds(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def check_learned(backbone, objective):
    before, state_before = begun(backbone, objective)
    after, state, metrics = learned(backbone, objective)
    broken = [name for name, value in metrics.items() if not np.isfinite(value)]
    assert not broken
    assert kinds(before) == kinds(after)
    assert kinds(state_before) == kinds(state)
    for part in ("world", "actor", "critic"):
        assert not same(getattr(before, part).params, getattr(after, part).params)
    assert after.updates == 2
    return metrics


def test_learning_reports_and_keeps_its_shape():
    metrics = check_learned(TINY, small("sd3"))
    assert {
        "world_loss",
        "observation_loss",
        "world_divergence",
        "actor_loss",
        "critic_loss",
        "reward",
        "density_deviation",
    } <= set(metrics)


METHODS = ("apt", "cic", "becl", "csd", "metra", "diayn", "rnd", "icm", "disagreement", "extrinsic")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method):
    check_learned(TINY, small(method))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["metra", "becl", "rnd", "sd3"])
def test_methods_learn_from_replayed_observations(method):
    check_learned(changed(TINY, objective={"reward_on": "replayed"}), small(method))


@pytest.mark.slow
def test_successor_features_and_skills_from_a_box_learn():
    check_learned(TINY, registry()["aps"](hidden=(8,)))
    check_learned(changed(TINY, objective={"reward_on": "replayed"}), small("cic", skill_dim=5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"world": {"unimix": 0.01}, "behaviour": {"normalize": "returns", "critic": "two-hot"}},
        {"objective": {"features": "deter+stoch", "standardize": False, "reward_batch": "all"}},
        {
            "objective": {"reward_gradient": False},
            "world": {"continue_head": True},
            "behaviour": {"imagined_starts": 0},
        },
    ],
    ids=["unimix", "features", "continue_head"],
)
def test_every_option_learns(changes):
    check_learned(changed(TINY, **changes), small("diayn"))


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["convolutions", "patches"])
@pytest.mark.parametrize("reward_on", ["imagined", "replayed", "embedded"])
def test_images_are_learned_from(encoder, reward_on):
    backbone = changed(
        TINY, world={"encoder": encoder, "depth": 2, "patch": 16, "patch_width": 4}, objective={"reward_on": reward_on}
    )
    objective, spec = small("diayn"), EnvSpec((64, 64, 3), 2, 10)
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (ROWS, TIMES, 64, 64, 3)), jnp.uint8)
    batch = sequences(objective)._replace(obs=images)
    _, _, metrics = learning(backbone, objective)(*begun(backbone, objective, spec), batch, KEY)
    assert all(np.isfinite(value) for value in metrics.values())


FRAMES = changed(TINY, world={"encoder": "patches", "patch": 16, "patch_width": 4}, objective={"reward_on": "replayed"})
FRAME = EnvSpec((16, 16, 3), 2, 10)


ARRIVALS = {(row, time) for row in range(ROWS) for time in range(1, TIMES)}


def films(objective, seed=0):
    """Sequences of images of noise."""
    images = np.random.default_rng(seed).integers(0, 256, (ROWS, TIMES, *FRAME.obs_shape))
    return sequences(objective, seed)._replace(obs=jnp.asarray(images, jnp.uint8))


@pytest.mark.parametrize("method", ["diayn", pytest.param("sd3", marks=pytest.mark.slow)])
def test_objectives_learn_from_the_frames_themselves(method):
    objective = small(method)
    agent, state = begun(FRAMES, objective, FRAME)
    after, learned_state, metrics = learning(FRAMES, objective)(agent, state, films(objective), KEY)
    assert all(np.isfinite(value) for value in metrics.values())
    assert kinds(learned_state) == kinds(state)
    model = "model" if method == "sd3" else "discriminator"
    before, now = (getattr(one, model).params.obs_encoder for one in (state, learned_state))
    assert len(before.layers) == 2
    assert not any(np.array_equal(old, new) for old, new in zip(leaves(before), leaves(now), strict=True))
    assert not same(agent.reward_head.params, after.reward_head.params)


# What objectives see


@quick
def inferred(world, batch):
    return world.infer(batch, KEY)


def replayed_pairs(backbone, posterior, batch):
    return pairs(replayed_states(backbone, posterior, batch), posterior.states.feature, batch)


def test_frames_are_lent_as_they_are():
    batch = films(SKILLED)
    cut = batch._replace(first=batch.first.at[1, 2].set(1.0))
    seen, feature = pairs(batch.obs, jnp.zeros((ROWS, TIMES, 12)), cut)
    rows = ROWS * (TIMES - 1)
    assert seen.obs.dtype == seen.next_obs.dtype == jnp.uint8
    assert seen.next_obs.shape == (rows, *FRAME.obs_shape)
    assert feature.shape == (rows, 12)
    found = {(one.tobytes(), two.tobytes()) for one, two in zip(*map(np.asarray, seen[:3:2]), strict=True)}
    every = np.asarray(batch.obs)
    neighbours = {(every[row, time - 1].tobytes(), every[row, time].tobytes()) for row, time in ARRIVALS - {(1, 2)}}
    assert found == neighbours


def test_pairs_are_neighbours_in_time_and_none_crosses_a_beginning():
    batch = sequences()
    agent, _ = begun()
    posterior, _ = inferred(agent.world.params, batch)
    plain = changed(TINY, objective={"standardize": False})
    found, feature = replayed_pairs(plain, posterior, batch)
    memory = np.asarray(posterior.states.deter)
    rows = ROWS * (TIMES - 1)
    np.testing.assert_array_equal(found.obs, memory[:, :-1].reshape(rows, 6))
    np.testing.assert_array_equal(found.next_obs, memory[:, 1:].reshape(rows, 6))
    np.testing.assert_array_equal(found.action, np.asarray(batch.action)[:, 1:].reshape(rows, 2))
    np.testing.assert_array_equal(found.skill, np.asarray(batch.skill)[:, 1:].reshape(rows, SKILLS))
    np.testing.assert_array_equal(found.reward, np.asarray(batch.reward)[:, 1:].reshape(rows))
    np.testing.assert_array_equal(feature[:, 6:], found.next_obs)

    cut = batch._replace(first=batch.first.at[1, 2].set(1.0))
    found, _ = replayed_pairs(plain, posterior, cut)
    forbidden = memory[1, 2]
    assert found.next_obs.shape == (rows, 6)
    assert not (np.asarray(found.next_obs) == forbidden).all(axis=1).any()
    kept = {tuple(row) for row in np.asarray(found.next_obs)}
    assert kept == {tuple(row) for row in memory[:, 1:].reshape(rows, 6)} - {tuple(forbidden)}


def test_what_is_lent_is_what_the_spec_says():
    assert TINY.objective_spec(SPEC).obs_shape == (6,)
    assert changed(TINY, objective={"features": "deter+stoch"}).objective_spec(SPEC).obs_shape == (12,)
    embedded = changed(TINY, world={"encoder": "patches"}, objective={"reward_on": "embedded"})
    assert embedded.objective_spec(SPEC).obs_shape == (3,)
    assert embedded.objective_spec(EnvSpec((64, 64, 3), 2, 10)).obs_shape == (5,)
    assert FRAMES.objective_spec(SPEC) == embedded.objective_spec(SPEC)
    assert FRAMES.objective_spec(FRAME) == Spec(FRAME.obs_shape, 2)
    assert changed(embedded, world={"encoder": "convolutions"}).objective_spec(
        EnvSpec((64, 64, 3), 2, 10)
    ).obs_shape == (48 * 32,)


def test_what_is_lent_has_one_scale():
    rows = standardised(jnp.asarray(np.random.default_rng(0).normal(3, 0.1, (2, 5, 6)), jnp.float32))
    np.testing.assert_allclose(np.mean(rows, axis=-1), 0, atol=1e-5)
    np.testing.assert_allclose(np.std(rows, axis=-1), 1, atol=1e-2)


def test_starts_know_what_came_before_and_have_skills_of_their_own():
    batch = sequences(rows=8, times=6)
    agent, _ = begun()
    posterior, _ = inferred(agent.world.params, batch)
    every = changed(TINY, behaviour={"imagined_starts": 0}, objective={"standardize": False})
    starts = imagined_starts(every, posterior, batch, SKILLED.skills, KEY)
    memory = np.asarray(posterior.states.deter)
    before = np.concatenate([memory[:, :1], memory[:, :-1]], axis=1)
    np.testing.assert_array_equal(starts.before, before.reshape(48, 6))
    np.testing.assert_array_equal(starts.known.reshape(8, 6), 1 - np.asarray(batch.first))
    np.testing.assert_array_equal(starts.state.deter, memory.reshape(48, 6))
    fresh = np.asarray(starts.skill)
    assert 0.05 < (fresh == np.asarray(batch.skill).reshape(48, SKILLS)).all(axis=1).mean() < 0.6
    acted = imagined_starts(
        changed(every, objective={"imagined_skills": "replayed"}), posterior, batch, SKILLED.skills, KEY
    ).skill
    np.testing.assert_array_equal(acted.reshape(8, 6, SKILLS)[:, :-1], batch.skill[:, 1:])
    some = imagined_starts(changed(every, behaviour={"imagined_starts": 7}), posterior, batch, SKILLED.skills, KEY)
    assert some.skill.shape == (7, SKILLS)
    assert (
        len({tuple(row) for row in np.asarray(some.state.deter)} & {tuple(row) for row in memory.reshape(48, 6)}) == 7
    )


# Who learns from what


def test_the_world_model_does_not_learn_from_behaviour():
    agent, state = begun()
    batch = sequences()
    after, _, _ = learning()(agent, state, batch, KEY)
    world_key = jax.random.split(KEY, 5)[0]
    alone, _ = quick(TINY._improve_world)(agent.world, batch, jnp.ones(()), world_key)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), after.world, alone)


def test_the_target_is_a_copy_now_and_then():
    agent, state = begun()
    almost = agent._replace(updates=jnp.asarray(TINY.behaviour.target_every - 2, jnp.int32))
    one, state, _ = learning()(almost, state, sequences(), KEY)
    assert same(one.target, agent.target)
    two, _, _ = learning()(one, state, sequences(), KEY)
    assert same(two.target, two.critic.params)
    assert not same(two.target, agent.target)


def test_the_head_learns_the_scores_of_all_skills_at_once():
    backbone = changed(
        TINY, world={"units": 32, "learning_rate": 0.01}, behaviour={"units": 32}, objective={"reward_on": "replayed"}
    )
    objective = DIAYN(SKILLS, hidden=(8,))
    agent, state = begun(backbone, objective)
    batch = sequences(objective)
    posterior, _ = inferred(agent.world.params, batch)
    seen, feature = replayed_pairs(backbone, posterior, batch)
    np.testing.assert_array_equal(seen.next_obs, batch.obs[:, 1:].reshape(-1, 3))

    @quick
    def taught(head):
        def step(head, key):
            head, _, metrics = fit_reward_head(backbone, head, objective, state, seen, feature, key)
            return head, metrics["reward_loss"]

        return jax.lax.scan(step, head, jax.random.split(KEY, 400))

    head, losses = taught(agent.reward_head)
    assert losses[-1] < 0.05 * losses[0]
    scores = objective.score_skills(state, seen.next_obs) + np.log(SKILLS)
    np.testing.assert_allclose(jax.vmap(head.params)(feature), scores, atol=0.15)


def test_true_labels_are_kept_where_rows_are_compared_by_them():
    assert not BeCL.scores_other_skills
    assert DIAYN.scores_other_skills


# Fine-tuning


def test_adapting_keeps_the_model_and_the_actor_and_nothing_else():
    before, _, _ = learned(TINY, small("sd3"))
    tuned = TINY.task_config(pretrained=True)
    after = tuned.adapt(before, jax.random.key(7))
    old, new = before.world.params, after.world.params
    for part in ("encoder", "dynamics", "decoder"):
        assert same(getattr(old, part), getattr(new, part))
    assert same(before.actor.params, after.actor.params)
    assert (new.reward.layers[0].weight != old.reward.layers[0].weight).all()
    assert (after.critic.params.network.layers[0].weight != before.critic.params.network.layers[0].weight).all()
    assert same(after.critic.params, after.target)
    assert after.updates == 0
    assert (after.scale, after.reward_mean) == (1, 0)
    assert after.reward_head is None
    for part in (after.world, after.actor, after.critic):
        assert all((leaf == 0).all() for leaf in leaves(part.opt_state))
    kept = tuned.adapt(before, jax.random.key(7), keep_critic=True)
    assert same(kept.critic.params, before.critic.params)


def test_a_task_is_learned_with_plain_rewards_whose_gradient_trains_the_model():
    tuned = changed(
        TINY, behaviour={"entropy": 0.1}, objective={"reward_on": "replayed", "reward_gradient": False}
    ).task_config(pretrained=True)
    assert tuned.behaviour.entropy == 1e-4
    assert tuned.behaviour.normalize == "none"
    assert tuned.world.reward_head_gradient
    assert tuned.objective.reward_on == "imagined"
    assert tuned.objective.reward_gradient
    assert tuned.objective.imagined_skills == "replayed"
    first = changed(TINY, replay={"warmup_steps": 7, "task_warmup_steps": 5})
    assert first.task_config(pretrained=True).schedule.warmup_steps == 5
    assert first.task_config(pretrained=False).schedule.warmup_steps == 5
    assert tuned.schedule.warmup_policy
    assert not TINY.task_config(pretrained=False).schedule.warmup_policy
    assert (
        changed(TINY, behaviour={"normalize": "returns"}).task_config(pretrained=True).behaviour.normalize == "returns"
    )
    # What fine-tuning starts from has the shape of what it goes on with.
    fresh = jax.eval_shape(lambda: tuned.init(KEY, SPEC, SKILLED))
    source = jax.eval_shape(lambda: changed(TINY, objective={"reward_on": "replayed"}).init(KEY, SPEC, SKILLED))
    adapted = jax.eval_shape(lambda agent: tuned.adapt(agent, KEY), source)
    assert kinds(adapted) == kinds(fresh)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(UserError, match="at least 2"):
        changed(TINY, behaviour={"horizon": 1}).init(KEY, SPEC, SKILLED)
    successor = Extrinsic(skill_kind="sphere", skill_width=3, successor_features=True)
    with pytest.raises(UserError, match="no single value"):
        changed(TINY, behaviour={"critic": "two-hot"}).init(KEY, SPEC, successor)


# Acting


@cache
def acting():
    return quick(TINY.act, static_argnums=5)


def test_acting_believes_what_learning_would():
    agent, _ = begun()
    # States that are all but certain: drawn in any way they are the same.
    sharp = eqx.tree_at(
        lambda one: one.dynamics.posterior_logits.weight, agent.world.params, replace_fn=lambda w: 1e5 * w
    )
    agent = agent._replace(world=agent.world._replace(params=sharp))
    batch = sequences()
    carry, actions, beliefs = TINY.initial_carry(ROWS), [], []
    for time in range(TIMES):
        action, carry = acting()(TINY.policy_params(agent), carry, batch.obs[:, time], batch.skill[:, time], KEY, True)
        actions.append(action)
        beliefs.append(carry.deter)
    led = jnp.concatenate([jnp.zeros((ROWS, 1, 2)), jnp.stack(actions, axis=1)[:, :-1]], axis=1)
    posterior, _ = inferred(sharp, batch._replace(action=led))
    for time in range(TIMES - 1):
        np.testing.assert_allclose(beliefs[time], posterior.states.deter[:, time + 1], atol=1e-4)
    np.testing.assert_array_equal(carry.time, TIMES)
    likelihood = TINY.log_prob(agent, batch.obs[1], batch.skill[1], jnp.stack(actions, axis=1)[1])
    policy = jax.vmap(agent.actor.params)(posterior.states.feature[1], batch.skill[1])
    np.testing.assert_allclose(likelihood, policy.log_prob(jnp.stack(actions, axis=1)[1]), rtol=1e-3)
    shown = TINY.objective_obs(agent, batch.obs[1], jnp.stack(actions, axis=1)[1])
    memory = np.asarray(posterior.states.deter[1])
    np.testing.assert_allclose(shown.std(axis=-1), 1, atol=0.1)
    for one, other in zip(shown, memory, strict=True):
        assert np.corrcoef(one, other)[0, 1] == pytest.approx(1, abs=1e-4)


def test_rows_do_not_know_of_each_other_and_begin_where_they_are_told():
    agent, _ = begun()
    policy, batch = TINY.policy_params(agent), sequences()
    _, later = acting()(policy, TINY.initial_carry(ROWS), batch.obs[:, 0], batch.skill[:, 0], KEY, True)
    mixed = jax.tree.map(lambda fresh, old: jnp.concatenate([fresh[:1], old[1:]]), TINY.initial_carry(ROWS), later)
    anew, _ = acting()(policy, TINY.initial_carry(ROWS), batch.obs[:, 1], batch.skill[:, 1], KEY, True)
    going_on, _ = acting()(policy, later, batch.obs[:, 1], batch.skill[:, 1], KEY, True)
    both, _ = acting()(policy, mixed, batch.obs[:, 1], batch.skill[:, 1], KEY, True)
    np.testing.assert_array_equal(both[0], anew[0])
    np.testing.assert_array_equal(both[1:], going_on[1:])


def test_without_exploration_the_same_key_acts_the_same():
    agent, _ = begun()
    batch = sequences()
    arguments = TINY.policy_params(agent), TINY.initial_carry(ROWS), batch.obs[:, 0], batch.skill[:, 0]
    one, two = (acting()(*arguments, KEY, False)[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (acting()(*arguments, KEY, True)[0] != one).any()


def controlled():
    return TINY.with_controller(begun()[0], KEY, SPEC, SKILLS)


def test_a_controller_starts_indifferent():
    agent, actor = begun()[0], controlled().actor.params
    assert same(actor.network, agent.actor.params.network)
    feature = jnp.ones(12)
    means = [agent.actor.params(feature, skill).mean for skill in jnp.eye(SKILLS)]
    np.testing.assert_allclose(actor(feature, jnp.zeros(SKILLS)).mean, np.mean(means, axis=0), atol=1e-6)


@pytest.mark.slow
def test_a_controller_learns():
    after, _, _ = learning()(controlled(), begun()[1], sequences(), KEY)
    assert np.any(after.actor.params.controller.layers[-1].weight)


# A task whose best return is known

POINT = EnvSpec(obs_shape=(2,), action_dim=1, horizon=5)
PUPIL = Dreamer(
    world=WorldConfig(
        embedding=32,
        deter=32,
        hidden=32,
        stoch=4,
        classes=4,
        units=64,
        layers=2,
        activation="relu",
        learning_rate=0.002,
    ),
    behaviour=BehaviourConfig(
        units=64, layers=2, activation="relu", horizon=5, discount=0.9, target_every=20, learning_rate=0.0003
    ),
    replay=ReplayConfig(batch_size=32, sequence_length=6),
).task_config(pretrained=False)
UPDATES = 800


def play_points(rows, choose):
    """Episodes of points pushed by half an action from 0; arriving pays −(distance)² to a goal at ±1.

    At best an episode of five steps earns −0.25: two full pushes, and none after them.
    """
    goal = np.where(np.arange(rows) % 2, 1.0, -1.0)
    place, columns = np.zeros(rows), []
    action, reward = np.zeros((rows, 1)), np.zeros(rows)
    for time in range(6):
        columns.append((np.stack([place, goal], axis=1), action, reward))
        if time < 5:
            action = np.asarray(choose(jnp.asarray(columns[-1][0], jnp.float32)))
            place = place + 0.5 * action[:, 0]
            reward = -((place - goal) ** 2)
    obs, action, reward = (np.stack(column, axis=1).astype(np.float32) for column in zip(*columns, strict=True))
    first = np.zeros((rows, 6), np.float32)
    first[:, 0] = 1
    return Sequences(obs, action, reward, np.ones_like(first), np.zeros((rows, 6, 0), np.float32), first)


@cache
def pupil_acting():
    return jax.jit(PUPIL.act, static_argnums=5)


def played(agent, rows, key, explore):
    carry = PUPIL.initial_carry(rows)

    def choose(obs):
        nonlocal carry
        action, carry = pupil_acting()(PUPIL.policy_params(agent), carry, obs, jnp.zeros((rows, 0)), key, explore)
        return action

    return play_points(rows, choose)


@pytest.mark.slow
def test_a_point_is_brought_to_its_goal_at_nearly_the_best_return():
    objective, generator = Extrinsic(), np.random.default_rng(0)
    agent = PUPIL.init(jax.random.key(0), POINT, objective)
    learn = jax.jit(lambda agent, batch, key: PUPIL.learn(agent, objective, None, batch, key)[0])
    replay = [play_points(64, lambda obs: generator.uniform(-1, 1, (len(obs), 1)))]
    assert played(agent, 2, KEY, False).reward.sum(axis=1).mean() < -2
    for update in range(UPDATES):
        if update % 10 == 0:
            replay.append(played(agent, 16, jax.random.key(update), True))
            seen = Sequences(*(np.concatenate(parts) for parts in zip(*replay, strict=True)))
        chosen = generator.integers(0, len(seen.obs), PUPIL.replay.batch_size)
        agent = learn(agent, Sequences(*(part[chosen] for part in seen)), jax.random.key(update))
    found = played(agent, 2, KEY, False).reward.sum(axis=1)
    assert (found > -0.8).all(), found
    assert (found <= -0.25 + 1e-5).all()
