"""Environments of Gymnasium under the interface of this library, and the mistakes one can make in naming them."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

from skillscape.envs.modules import trust
from skillscape.envs.own import DEFAULT_HORIZON, make_own
from skillscape.errors import EnvFault, UserError

LOW, HIGH = np.array([-2.0, 0.1], np.float32), np.array([2.0, 0.7], np.float32)


class Toy(gymnasium.Env):
    """Counts its steps, remembers the actions it was given, and ends after ``end`` steps."""

    def __init__(self, observation_space=None, action_space=None, end=None, observe=None):
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or spaces.Box(LOW, HIGH)
        self.end, self.observe, self.actions, self.closed = end, observe, [], False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.actions = []
        self.start = self.np_random.normal()
        return self.look(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.actions.append(action)
        return self.look(), np.float32(0.5), np.bool_(len(self.actions) == self.end), False, {}

    def look(self):
        state = np.array([self.start, len(self.actions)])
        return self.observe(state) if self.observe else state

    def close(self):
        self.closed = True


DICT = spaces.Dict(
    {"b": spaces.Box(-1, 1, (2, 2)), "a": spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 255, (1,), np.uint8)))}
)


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr("gymnasium.envs.registration.registry", {**gymnasium.registry})
    monkeypatch.setattr("gymnasium.registry", gymnasium.envs.registration.registry)

    def registered(limit=None, wrap=lambda env: env, **arguments):
        gymnasium.register("OwnToy-v0", lambda **given: wrap(Toy(**given)), max_episode_steps=limit, kwargs=arguments)
        return make_own("OwnToy-v0")

    return registered


def test_sizes_and_types(make):
    env = make(limit=7)
    assert env.spec == ((2,), 2, 7)
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


def test_an_end_at_the_default_limit_is_an_end(make):
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


def test_nested_observations_are_flattened_in_the_order_of_gymnasium(make):
    def observe(state):
        return {"b": np.full((2, 2), 0.25, np.float32), "a": (np.int64(1), np.array([state[1]], np.uint8))}

    env = make(observation_space=DICT, observe=observe)
    assert env.spec.obs_shape == (8,)
    np.testing.assert_array_equal(env.reset(0), [0, 1, 0, 0, *[0.25] * 4])
    step = env.step(np.zeros(2, np.float32))
    np.testing.assert_array_equal(step.obs, [0, 1, 0, 1, *[0.25] * 4])
    assert step.obs.dtype == np.float32


def box(*shape, dtype=np.uint8):
    return spaces.Box(0, 255, shape, dtype)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_image_stays_one(make, channels):
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, channels), np.uint8)
    env = make(observation_space=box(64, 64, channels), observe=lambda _: picture)
    assert env.spec.obs_shape == (64, 64, channels)
    assert env.spec.is_image
    obs = env.reset(0)
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs, picture)
    np.testing.assert_array_equal(env.step(np.zeros(2, np.float32)).obs, picture)
    picture += 1
    assert (obs != picture).all()  # the caller's to keep


@pytest.mark.parametrize("size", [(128, 192), (96, 96), (40, 500)])
def test_images_of_other_sizes_are_scaled(make, size):
    picture = np.zeros((*size, 3), np.uint8)
    picture[:, size[1] // 2 :] = (200, 100, 50)
    env = make(observation_space=box(*size, 3), observe=lambda _: picture)
    obs = env.reset(0)
    assert obs.shape == env.spec.obs_shape == (64, 64, 3)
    assert not obs[:, :32].any()
    assert (obs[:, 32:] == (200, 100, 50)).all()


@pytest.mark.parametrize(
    "space",
    [
        *(box(3, 8, 8), box(8, 8, 2), box(8, 8), box(128), box(4, 128), box(15, 40)),
        *(box(8, 8, 3, dtype=np.float32), box(8, 8, 3, dtype=np.int64), box(64, 64, dtype=np.float32)),
    ],
)
def test_whatever_is_no_image_is_flattened(make, space):
    env = make(observation_space=space, observe=lambda _: space.sample())
    obs = env.reset(0)
    assert (obs.dtype, obs.shape) == (np.float32, (int(np.prod(space.shape)),))
    assert not env.spec.is_image


@pytest.mark.parametrize(
    ("shape", "remedy"),
    [
        ((3, 64, 64), "put the channels last"),
        ((4, 84, 84), "put the channels last"),
        ((64, 64), r"ReshapeObservation\(env, \(64, 64, 1\)\)"),
        ((16, 16), "add that axis"),
        ((84, 84, 9), "one frame in grey or colour"),
        ((64, 64, 2), "one frame in grey or colour"),
        ((4, 84, 84, 3), "one frame in grey or colour"),
    ],
)
def test_an_image_that_is_not_height_by_width_by_channel_is_refused(make, shape, remedy):
    with pytest.raises(UserError, match=f"without 1, 3 or 4 channels in their last axis: .*{remedy}.*Flatten"):
        make(observation_space=box(*shape))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_an_image_that_is_not_of_bytes_is_refused(make, dtype):
    with pytest.raises(UserError, match=r"look like images that are not of bytes: scale them to uint8.*Flatten"):
        make(observation_space=box(64, 64, 3, dtype=dtype))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"eye": box(64, 64, 3), "joints": spaces.Box(-1, 1, (4,))}),
        spaces.Tuple((spaces.Discrete(2), spaces.Dict({"eyes": box(64, 64)}))),
        spaces.Dict({"eye": box(20, 30, 4, dtype=np.float32)}),
    ],
)
def test_an_image_among_other_things_is_refused(make, space):
    with pytest.raises(UserError, match=r"a picture in one of their parts .*: hand out that part alone.*Flatten"):
        make(observation_space=space)


def test_the_part_of_a_refused_observation_that_is_an_image_can_be_handed_out(make):
    space = spaces.Dict({"eye": box(64, 64, 3), "joints": spaces.Box(-1, 1, (4,))})
    env = make(
        wrap=lambda env: wrappers.TransformObservation(env, lambda one: one["eye"], space["eye"]),
        observation_space=space,
        observe=lambda _: space.sample(),
    )
    assert env.reset(0).shape == env.spec.obs_shape == (64, 64, 3)


def test_small_grids_among_other_things_are_flattened(make):
    space = spaces.Dict({"grid": box(7, 7, 3), "facing": spaces.Discrete(4)})
    assert make(observation_space=space, observe=lambda _: space.sample()).reset(0).shape == (151,)


@pytest.mark.parametrize(
    ("shape", "wrap", "seen"),
    [
        ((64, 64), lambda env: wrappers.ReshapeObservation(env, (64, 64, 1)), (64, 64, 1)),
        (
            (3, 64, 64),
            lambda env: wrappers.TransformObservation(env, lambda one: one.transpose(1, 2, 0), box(64, 64, 3)),
            (64, 64, 3),
        ),
        (
            (84, 84, 9),
            lambda env: wrappers.TransformObservation(env, lambda one: one[..., -3:], box(84, 84, 3)),
            (64, 64, 3),
        ),
        ((20, 30), wrappers.FlattenObservation, (600,)),
    ],
)
def test_what_a_refused_image_is_told_to_do_helps(make, shape, wrap, seen):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    env = make(wrap=wrap, observation_space=box(*shape), observe=lambda _: picture)
    assert env.reset(0).shape == env.spec.obs_shape == seen


@pytest.mark.parametrize("wrong", [np.zeros((64, 64, 4), np.uint8), np.zeros((64, 64, 3), np.float32)])
def test_an_image_that_is_not_in_its_space_is_told(make, wrong):
    env = make(observation_space=box(64, 64, 3), observe=lambda _: wrong)
    with pytest.raises(UserError, match=r"an observation of shape \(64, 64, .\) and type .*correct the one"):
        env.reset(0)


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


def test_an_observation_that_is_not_in_its_space_is_told(make):
    with pytest.raises(UserError, match=r"OwnToy-v0 returned an observation of shape \(3,\).*correct"):
        make(observe=lambda _: np.zeros(3)).reset(0)
    gymnasium.registry.pop("OwnToy-v0")
    with pytest.raises(UserError, match="an observation of type dict"):
        make(observe=lambda _: {"x": 1}).reset(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action_space": spaces.Discrete(4)}, "Discrete.*continuous actions"),
        ({"action_space": spaces.Box(0, 5, (1,), np.int32)}, "Box of real numbers"),
        ({"action_space": spaces.Box(-np.inf, np.inf, (1,))}, "actions without bounds"),
        ({"observation_space": spaces.Sequence(spaces.Box(-1, 1))}, "do not flatten"),
    ],
)
def test_spaces_that_cannot_be_used_are_told(make, arguments, message):
    with pytest.raises(UserError, match=message):
        make(**arguments)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match=r"did you mean.*Pendulum-v1"):
        make_own("pendulum-v1")
    with pytest.raises(UserError, match=r"did you mean.*Pendulum-v1"):
        make_own("Pendulum-v7")
    with pytest.raises(UserError, match="Gymnasium has no environment 'Qqqq/Xyzzy-v3'"):
        make_own("Qqqq/Xyzzy-v3")
    with pytest.raises(UserError, match="module:ID"):
        make_own("no such thing!")


def test_missing_packages_are_told(make, monkeypatch):
    trust("gym/no_such_module:OwnToy-v0")
    with pytest.raises(UserError, match=r"module no_such_module of .* PYTHONPATH"):
        make_own("no_such_module:OwnToy-v0")
    for failure in (gymnasium.error.DependencyNotInstalled("box2d is missing"), ImportError("no wheel")):

        def broken(failure=failure):
            raise failure

        gymnasium.registry.pop("Broken-v0", None)
        gymnasium.register("Broken-v0", entry_point=broken)
        with pytest.raises(UserError, match=f"Broken-v0 needs a package that is not there .*{failure}"):
            make_own("Broken-v0")
        gymnasium.registry.pop("Broken-v0")


def test_a_module_can_register_its_own(tmp_path, monkeypatch):
    (tmp_path / "private_module.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Private-v0', entry_point='gymnasium.envs.classic_control.pendulum:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"module 'private_module'.*say --env gym/private_module:Private-v0"):
        make_own("private_module:Private-v0")
    assert "private_module" not in sys.modules
    assert trust("gym/private_module:Private-v0")
    try:
        assert make_own("private_module:Private-v0").spec == ((3,), 1, DEFAULT_HORIZON)
    finally:
        gymnasium.registry.pop("Private-v0", None)
        sys.modules.pop("private_module", None)


def test_a_real_environment():
    env = make_own("Pendulum-v1")
    assert env.spec == ((3,), 1, 200)
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


# Environments that break: one sentence each, and never the end of the process


def raising(error):
    def broken(*_, **__):
        raise error

    return broken


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("two\nlines"), r"raised RuntimeError \(two lines\)"),
        (OSError(5, "Input/output error"), r"raised OSError \(\[Errno 5\] Input/output error\)"),
        (AssertionError(), "raised AssertionError"),
        (SystemExit(0), r"called exit\(\)"),
    ],
)
def test_whatever_an_environment_raises_is_one_sentence(make, monkeypatch, error, words):
    env = make(limit=7)
    with monkeypatch.context() as patch:
        patch.setattr(Toy, "reset", raising(error))
        with pytest.raises(EnvFault, match=rf"^OwnToy-v0 {words} in reset\(\) with seed 3: correct the environment\.$"):
            env.reset(3)
    env.reset(3)
    env.step(np.zeros(2, np.float32))
    monkeypatch.setattr(Toy, "step", raising(error))
    with pytest.raises(EnvFault, match=rf"^OwnToy-v0 {words} in step\(\) at step 2 after reset\(seed=3\): ") as caught:
        env.step(np.zeros(2, np.float32))
    assert caught.value.__cause__ is error
    gymnasium.registry.pop("OwnToy-v0")
    monkeypatch.setattr(Toy, "__init__", raising(error))
    with pytest.raises(EnvFault, match=rf"^OwnToy-v0 {words}.* when it was made: "):
        make()


@pytest.mark.parametrize("call", ["reset", "step"])
def test_ctrl_c_inside_an_environment_is_no_fault_of_its(make, monkeypatch, call):
    env = make()
    env.reset(0)
    monkeypatch.setattr(Toy, call, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        env.reset(0) if call == "reset" else env.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda obs: (obs, None, False, False, {}), "something of type NoneType as the reward"),
        (lambda obs: (obs, np.zeros(2), False, False, {}), r"something of shape \(2,\) and type float64 as the reward"),
        (lambda obs: (obs, np.zeros(1), False, False, {}), r"something of shape \(1,\) and type float64 as the reward"),
        (lambda obs: (obs, "much", False, False, {}), "something of type str as the reward"),
        (
            lambda obs: (obs, 0.0, False, {}),
            r"ValueError .*: return \(observation, reward, terminated, truncated, info\)",
        ),
        (lambda obs: None, "TypeError"),
        (lambda obs: (obs, 0.0, np.zeros(2), False, {}), "ValueError"),
    ],
)
def test_what_a_step_must_not_return_is_told(make, monkeypatch, returned, words, limit):
    env = make(limit=limit)
    env.reset(0)
    monkeypatch.setattr(Toy, "step", lambda self, _: returned(self.look()))
    with pytest.raises(EnvFault, match=f"OwnToy-v0 .*{words}"):
        env.step(np.zeros(2, np.float32))


def test_the_old_reset_is_told(make, monkeypatch):
    env = make(limit=7)
    with monkeypatch.context() as patch:
        patch.setattr(Toy, "reset", lambda _, seed=None, options=None: np.zeros(2))
        with pytest.raises(EnvFault, match=r"shape \(2,\) .* from reset\(\), not the pair \(observation, info\)"):
            env.reset(0)
    monkeypatch.setattr(Toy, "reset", lambda _: (np.zeros(2), {}))
    with pytest.raises(EnvFault, match=r"in reset\(\) .*: let its reset\(\) take the argument seed"):
        env.reset(0)


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_a_missing_space_is_told(make, space):
    def without(env):
        delattr(env, space)
        return env

    with pytest.raises(EnvFault, match=f"OwnToy-v0 raised AttributeError .*{space}.* when it was asked for its spaces"):
        make(wrap=without)


def test_an_environment_that_cannot_be_closed_ends_nothing(make, monkeypatch):
    env = make()
    monkeypatch.setattr(Toy, "close", raising(SystemExit(1)))
    with pytest.warns(RuntimeWarning, match=r"OwnToy-v0 called exit\(\) in close\(\)"):
        env.close()


@pytest.mark.parametrize(
    "name", ["", ":", ".os:X-v0", "a:b:c", "a..b:X-v0", "os:", ":X-v0", "o\0s:X-v0", "Pendu\0lum-v1"]
)
def test_names_that_are_none_are_one_sentence(name):
    with pytest.raises(UserError, match="is not the name of an environment: write gym/ID or gym/module:ID"):
        make_own(name)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('boom')", r"raised RuntimeError \(boom\) when its module broken_module was imported"),
        ("exit()", r"called exit\(\) when its module"),
        ("def", "raised SyntaxError"),
        ("import no_such_package", "needs a package that is not there .*no_such_package"),
        ("import imageio_of_old", "needs a package that is not there"),
        ("raise ModuleNotFoundError('No module named \\'imageio\\'')", r'run `pip install "skillscape\[gym\]"`'),
    ],
)
def test_a_module_that_breaks_is_told(tmp_path, monkeypatch, source, words):
    (tmp_path / "broken_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    trust("gym/broken_module:X-v0")
    with pytest.raises(UserError, match=words):
        make_own("broken_module:X-v0")


def test_an_error_of_gymnasium_from_inside_an_environment_does_not_hide_it(make, monkeypatch):
    monkeypatch.setattr(Toy, "__init__", raising(gymnasium.error.InvalidBound("too wide")))
    with pytest.raises(EnvFault, match=r"raised InvalidBound \(too wide\) when it was made"):
        make()
