"""Environments under Gymnasium's interface: ``skillscape.make``, and the registered mazes."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known
from gymnasium.envs.registration import namespace, registry
from gymnasium.utils.env_checker import check_env

import skillscape
from skillscape.envs import gymnasium_export
from skillscape.envs.mazes.layouts import builtin_layouts, parse_layout
from skillscape.errors import UserError

SIZES = {
    "maze/square_a": ((2,), 2, 50),
    "maze-pixels/square_a": ((64, 64, 3), 2, 50),
    "walker": ((24,), 6, 1000),
    "gym/toys:Long-v0": ((3,), 2, 60),
    "gym/toys:Pictured-v0": ((64, 64, 3), 2, 20),
}
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
            gymnasium_export.register()
            gymnasium_export.register()
    else:
        gymnasium_export.register()
        gymnasium_export.register()
    assert ours() == NAMES


def run(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_gymnasium_imports_the_module_named_before_the_colon():
    run("import gymnasium; gymnasium.make('skillscape.envs.gymnasium_export:skillscape/square_b-v0').reset()")


def test_registration_does_not_import_jax():
    run("import sys, skillscape.envs.gymnasium_export as g; g.register(); sys.exit('jax' in sys.modules)")


@pytest.mark.parametrize("name", ["skillscape/square_a-v0", "skillscape/square_corridor2-v0"])
def test_the_checker_of_gymnasium_accepts_mazes(name):
    check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_is_truncated_exactly_once_and_never_terminates(name):
    env = gymnasium.make(name)
    env.action_space.seed(0)
    for _ in range(2):
        observation, info = env.reset(seed=0)
        assert observation in env.observation_space
        assert info == {}
        truncations = []
        for _ in range(50):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert observation in env.observation_space
            assert (reward, terminated) == (0.0, False)
            truncations.append(truncated)
        assert truncations == [False] * 49 + [True]


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
    env = gymnasium_export.MazeEnv(parse_layout("S.\n", "mine"), back_off=0.25)
    env.reset(options={"position": [0, 0]})
    for expected in ((0.95, 0), (1.25, 0)):
        np.testing.assert_allclose(env.step(np.array([1, 0]))[0], expected, atol=1e-6)


def test_a_new_environment_has_to_be_reset():
    env = gymnasium_export.MazeEnv(render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()


def test_copies_of_a_maze_share_their_compiled_step():
    assert (
        gymnasium_export.MazeEnv("square_c")._inner._functions is gymnasium_export.MazeEnv("square_c")._inner._functions
    )


def test_changing_an_observation_does_not_move_the_agent():
    env = gymnasium_export.MazeEnv("square_corridor", back_off=0.005)
    observation, _ = env.reset(options={"position": [0, 0]})
    observation += 3
    np.testing.assert_allclose(env.step(np.array([1, 0]))[0], (0.95, 0), atol=1e-6)


def test_the_rendering_shows_walls_path_and_agent():
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


def test_a_task_rewards_its_cell():
    env = gymnasium.make("skillscape/square_a-v0", task="reach:4,0")
    env.reset(seed=0)
    down = np.array([0, -1], np.float32)
    rewards = [env.step(down)[1] for _ in range(6)]
    assert rewards[0] == 0
    assert rewards[-1] == 1
    with pytest.raises(UserError, match="no free cell in row 0, column 1"):
        gymnasium_export.MazeEnv(task="reach:0,1")


def test_an_episode_that_is_over_has_to_be_reset():
    env = gymnasium_export.MazeEnv(parse_layout("S.", "mine"))
    env.reset(seed=0)
    for _ in range(50):
        env.step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))


# Any environment: skillscape.make


@pytest.fixture(params=SIZES)
def exported(request):
    env = skillscape.make(request.param)
    yield request.param, env
    env.close()


def test_spaces_are_those_of_policies(exported):
    name, env = exported
    shape, actions, _ = SIZES[name]
    assert env.observation_space.shape == shape
    assert env.observation_space.dtype == (np.uint8 if len(shape) == 3 else np.float32)
    assert env.action_space.shape == (actions,)
    assert (env.action_space.low == -1).all()
    assert (env.action_space.high == 1).all()


def test_an_episode_is_a_function_of_its_seed_and_its_actions(exported):
    name, env = exported
    actions = np.random.default_rng(0).uniform(-1, 1, (3, *env.action_space.shape)).astype(np.float32)

    def episode(seed):
        obs, info = env.reset(seed=seed)
        assert info == {}
        steps = [env.step(action) for action in actions]
        assert all(env.observation_space.contains(step[0]) for step in steps)
        return [obs, *(step[0] for step in steps)], [step[1] for step in steps]

    first, again, other = episode(3), episode(3), episode(4)
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1] == again[1]
    if name != "gym/toys:Pictured-v0":  # its square moves by whole pixels
        assert any((obs != other_obs).any() for obs, other_obs in zip(first[0], other[0], strict=True))


def test_episodes_without_a_seed_differ_and_repeat_with_the_last_one():
    env = skillscape.make("gym/toys:Long-v0")
    starts = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    assert (starts[1] != starts[2]).any()
    again = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    np.testing.assert_array_equal(starts, again)


def test_episodes_are_truncated_at_the_horizon():
    env = skillscape.make("gym/toys:Long-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(2))[2:4] for _ in range(60)]
    assert ends == [(False, False)] * 59 + [(False, True)]


@pytest.mark.parametrize("name", ["maze/square_a", "gym/toys:Long-v0"])
@pytest.mark.filterwarnings("ignore:.*Box observation space")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_checker_of_gymnasium_accepts_exported_environments(name):
    check_env(skillscape.make(name), skip_render_check=True)


def test_a_task_noise_and_arguments_reach_the_environment():
    env = skillscape.make("maze/square_a", "reach:1,0")
    env.reset(seed=0)
    rewards = [env.step(np.array([0.0, -1.0]))[1] for _ in range(10)]
    assert max(rewards) > 0
    plain, noisy = skillscape.make("gym/toys:Long-v0"), skillscape.make("gym/toys:Long-v0", noise=0.5)
    assert (plain.reset(seed=0)[0] != noisy.reset(seed=0)[0]).any()
    ending = skillscape.make("gym/toys:Long-v0", kwargs={"ends": True})
    ending.reset(seed=0)
    assert any(ending.step(np.ones(2))[2] for _ in range(10))


@pytest.mark.parametrize(
    ("arguments", "options", "answer"),
    [
        (("square_a",), {}, "write maze/square_a"),
        (("walker", "run"), {}, "run"),
        (("maze/square_a",), {"kwargs": {"a": 1}}, "takes no keyword arguments"),
        (("gym/toys:Long-v0",), {"noise": -1.0}, r"--env\.noise is a standard deviation"),
        (("gym/toys:Long-v0",), {"kwargs": {"a": 1}}, "does not take the keyword argument 'a'"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, options, answer):
    with pytest.raises(UserError, match=answer) as caught:
        skillscape.make(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_naming_a_module_permits_its_import(tmp_path, monkeypatch):
    (tmp_path / "named_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Named-v0', entry_point='gymnasium.envs.classic_control.pendulum:PendulumEnv',"
        " max_episode_steps=20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = skillscape.make("gym/named_envs:Named-v0")
    assert env.reset(seed=0)[0].shape == (3,)
