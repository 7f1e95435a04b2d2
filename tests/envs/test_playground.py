"""Environments of MuJoCo Playground: the adapter and its loader, on a made-up body that needs no extra."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bodies import BREAKS, EDGE, Point, registry  # noqa: F401  (a fixture)

from skillscape import cli
from skillscape.envs import playground
from skillscape.envs.playground import PlaygroundEnv
from skillscape.envs.registry import family_of, host_env, make_env
from skillscape.errors import UserError
from skillscape.types import EnvSpec

KEY = jax.random.key(3)
PUSH = jnp.ones(1)


def moved(env, pushes):
    """The states and timesteps of one episode in a compiled loop."""

    def step(state, push):
        after, timestep = env.step(state, push[None], KEY)
        return after, (after, timestep)

    return jax.jit(lambda: jax.lax.scan(step, env.reset(KEY), jnp.asarray(pushes, jnp.float32))[1])()


def test_the_spec_is_read_from_a_state_that_is_never_computed():
    assert PlaygroundEnv(Point(), 30).spec == EnvSpec((2,), 1, 30)
    assert PlaygroundEnv(Point("dictionary"), 30).spec == EnvSpec((2,), 1, 30)


def test_equal_environments_compile_once():
    inner = Point()
    assert PlaygroundEnv(inner, 30) == PlaygroundEnv(inner, 30)
    assert hash(PlaygroundEnv(inner, 30)) == hash(PlaygroundEnv(inner, 30))
    assert PlaygroundEnv(inner, 30) != PlaygroundEnv(Point(), 30)


@pytest.mark.parametrize("kind", ["array", "dictionary"])
def test_a_compiled_loop_steps_the_body(kind):
    states, timesteps = moved(PlaygroundEnv(Point(kind), 30), np.ones(12))
    speed = 0.1 * np.arange(1, 13)
    np.testing.assert_allclose(timesteps.obs[:, 1], speed, rtol=1e-5)
    np.testing.assert_allclose(np.diff(timesteps.obs[:, 0]), 0.1 * speed[1:], rtol=1e-3)
    np.testing.assert_array_equal(timesteps.reward, timesteps.obs[:, 0])
    np.testing.assert_allclose(states.metrics["far"], np.abs(timesteps.obs[:, 0]), rtol=1e-6)
    assert not timesteps.terminated.any()


def test_the_task_ends_where_the_body_says_so():
    _, timesteps = moved(PlaygroundEnv(Point(), 99), np.ones(40))
    np.testing.assert_array_equal(timesteps.terminated, np.abs(timesteps.obs[:, 0]) > EDGE)
    assert 0 < timesteps.terminated.sum() < 40


def test_actions_are_clipped():
    env = PlaygroundEnv(Point(), 30)
    start = env.reset(KEY)
    for action, same in ((7.0, 1.0), (-7.0, -1.0)):
        outcomes = [env.step(start, jnp.full(1, each), KEY)[1].obs for each in (action, same)]
        np.testing.assert_array_equal(*outcomes)


def test_a_step_leaves_the_state_before_as_it_was():
    env = PlaygroundEnv(Point(), 30)
    start = env.reset(KEY)
    env.step(start, PUSH, KEY)
    assert start.metrics["far"] == 0


@pytest.mark.parametrize("kind", ["array", "dictionary"])
def test_a_body_that_is_nowhere_ends_its_episode_where_it_was(kind):
    env = PlaygroundEnv(Point(kind, breaks=True), 99)
    states, timesteps = moved(env, np.ones(40))
    broken = int(np.argmax(timesteps.terminated))
    assert 0 < broken < 39
    assert not timesteps.terminated[:broken].any()
    assert (np.abs(timesteps.obs[:broken, 0]) <= BREAKS).all()
    np.testing.assert_array_equal(timesteps.obs[broken], timesteps.obs[broken - 1])
    assert timesteps.reward[broken] == 0
    # What is observed of the state is what was told.
    np.testing.assert_array_equal(jax.vmap(env.observe)(states)[broken], timesteps.obs[broken])


def test_the_position_is_where_the_root_is():
    state = PlaygroundEnv(Point(), 30).reset(KEY)
    assert PlaygroundEnv(Point(), 30).position(state) is None
    np.testing.assert_array_equal(PlaygroundEnv(Point(), 30, (0,)).position(state), state.data.qpos[:1])


# Loading


def test_an_environment_is_loaded_once_and_simulated_in_jax(registry):  # noqa: F811
    env = make_env("playground/PointPush")
    assert make_env("playground/PointPush") is env
    assert registry.loaded == [("PointPush", {"impl": "jax"})]
    assert (env.spec.horizon, env.coordinates) == (20, (0,))
    longer = make_env("playground/PointPush", kwargs={"episode_length": 30, "impl": "warp", "scales.speed": 2.0})
    assert longer.spec.horizon == 30
    assert registry.loaded[1][1] == {"episode_length": 30, "impl": "warp", "scales.speed": 2.0}


def test_a_host_steps_it_too(registry):  # noqa: F811
    env = host_env("playground/PointPush", "playground/PointPush")
    obs = env.reset(5)
    assert (obs.shape, obs.dtype) == ((2,), np.float32)
    steps = [env.step(np.full(1, 0.5, np.float32)) for _ in range(20)]
    assert [step.truncated for step in steps] == 19 * [False] + [True]
    assert env.position.shape == (1,)


@pytest.mark.parametrize(
    ("env", "kwargs", "answer"),
    [
        ("PointPus", {}, "MuJoCo Playground has no environment 'PointPus': did you mean playground/PointPush?"),
        ("Zebra", {}, r"`mujoco_playground\.registry\.ALL_ENVS` lists its names\."),
        ("PointPush", {"nix": 1}, "has no setting 'nix'; its settings are episode_length, ctrl_dt, impl, scales"),
        (
            "PointPush",
            {"ctrl_dt": 0},
            r"cannot be made \(ValueError: no time passes\): correct or leave out --env.kwargs ctrl_dt",
        ),
        ("PointPicture", {}, r"observes an array of shape \(4, 4, 3\), not a vector"),
    ],
)
def test_a_mistake_is_one_sentence(registry, env, kwargs, answer):  # noqa: F811
    with pytest.raises(UserError, match=answer):
        make_env(f"playground/{env}", kwargs=kwargs)


def test_models_that_cannot_be_downloaded_are_named(registry, monkeypatch):  # noqa: F811
    def load(name, config_overrides):
        raise playground.subprocess.CalledProcessError(128, ["git", "clone"])

    monkeypatch.setattr(registry, "load", load)
    with pytest.raises(UserError, match="needs the models of MuJoCo Menagerie"):
        make_env("playground/PointPush")


def test_without_the_extra_the_command_to_install_it_is_the_answer(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mujoco_playground", None)
    playground._loaded.cache_clear()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["pretrain", "sd3", "--env", "playground/CartpoleBalance", "--preset", "smoke"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'playground/CartpoleBalance needs mujoco_playground, which is not installed: run `pip install "skill' in said
    assert not list(tmp_path.iterdir())


def test_its_own_reward_is_its_only_task():
    family = family_of("playground/PointPush")
    assert family.task("playground/PointPush", None) == "playground/PointPush"
    with pytest.raises(UserError, match="has one task, itself, and walker_run is another"):
        family.task("playground/PointPush", "walker_run")
