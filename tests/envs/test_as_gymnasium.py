"""Any environment under Gymnasium's interface."""

import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known
from gymnasium.utils.env_checker import check_env

import skillscape
from skillscape.errors import UserError

SIZES = {
    "maze/square_a": ((2,), 2, 50),
    "maze-pixels/square_a": ((64, 64, 3), 2, 50),
    "walker": ((24,), 6, 1000),
    "gym/toys:Long-v0": ((3,), 2, 60),
    "gym/toys:Pictured-v0": ((64, 64, 3), 2, 20),
}


@pytest.fixture(params=SIZES)
def made(request):
    env = skillscape.make(request.param)
    yield request.param, env
    env.close()


def test_spaces_are_those_of_policies(made):
    name, env = made
    shape, actions, _ = SIZES[name]
    assert env.observation_space.shape == shape
    assert env.observation_space.dtype == (np.uint8 if len(shape) == 3 else np.float32)
    assert env.action_space.shape == (actions,)
    assert (env.action_space.low == -1).all()
    assert (env.action_space.high == 1).all()


def test_an_episode_is_a_function_of_its_seed_and_its_actions(made):
    name, env = made
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
        assert any((one != two).any() for one, two in zip(first[0], other[0], strict=True))


def test_episodes_without_a_seed_differ_and_repeat_with_the_last_one():
    env = skillscape.make("gym/toys:Long-v0")
    starts = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    assert (starts[1] != starts[2]).any()
    again = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    np.testing.assert_array_equal(starts, again)


def test_episodes_are_cut_where_they_end():
    env = skillscape.make("gym/toys:Long-v0")
    env.reset(seed=0)
    ends = [env.step(np.zeros(2))[2:4] for _ in range(60)]
    assert ends == [(False, False)] * 59 + [(False, True)]


@pytest.mark.parametrize("name", ["maze/square_a", "gym/toys:Long-v0"])
@pytest.mark.filterwarnings("ignore:.*Box observation space")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_s_own_checker_finds_no_fault(name):
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


def test_a_user_who_names_a_module_here_may_have_it_imported(tmp_path, monkeypatch):
    (tmp_path / "named_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Named-v0', entry_point='gymnasium.envs.classic_control.pendulum:PendulumEnv',"
        " max_episode_steps=20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = skillscape.make("gym/named_envs:Named-v0")
    assert env.reset(seed=0)[0].shape == (3,)
