"""The Gymnasium side of the mazes: registration, the interface, seeding, and pictures."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import namespace, registry
from gymnasium.utils.env_checker import check_env

from skillscape.envs import gym as maze_gym
from skillscape.envs.mazes.layouts import builtin_layouts, parse_layout
from skillscape.errors import UserError

NAMES = [f"skillscape/{name}-v0" for name in builtin_layouts()]


def ours():
    return [identifier for identifier in registry if "skillscape" in identifier]


@pytest.mark.parametrize("inside", [True, False])
def test_registration_gives_each_maze_one_name_and_can_be_repeated(monkeypatch, inside):
    for identifier in NAMES:
        monkeypatch.delitem(registry, identifier)
    assert ours() == []
    if inside:  # as an entry point would be called
        with namespace("skillscape"):
            maze_gym.register()
            maze_gym.register()
    else:
        maze_gym.register()
        maze_gym.register()
    assert ours() == NAMES


def run(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_gymnasium_imports_the_module_named_before_the_colon():
    run("import gymnasium; gymnasium.make('skillscape.envs.gym:skillscape/square_b-v0').reset()")


def test_looking_into_the_registry_does_not_load_jax():
    run("import sys, skillscape.envs.gym as g; g.register(); sys.exit('jax' in sys.modules)")


@pytest.mark.parametrize("name", ["skillscape/square_a-v0", "skillscape/square_corridor2-v0"])
def test_the_checker_of_gymnasium_has_no_complaints(name):
    check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_is_cut_exactly_once_and_never_ends_by_itself(name):
    env = gymnasium.make(name)
    env.action_space.seed(0)
    for _ in range(2):
        observation, info = env.reset(seed=0)
        assert observation in env.observation_space
        assert info == {}
        cuts = []
        for _ in range(50):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert observation in env.observation_space
            assert (reward, terminated) == (0.0, False)
            cuts.append(truncated)
        assert cuts == [False] * 49 + [True]


def walk(env, seed, actions):
    first, _ = env.reset(seed=seed)
    return np.array([first] + [env.step(action)[0] for action in actions])


def test_episodes_repeat_with_their_seed_and_differ_without():
    env, twin = gymnasium.make("skillscape/square_a-v0"), gymnasium.make("skillscape/square_a-v0")
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    path = walk(env, 7, actions)
    np.testing.assert_array_equal(walk(twin, 7, actions), path)
    assert (walk(env, 8, actions)[0] != path[0]).all()
    unseeded = [env.reset()[0] for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).all()
    corner = np.ones((2, 2), dtype=np.float32) * (-1, 1)
    path = walk(env, 7, corner)
    assert (path[1] != path[2]).all()  # the back-off is drawn anew in every step


def test_an_episode_can_start_anywhere_free():
    env = gymnasium.make("skillscape/square_a-v0")
    np.testing.assert_array_equal(env.reset(options={"position": [4, 0.25]})[0], np.float32([4, 0.25]))
    on_the_wall, _ = env.reset(options={"position": (4.5, 0.5)})
    assert on_the_wall in env.observation_space
    assert (on_the_wall < (4.5, 0.5)).all()


@pytest.mark.parametrize(
    "position", [[1, 0], [0], [0, 0, 0], "here", None, [np.nan, 0], [1e300, 0], [[0, 0]], [0, "x"]]
)
def test_other_starts_are_refused(position):
    env = gymnasium.make("skillscape/square_a-v0")
    with pytest.raises(UserError, match=r"is not in the maze square_a; give \[x, y\] in a free cell\.$"):
        env.reset(options={"position": position})


def test_own_mazes_and_fixed_back_off():
    env = maze_gym.MazeEnv(parse_layout("S.\n", "mine"), back_off=0.25)
    env.reset(options={"position": [0, 0]})
    for expected in ((0.95, 0), (1.25, 0)):
        np.testing.assert_allclose(env.step(np.array([1, 0]))[0], expected, atol=1e-6)


def test_a_bare_environment_asks_to_be_reset():
    env = maze_gym.MazeEnv(render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()


def test_copies_of_a_maze_share_their_compiled_step():
    assert maze_gym.MazeEnv("square_c")._inner._functions is maze_gym.MazeEnv("square_c")._inner._functions


def test_changing_an_observation_does_not_move_the_agent():
    env = maze_gym.MazeEnv("square_corridor", back_off=0.005)
    observation, _ = env.reset(options={"position": [0, 0]})
    observation += 3
    np.testing.assert_allclose(env.step(np.array([1, 0]))[0], (0.95, 0), atol=1e-6)


def test_the_picture_shows_walls_path_and_agent():
    env = gymnasium.make("skillscape/square_a-v0", render_mode="rgb_array")
    env.reset(options={"position": [0, 0]})
    first = env.render()
    assert (first.shape, first.dtype) == ((256, 256, 3), np.uint8)

    def colour(picture, x, y):  # five cells of 48 pixels in a margin of 8
        return tuple(picture[int(8 + 48 * (0.5 - y)), int(8 + 48 * (x + 0.5))].tolist())

    red, white, grey, black = (220, 60, 50), (255, 255, 255), (205, 205, 205), (0, 0, 0)
    assert colour(first, 0, 0) == red
    assert colour(first, 4, 0) == white
    assert colour(first, 1, 0) == grey
    assert colour(first, 0.5, 0) == colour(first, 4.5, -2) == colour(first, 2, -4.5) == black
    assert colour(first, 0, -0.5) == white  # an open edge
    env.step(np.array([0, -1], dtype=np.float32))
    second = env.render()
    assert colour(second, 0, -0.95) == red
    assert colour(second, 0, -0.5) not in (white, red)
    assert colour(second, 0.2, -0.5) == white
    assert gymnasium.make("skillscape/square_a-v0").unwrapped.render() is None


def test_a_task_pays_in_its_cell():
    env = gymnasium.make("skillscape/square_a-v0", task="reach:4,0")
    env.reset(seed=0)
    down = np.array([0, -1], np.float32)
    rewards = [env.step(down)[1] for _ in range(6)]
    assert rewards[0] == 0
    assert rewards[-1] == 1
    with pytest.raises(UserError, match="no free cell in row 0, column 1"):
        maze_gym.MazeEnv(task="reach:0,1")


def test_an_episode_that_is_over_asks_to_be_reset():
    env = maze_gym.MazeEnv(parse_layout("S.", "mine"))
    env.reset(seed=0)
    for _ in range(50):
        env.step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
