"""Environments of Gymnasium that break: one sentence each, and never the end of the process."""

import gymnasium
import numpy as np
import pytest
from gym_toy import Toy

from skillscape.envs.gymnasium_adapter import make_gymnasium
from skillscape.envs.gymnasium_modules import trust
from skillscape.errors import EnvFault, UserError


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
        make_gymnasium(name)


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
        make_gymnasium("broken_module:X-v0")


def test_an_error_of_gymnasium_from_inside_an_environment_does_not_hide_it(make, monkeypatch):
    monkeypatch.setattr(Toy, "__init__", raising(gymnasium.error.InvalidBound("too wide")))
    with pytest.raises(EnvFault, match=r"raised InvalidBound \(too wide\) when it was made"):
        make()
