"""The interface for Python, used as the README uses it."""

import gymnasium
import jax
import numpy as np
import pytest

import skillscape
from skillscape.api import is_host
from skillscape.backbones.ppo import PPO
from skillscape.envs import gym
from skillscape.objectives.diayn import DIAYN
from skillscape.training.checkpoint import checkpoint_folder, save_tree


@pytest.fixture(scope="module")
def calls():
    """What the progress callback of the trained run was told."""
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory, calls):
    jax.config.update("jax_disable_most_optimizations", True)
    (trained,) = skillscape.pretrain(
        "diayn",
        env="maze/square_a",
        out=tmp_path_factory.mktemp("runs") / "diayn",
        preset="smoke",
        steps=1600,
        on_progress=lambda *told: calls.append(told),
    )
    jax.config.update("jax_disable_most_optimizations", False)
    return trained


def test_progress_is_told_after_every_iteration(run, calls):
    assert [step for _, step, _, _ in calls] == [400, 800, 1200, 1600]
    assert all(told.folder == run.folder for told, _, _, _ in calls)
    assert "1,600/1,600 steps" in calls[-1][2]
    assert {"reward", "coverage", "skill_accuracy"} <= set(calls[-1][3])


def test_a_method_without_skills_has_no_measures_that_tell_skills_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("skillscape.api.train_all", lambda runs, evaluate, *_, **__: evaluate(runs[0], fresh(runs[0])))

    def fresh(run):
        state = run.fresh_state()
        save_tree(checkpoint_folder(run.checkpoints, 0), state)
        return state

    (alone,) = skillscape.pretrain("apt", out=tmp_path / "apt", preset="smoke")
    assert list(alone.results["measures"]) == ["coverage", "reach"]
    assert alone.results["rollouts_per_skill"] == 40
    measures = skillscape.evaluate(alone)
    assert measures[2:] == (None, None, None, None)
    assert skillscape.rollouts(alone, per_skill=3).shape == (1, 3, 51, 2)


def test_a_run_loads_from_its_folder(run):
    (loaded,) = skillscape.load(str(run.folder))
    assert loaded.config == run.config


def test_the_measures_are_those_of_the_results(run):
    assert skillscape.evaluate(run)._asdict() == run.results["measures"]


def test_a_summary_over_one_run_is_that_run(run):
    summaries = skillscape.summarise_runs([run])
    assert {name: summary.mean for name, summary in summaries.items()} == run.results["measures"]


def test_rollouts_are_episodes_of_every_skill_from_the_fixed_start(run):
    positions = skillscape.rollouts(run, per_skill=4)
    assert positions.shape == (10, 4, 51, 2)
    np.testing.assert_array_equal(positions[:, :, 0], np.broadcast_to(np.float32([0, -0.5]), (10, 4, 2)))


def test_rollouts_depend_on_their_seed_alone(run):
    first, again, other = (skillscape.rollouts(run, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first[:, :, 1:] != other[:, :, 1:]).mean() > 0.9


def test_a_policy_walks_through_a_gymnasium_maze(run):
    gym.register()
    env = gymnasium.make("skillscape/square_a-v0")
    policy = skillscape.Policy(skillscape.load(run.folder)[0], skill=3)
    obs, _ = env.reset(seed=0)
    path, truncated = [obs], False
    while not truncated:
        action = policy(obs)
        assert env.action_space.contains(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        path.append(obs)
    assert (reward, terminated, len(path)) == (0.0, False, 51)
    assert len(np.unique(path, axis=0)) > 40


def test_a_policy_draws_anew_at_each_call_and_repeats_with_its_seed(run):
    obs = np.zeros(2, np.float32)
    first, again, other = (skillscape.Policy(run, 3, seed=seed) for seed in (0, 0, 1))
    draws = [first(obs), first(obs)]
    assert (draws[0] != draws[1]).all()
    np.testing.assert_array_equal([again(obs), again(obs)], draws)
    assert (other(obs) != draws[0]).all()


def test_a_policy_without_exploring_is_a_function_of_the_place_and_skill(run):
    still, other = (skillscape.Policy(run, skill, explore=False) for skill in (3, 4))
    obs = np.zeros(2)
    np.testing.assert_array_equal(still(obs), still(obs))
    assert (still(obs) != other(obs)).all()
    assert (still(obs) != still(obs + 1)).all()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 2)])
def test_an_observation_of_another_shape_is_a_users_error(run, shape):
    policy = skillscape.Policy(run, 0)
    with pytest.raises(skillscape.UserError, match=r"observations of shape \(2,\)"):
        policy(np.zeros(shape))


@pytest.mark.parametrize("skill", [-1, 10])
def test_an_unknown_skill_is_a_users_error(run, skill):
    with pytest.raises(skillscape.UserError, match="has skills 0 to 9"):
        skillscape.Policy(run, skill)


def test_own_settings_replace_those_of_the_preset(tmp_path, monkeypatch):
    monkeypatch.setattr("skillscape.api.train_all", lambda *_arguments, **_options: None)
    monkeypatch.setattr("skillscape.api._write_results", lambda _run: None)
    objective, backbone = DIAYN(number_of_skills=3), PPO(episodes=5)
    runs = skillscape.pretrain("diayn", out=tmp_path, objective=objective, backbone=backbone, seed=4, seeds=2)
    assert [run.config.seed for run in runs] == [4, 5]
    assert all((run.config.objective, run.config.backbone) == (objective, backbone) for run in runs)


def test_an_objective_of_another_method_is_a_users_error(tmp_path):
    with pytest.raises(skillscape.UserError, match="dads"):
        skillscape.pretrain("dads", out=tmp_path / "run", objective=DIAYN())


def test_the_environment_is_named_by_its_family():
    with pytest.raises(skillscape.UserError, match="write maze/NAME"):
        skillscape.pretrain("diayn", env="square_a", out="never")


def test_the_interface_is_what_it_says():
    assert all(hasattr(skillscape, name) for name in skillscape.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = skillscape.nonsense


@pytest.mark.parametrize(
    ("env", "hosted"),
    [
        ("maze/square_a", False),
        ("maze/own.txt", False),
        ("square_a", False),
        ("maze-pixels/square_a", True),
        ("maze-pixels/own.txt", True),
        ("maze-pixels", True),
        ("walker-pixels", True),
        ("gym/Pendulum-v1", True),
    ],
)
def test_mazes_step_on_the_host_only_where_they_are_seen(env, hosted):
    assert is_host(env) is hosted
