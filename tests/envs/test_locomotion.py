"""Ant and HalfCheetah: METRA's observations, and the rewards of the tasks by hand."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from skillscape.envs.gymnasium_adapter import GymnasiumEnv
from skillscape.envs.locomotion import BODIES, HURDLES, TASKS, Goal, Hurdles, MultiGoals
from skillscape.envs.registry import family_of, host_env
from skillscape.errors import UserError
from skillscape.types import EnvSpec

pytest.importorskip("mujoco")
pytest.importorskip("imageio")

WIDTHS = {"ant": 29, "half_cheetah": 18}
EVERY_BODY = pytest.mark.parametrize("env_id", BODIES)


@EVERY_BODY
def test_there_is_a_mean_and_a_deviation_for_every_entry(env_id):
    body = BODIES[env_id]
    assert len(body.mean) == len(body.std) == WIDTHS[env_id]
    assert min(body.std) > 0


@EVERY_BODY
def test_states_are_gymnasiums_standardised(env_id):
    body = BODIES[env_id]
    env, plain = host_env(env_id), gymnasium.make(body.gymnasium_id, **body.kwargs, max_episode_steps=200)
    assert env.spec == EnvSpec((WIDTHS[env_id],), plain.action_space.shape[0], 200)
    np.testing.assert_array_equal(env.position, np.zeros(body.coordinates))
    states, shown, places = [plain.reset(seed=4)[0]], [env.reset(4)], [env.position]
    random = np.random.default_rng(0)
    for step in range(200):
        action = random.uniform(-1, 1, env.spec.action_dim).astype(np.float32)
        state, reward, *_ = plain.step(action)
        made = env.step(action)
        states.append(state)
        shown.append(made.obs)
        places.append(env.position)
        assert made.reward == pytest.approx(reward, abs=1e-9)
        assert (made.terminated, made.truncated) == (False, step == 199)
    np.testing.assert_allclose(np.array(shown) * body.std + body.mean, states, atol=1e-4)
    np.testing.assert_allclose(places, np.array(states)[:, : body.coordinates], atol=1e-5)
    env.close()
    plain.close()


@pytest.mark.parametrize(("env_id", "task"), [(body, task) for body, tasks in TASKS.items() for task in tasks])
def test_a_task_shows_its_goal_behind_the_state(env_id, task):
    env, without = host_env(env_id, task), host_env(env_id)
    goals = TASKS[env_id][task].goal_dim
    assert env.spec.goal_dim == goals
    assert env.spec.obs_shape == (WIDTHS[env_id] + goals,)
    assert env.spec.without_goal == without.spec == without.spec.without_goal
    obs = env.reset(7)
    np.testing.assert_array_equal(obs[: WIDTHS[env_id]], without.reset(7))
    np.testing.assert_array_equal(env.reset(7), obs)
    assert task == "half_cheetah_hurdle" or (env.reset(8)[-goals:] != obs[-goals:]).any()
    env.close()
    without.close()


# The rewards by hand


def test_four_goals_of_fifty_steps_each():
    task = MultiGoals()
    task.reset(None, None, 3)
    assert task.goals.shape == (4, 2)
    steps = np.abs(np.diff(task.goals, axis=0, prepend=0))
    assert 1 < steps.max() <= 7.5
    task.goals = np.array([[0.0, 0], [10, 0], [10, 10], [20, 10]])
    at = np.array([10.0, 2.9])
    rewards, shown = [], []
    for _ in range(200):
        rewards.append(task.reward(None, at))
        shown.append(task.observe(None))
    # Within 3 m of the second goal alone.
    assert rewards == [0.0] * 50 + [1.0] * 50 + [0.0] * 100
    # The observation after step 50 is the one that step 51 is chosen by.
    np.testing.assert_array_equal([place[0] for place in shown[48:51]], [0, 10, 10])
    np.testing.assert_array_equal(shown[-1], task.goals[3])


def test_goals_spread_over_the_whole_square():
    task, drawn = MultiGoals(), []
    for seed in range(300):
        task.reset(None, None, seed)
        drawn.append(np.diff(task.goals, axis=0, prepend=0))
    drawn = np.concatenate(drawn)
    assert drawn.min() < -7.4
    assert drawn.max() > 7.4
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.5)


@pytest.mark.parametrize(("x", "reward"), [(9.9, 1.0), (12.99, 1.0), (7.01, 1.0), (6.99, 0.0), (13.01, 0.0)])
def test_one_goal_within_three_metres(x, reward):
    task = Goal()
    task.goal = np.array([10.0])
    assert task.reward(None, np.array([x])) == reward
    assert task.observe(None) == [10.0]


def test_goals_lie_within_a_hundred_metres():
    task, drawn = Goal(), []
    for seed in range(300):
        task.reset(None, None, seed)
        drawn.append(task.goal[0])
    assert -100 <= min(drawn) < -95
    assert 95 < max(drawn) <= 100


class Foot:
    """A simulator with nothing but a back foot at x."""

    def __init__(self, x):
        self.x = x

    @property
    def simulator(self):
        return SimpleNamespace(
            data=SimpleNamespace(body=lambda name: {"bfoot": SimpleNamespace(xpos=[self.x, 0, 0])}[name])
        )


def test_hurdles_are_paid_for_once_and_cost_the_way_back():
    task, foot, rewards = Hurdles(), Foot(-0.6), []
    task.reset(foot, None, 0)
    for x in (2.9, 3.1, 3.2, 12.0, 10.0, -4.0, 28.0):
        foot.x = x
        rewards.append(task.reward(foot, None))
    # Bars at 3 | 7 and 11 | back over 11 | back over 7 and 3, and those behind 0 count for nothing | all seven.
    assert rewards == [0, 1, 0, 2, -1, -2, 7]


@pytest.mark.parametrize(
    ("x", "bar", "distance"), [(-20.0, -15, 5), (-0.5, 3, 3.5), (3.0, 3, 0), (26, 27, 1), (30, 15, 15)]
)
def test_the_next_hurdle_is_shown(x, bar, distance):
    np.testing.assert_allclose(Hurdles().observe(Foot(x)), [bar, distance])


def test_hurdles_stand_in_the_way():
    env, plain = host_env("half_cheetah", "half_cheetah_hurdle"), host_env("half_cheetah", "half_cheetah_goal")
    model = env.inner.simulator.model
    places = [model.geom(f"hurdle-{number}").pos[0] for number in range(len(HURDLES))]
    np.testing.assert_allclose(places, HURDLES)
    assert model.ngeom == plain.inner.simulator.model.ngeom + len(HURDLES)
    env.close()
    plain.close()


# The family


def test_a_task_is_not_an_environment():
    with pytest.raises(UserError, match="half_cheetah_goal is a task: give half_cheetah as the environment and"):
        family_of("half_cheetah_goal")


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    def make(*_arguments, **_options):
        raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed, run `pip install mujoco`")

    monkeypatch.setattr(gymnasium, "make", make)
    with pytest.raises(UserError, match=r'pip install "skillscape\[gym\]"'):
        host_env("ant")


def test_a_cheetah_is_made_without_a_word(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    host_env("half_cheetah", "half_cheetah_hurdle").close()
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_the_simulator_is_gymnasiums_own():
    env = host_env("ant")
    assert isinstance(env.inner, GymnasiumEnv)
    assert env.inner.simulator is env.inner.simulator.unwrapped
    env.close()
