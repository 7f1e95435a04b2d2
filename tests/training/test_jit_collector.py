"""The jitted collector: rollouts around episode ends and new skills, pure iterations, and skills that are chosen."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import SKILLS, Compass, contents, maze_config, saved_steps, train_runs
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

from skillscape.backbones.ppo import PPO
from skillscape.errors import Interrupted, UserError
from skillscape.objectives.aps import APS
from skillscape.objectives.diayn import DIAYN
from skillscape.training import jit_collector
from skillscape.training.jit_collector import JitCollector, compiled_iteration
from skillscape.training.run import Run
from skillscape.training.state import init_state
from skillscape.training.unroll import collect_whole
from skillscape.types import Spec

pytestmark = pytest.mark.usefixtures("_counting", "_quick_compilation")
EPISODES = 12
MANY_SKILLS = 10_000


@cache
def counted(short, long, resample_every=None, horizon=11, skill=None):
    """A rollout of the counting environment, with so many skills that two draws hardly ever agree."""
    objective = DIAYN(number_of_skills=MANY_SKILLS, resample_every=resample_every)
    env = CountingEnv(horizon, short, long)
    chosen = None if skill is None else jax.nn.one_hot(jnp.full(EPISODES, skill), MANY_SKILLS)
    skills, every = objective.skills, objective.resample_every
    run = quick(lambda key: collect_whole(env, Actor(), skills, every, jnp.zeros(()), EPISODES, key, chosen))
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
    assert all(new_skill_times(rollout, episode) == [3, 4, 7, 8] for episode in range(EPISODES))


def test_a_chosen_skill_acts_in_every_step_of_every_episode():
    rollout = counted(3, 5, resample_every=4, skill=7)
    assert (skill_numbers(rollout) == 7).all()
    # What happens does not depend on whether skills are drawn.
    np.testing.assert_array_equal(rollout.obs, counted(3, 5, resample_every=4).obs)


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
    ended = rollout.last[:-1] == 1
    assert (rollout.obs[1:, :, 1][ended] == 0).all()
    # A new episode may begin where the old one did: first states are drawn from a few.
    assert went_on[..., 0][ended].mean() < 0.5


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


# Skills that a run keeps, or settles on


def measure(run, state, skill, step):
    return {"skill": float(np.argmax(skill)) if len(skill) else 0.0, "iterations": float(state.agent["iterations"])}


def finetuning_config(**changes):
    # The cell is straight below the start, where skill 3 goes.
    return maze_config(phase="finetune", task="reach:3,0", **changes)


@pytest.fixture
def tried(monkeypatch):
    """The episodes by which skills were judged, a list for every time."""
    trials, judge = [], jit_collector.selected_skill

    def watched(run, state, trajectories):
        trials.append(trajectories)
        return judge(run, state, trajectories)

    monkeypatch.setattr(jit_collector, "selected_skill", watched)
    return trials


def trained(folder, config):
    run = Run(folder) if folder.exists() else Run.create(folder, config)
    train_runs([run], measure)
    return run


@pytest.mark.parametrize(("skill", "index"), [("2", 2), ("random", None)])
def test_a_skill_that_stays_is_learned_from_and_evaluated(tmp_path, skill, index):
    run = trained(tmp_path / "run", finetuning_config(skill=skill))
    agent = run.newest()[0].agent
    found = int(np.argmax(agent["skills"]))
    assert index is None or found == index
    np.testing.assert_array_equal(agent["skills"], 5 * np.eye(SKILLS)[found])
    assert run.evaluation()["skill"] == [found] * 4
    np.testing.assert_array_equal(run.kept_skill(), np.eye(SKILLS)[found])


def test_skills_of_the_prior_are_drawn_for_every_episode(tmp_path):
    run = trained(tmp_path / "run", finetuning_config(skill="prior"))
    agent = run.newest()[0].agent
    assert float(agent["skills"].sum()) == pytest.approx(5)
    assert (agent["skills"] > 0.25).all()
    assert run.kept_skill() is None


@pytest.mark.parametrize("skill", ["grid", "regress"])
def test_the_first_iteration_of_a_run_that_judges_skills_tries_them_and_learns_nothing(tmp_path, tried, skill):
    config = finetuning_config(skill=skill, backbone=Compass(episodes=16), steps=4000)
    run = trained(tmp_path / "run", config)
    (trajectories,) = tried
    assert len(trajectories) == 16
    tries = [int(np.argmax(trajectory.skill[0])) for trajectory in trajectories]
    assert all((trajectory.skill == trajectory.skill[0]).all() for trajectory in trajectories)
    if skill == "grid":
        assert tries == 4 * list(range(SKILLS))
    assert set(tries) == set(range(SKILLS))
    state, _ = run.newest()
    iterations = run.end // 800
    assert float(state.agent["iterations"]) == iterations - 1
    kept = int(np.argmax(run.kept_skill()))
    assert kept == 3
    np.testing.assert_array_equal(state.agent["skills"], (iterations - 1) * np.eye(SKILLS)[kept])
    # There is nothing to tell of the trial, and from then on the chosen skill is evaluated.
    assert run.metrics()["step"] == list(range(1600, run.end + 1, 800))
    assert run.evaluation()["step"] == list(range(0, run.end + 1, 800))
    assert run.evaluation()["skill"][1:] == [kept] * iterations


def test_a_skill_is_inferred_by_the_model_of_the_pre_training(tmp_path, tried):
    method = APS(3, hidden=(4,), neighbours=2)
    config = finetuning_config(objective=method, skill="infer")
    run = Run.create(tmp_path / "run", config)
    model = method.init(jax.random.key(5), Spec((2,), 2))
    run.keep_model(model)
    train_runs([run], measure)
    (trajectories,) = tried
    obs, reward = (np.concatenate([trajectory[field] for trajectory in trajectories]) for field in (0, 2))
    assert reward.max() > 0
    inferred = method.infer_skill(model, jnp.asarray(obs), jnp.asarray(reward))
    np.testing.assert_allclose(run.kept_skill(), inferred, atol=1e-5)
    assert np.linalg.norm(run.kept_skill()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("stop_at", [0, 400, 1200])
def test_a_skill_is_judged_once_also_if_the_run_is_stopped_around_that(tmp_path, tried, stopping, stop_at):
    config = finetuning_config(skill="grid")
    trained(tmp_path / "whole", config)
    run = Run.create(tmp_path / "stopped", config)
    with pytest.raises(Interrupted):
        train_runs([run], measure, [stopping(stop_at)])
    assert saved_steps(run.folder)[-1] == stop_at
    train_runs([run], measure)
    assert len(tried) == 2
    assert contents(run.folder) == contents(tmp_path / "whole")


def test_ppo_settles_on_a_skill_and_goes_on_to_the_same_numbers_after_a_stop(tmp_path, tried, stopping):
    small = PPO(episodes=8, hidden=(4,), epochs=1, minibatches=1, model_epochs=1)
    config = finetuning_config(skill="regress", backbone=small, steps=1600)
    whole, run = (Run.create(tmp_path / name, config) for name in ("whole", "stopped"))
    train_runs([whole], lambda *_: {"return": 0.0})
    with pytest.raises(Interrupted):
        train_runs([run], lambda *_: {"return": 0.0}, [stopping(800)])
    train_runs([run], lambda *_: {"return": 0.0})
    assert len(tried) == 2
    assert contents(run.folder) == contents(whole.folder)
    assert float(run.kept_skill().sum()) == 1


@pytest.mark.parametrize("metadata", [{}, {"skill": "best"}, {"skill": [1.0]}])
def test_a_checkpoint_that_does_not_fit_is_one_sentence(tmp_path, metadata):
    run = Run.create(tmp_path / "run", finetuning_config(skill="1"))
    run.save(init_state(run.config, run.spec), metadata)
    with pytest.raises(UserError, match="does not fit this run; delete it"):
        train_runs([run], measure)


def test_going_back_is_to_before_the_newest_iteration(tmp_path):
    run = Run.create(tmp_path / "run", finetuning_config(skill="grid"))
    env = run.config.make_env()
    collector = JitCollector(run, env, compiled_iteration(run, env), init_state(run.config, run.spec), None)
    for _ in range(2):  # the trial, and what is learned from
        before = collector.step, collector.state, collector.metrics, collector.metadata()
        collector.advance()
        assert collector.metadata()["skill"] is not None
        collector.rewind()
        assert (collector.step, collector.state, collector.metrics, collector.metadata()) == before
        collector.advance()
    assert collector.step == 800
