"""The fused loop: what a rollout holds around episode ends and new skills, and that an iteration is a pure function."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import (
    CONSTANT,
    ENDLESS,
    HORIZON,
    PROBE_PPO,
    Actor,
    CountingEnv,
    compiled_probe_iteration,
    probe_iteration,
    probe_state,
    quick,
)

from skillscape.objectives.diayn import DIAYN
from skillscape.training.fused import collect

EPISODES = 12
MANY_SKILLS = 10_000


@cache
def counted(short, long, resample_every=None, horizon=11):
    """A rollout of the counting environment, with so many skills that two draws hardly ever agree."""
    objective = DIAYN(number_of_skills=MANY_SKILLS, resample_every=resample_every)
    env = CountingEnv(horizon, short, long)
    run = quick(lambda key: collect(env, Actor(), objective, jnp.zeros(()), EPISODES, key))
    return jax.tree.map(np.asarray, run(jax.random.key(0)))


def skill_numbers(rollout):
    return rollout.skill.argmax(axis=-1)


def new_skill_times(rollout, episode):
    """Steps whose skill is not that of the step before."""
    return [int(time) + 1 for time in np.flatnonzero(np.diff(skill_numbers(rollout)[:, episode]))]


def first_steps(rollout):
    """Where an episode begins, by the clock of the environment."""
    return rollout.obs[..., 1] == 0


def test_a_skill_is_one_of_all_and_lasts_for_the_episode():
    rollout = counted(99, 99)
    assert (rollout.skill.sum(axis=-1) == 1).all()
    assert all(new_skill_times(rollout, episode) == [] for episode in range(EPISODES))
    assert len(np.unique(skill_numbers(rollout)[0])) > EPISODES / 2


def test_skills_are_drawn_again_every_so_many_steps_and_at_no_other():
    rollout = counted(99, 99, resample_every=4)
    assert all(new_skill_times(rollout, episode) == [4, 8] for episode in range(EPISODES))


def test_a_new_episode_has_a_new_skill_and_only_a_new_episode():
    rollout = counted(3, 5)
    for episode in range(EPISODES):
        begins = np.flatnonzero(first_steps(rollout)[:, episode])
        assert begins[0] == 0
        assert new_skill_times(rollout, episode) == list(begins[1:])
        assert begins.size >= 3


def test_a_new_episode_draws_its_skill_even_if_the_old_one_was_just_drawn():
    rollout = counted(4, 4, resample_every=3)
    assert all(new_skill_times(rollout, episode) == [3, 4, 6, 8, 9] for episode in range(EPISODES))


def test_episodes_end_where_the_task_ends_or_the_horizon_cuts_them():
    rollout = counted(3, 5)
    lengths = np.where(rollout.obs[..., 0] > 0, 3, 5)
    terminated = rollout.obs[..., 1] + 1 == lengths
    np.testing.assert_array_equal(rollout.discount, 1.0 - terminated)
    cut = np.zeros_like(terminated)
    cut[-1] = True
    np.testing.assert_array_equal(rollout.last, (terminated | cut).astype(np.float32))
    assert {3, 5} == set(np.unique(lengths))
    assert (cut & ~terminated).any()


def test_next_obs_is_where_the_action_led_also_at_the_end():
    rollout = counted(3, 5)
    np.testing.assert_array_equal(rollout.next_obs, rollout.obs + np.float32([0, 1]))


def test_the_reward_is_that_of_the_same_step():
    rollout = counted(3, 5)
    np.testing.assert_array_equal(rollout.reward, rollout.obs[..., 1] + 1)


def test_the_state_goes_on_inside_an_episode_and_is_fresh_after_its_end():
    rollout = counted(3, 5)
    went_on = rollout.next_obs[:-1] == rollout.obs[1:]
    np.testing.assert_array_equal(went_on.all(axis=-1), rollout.last[:-1] == 0)
    assert not went_on[rollout.last[:-1] == 1].any()


def test_the_backbone_starts_afresh_with_each_episode():
    rollout = counted(3, 5)
    np.testing.assert_allclose(rollout.action[..., 0] * 100, rollout.obs[..., 1], atol=1e-4)


def test_episodes_side_by_side_start_apart():
    assert len(np.unique(counted(99, 99).obs[0, :, 0])) == EPISODES


def assert_equal(left, right):
    """Every bit, keys included."""
    jax.tree.map(np.testing.assert_array_equal, numbers(left), numbers(right))


def numbers(tree):
    return jax.tree.map(
        lambda leaf: jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf, tree
    )


def test_an_iteration_is_a_function_of_its_state_alone():
    advance = compiled_probe_iteration()
    start = probe_state(3)
    first = advance(ENDLESS, start)
    advance(CONSTANT, probe_state(4))
    assert_equal(advance(ENDLESS, start), first)


def test_two_iterations_and_two_seeds_differ():
    advance = compiled_probe_iteration()
    first, _ = advance(ENDLESS, probe_state(3))
    second, _ = advance(ENDLESS, first)
    other, _ = advance(ENDLESS, probe_state(4))
    keys = {tuple(np.asarray(jax.random.key_data(state.key))) for state in (probe_state(3), first, second, other)}
    assert len(keys) == 4


def test_steps_are_counted_as_taken():
    state = probe_state(3)
    for count in (1, 2):
        state, _ = compiled_probe_iteration()(ENDLESS, state)
        assert state.step == count * PROBE_PPO.episodes * HORIZON


def test_seeds_batched_by_vmap_learn_what_they_learn_alone():
    seeds = [probe_state(seed) for seed in (0, 1)]
    batched = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seeds)
    together = quick(jax.vmap(probe_iteration, in_axes=(None, 0)))
    states, metrics = together(ENDLESS, batched)
    for index, seed in enumerate(seeds):
        alone, alone_metrics = compiled_probe_iteration()(ENDLESS, seed)
        pick = jax.tree.map(lambda leaf: leaf[index], (numbers(states), metrics))  # noqa: B023  used at once
        jax.tree.map(
            lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4),
            pick,
            (numbers(alone), alone_metrics),
        )
    assert metrics["value"][0] != pytest.approx(float(metrics["value"][1]))
