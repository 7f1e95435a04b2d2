"""Environments of Gymnasium under the interface of this library, and the mistakes one can make in naming them."""

import sys

import gymnasium
import numpy as np
import pytest
from gym_toy import HIGH, LOW
from gymnasium import spaces

from skillscape.envs.gymnasium_adapter import DEFAULT_HORIZON, make_gymnasium
from skillscape.envs.gymnasium_modules import trust
from skillscape.errors import UserError
from skillscape.types import EnvSpec


def test_sizes_and_types(make):
    env = make(limit=7)
    assert env.spec == EnvSpec((2,), 2, 7)
    obs = env.reset(3)
    assert (obs.dtype, obs.shape) == (np.float32, (2,))
    step = env.step(np.zeros(2, np.float32))
    assert (step.obs.dtype, step.reward, step.terminated, step.truncated) == (np.float32, 0.5, False, False)
    assert [type(value) for value in step[1:]] == [float, bool, bool]


def test_a_task_that_ends_is_terminated(make):
    env = make(limit=7, end=3)
    env.reset(0)
    steps = [env.step(np.zeros(2, np.float32)) for _ in range(3)]
    assert [(step.terminated, step.truncated) for step in steps] == [(False, False)] * 2 + [(True, False)]
    assert steps[-1].obs[1] == 3  # the state it ended in, not the next start
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("limit", [5, None])
def test_a_limit_truncates(make, limit):
    env = make(limit=limit)
    horizon = limit or DEFAULT_HORIZON
    assert env.spec.horizon == horizon
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))
    for _ in range(2):
        env.reset(0)
        ends = [env.step(np.zeros(2, np.float32))[2:] for _ in range(horizon)]
        assert ends == [(False, False)] * (horizon - 1) + [(False, True)]
        with pytest.raises(RuntimeError, match="reset"):
            env.step(np.zeros(2, np.float32))


def test_termination_at_the_default_limit_is_not_truncation(make):
    env = make(end=DEFAULT_HORIZON)
    env.reset(0)
    *_, last = (env.step(np.zeros(2, np.float32)) for _ in range(DEFAULT_HORIZON))
    assert (last.terminated, last.truncated) == (True, False)


def test_actions_reach_the_bounds_and_never_leave_them(make):
    env = make()
    env.reset(0)
    for value in (-1, 1, 0, 1 + 1e-6, -1 - 1e-6):
        env.step(np.full(2, value, np.float32))  # the toy refuses what is outside of its Box
    low, high, middle, _, _ = env._inner.unwrapped.actions
    np.testing.assert_array_equal(low, LOW)
    np.testing.assert_array_equal(high, HIGH)
    np.testing.assert_allclose(middle, (0, 0.4), rtol=1e-6)
    assert high.dtype == np.float32


def test_actions_take_the_shape_of_the_box(make):
    env = make(action_space=spaces.Box(-3, 3, (2, 2), np.float64))
    assert env.spec.action_dim == 4
    env.reset(0)
    env.step(np.array([-1, 0, 0.5, 1], np.float32))
    np.testing.assert_array_equal(env._inner.unwrapped.actions[0], [[-3, 0], [1.5, 3]])


def test_episodes_repeat_by_their_seed(make):
    env = make()
    first = env.reset(4)
    env.step(np.zeros(2, np.float32))
    assert env.reset(5)[0] != first[0]
    assert env.reset(4).tobytes() == first.tobytes()


def test_observations_are_the_callers_to_keep(make):
    state = np.zeros(2, np.float32)
    env = make(observe=lambda _: state)
    first = env.reset(0)
    state += 1
    assert not first.any()


def test_an_observation_outside_its_space_is_refused(make):
    with pytest.raises(UserError, match=r"OwnToy-v0 returned an observation of shape \(3,\).*correct"):
        make(observe=lambda _: np.zeros(3)).reset(0)
    gymnasium.registry.pop("OwnToy-v0")
    with pytest.raises(UserError, match="an observation of type dict"):
        make(observe=lambda _: {"x": 1}).reset(0)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match=r"did you mean.*Pendulum-v1"):
        make_gymnasium("pendulum-v1")
    with pytest.raises(UserError, match=r"did you mean.*Pendulum-v1"):
        make_gymnasium("Pendulum-v7")
    with pytest.raises(UserError, match="Gymnasium has no environment 'Qqqq/Xyzzy-v3'"):
        make_gymnasium("Qqqq/Xyzzy-v3")
    with pytest.raises(UserError, match="module:ID"):
        make_gymnasium("no such thing!")


def test_missing_packages_are_named(make, monkeypatch):
    trust("gym/no_such_module:OwnToy-v0")
    with pytest.raises(UserError, match=r"module no_such_module of .* PYTHONPATH"):
        make_gymnasium("no_such_module:OwnToy-v0")
    for failure in (gymnasium.error.DependencyNotInstalled("box2d is missing"), ImportError("no wheel")):

        def broken(failure=failure):
            raise failure

        gymnasium.registry.pop("Broken-v0", None)
        gymnasium.register("Broken-v0", entry_point=broken)
        with pytest.raises(UserError, match=f"Broken-v0 needs a package that is not installed .*{failure}"):
            make_gymnasium("Broken-v0")
        gymnasium.registry.pop("Broken-v0")


def test_a_module_can_register_its_own(tmp_path, monkeypatch):
    (tmp_path / "private_module.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Private-v0', entry_point='gymnasium.envs.classic_control.pendulum:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"module 'private_module'.*say --env gym/private_module:Private-v0"):
        make_gymnasium("private_module:Private-v0")
    assert "private_module" not in sys.modules
    assert trust("gym/private_module:Private-v0")
    try:
        assert make_gymnasium("private_module:Private-v0").spec == EnvSpec((3,), 1, DEFAULT_HORIZON)
    finally:
        gymnasium.registry.pop("Private-v0", None)
        sys.modules.pop("private_module", None)


def test_a_real_environment():
    env = make_gymnasium("Pendulum-v1")
    assert env.spec == EnvSpec((3,), 1, 200)
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 1)).astype(np.float32)
    episodes = []
    for seed in (8, 9, 8):
        first = env.reset(seed)
        steps = [env.step(action) for action in actions]
        assert [step.truncated for step in steps] == [False] * 199 + [True]
        episodes.append(first.tobytes() + b"".join(step.obs.tobytes() for step in steps))
    assert episodes[0] == episodes[2] != episodes[1]
    env.close()


def test_closing(make):
    env = make()
    env.reset(0)
    env.close()
    assert env._inner.unwrapped.closed
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))
