"""Environments of Gymnasium that break: one sentence each, and the process goes on."""

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
def test_ctrl_c_inside_an_environment_is_not_its_fault(make, monkeypatch, call):
    env = make()
    env.reset(0)
    monkeypatch.setattr(Toy, call, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        env.reset(0) if call == "reset" else env.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda obs: (obs, None, False, False, {}), "a reward of type NoneType"),
        (lambda obs: (obs, np.zeros(2), False, False, {}), r"a reward of shape \(2,\) and dtype float64"),
        (lambda obs: (obs, np.zeros(1), False, False, {}), r"a reward of shape \(1,\) and dtype float64"),
        (lambda obs: (obs, "much", False, False, {}), "a reward of type str"),
        (
            lambda obs: (obs, 0.0, False, {}),
            r"ValueError .*: return \(observation, reward, terminated, truncated, info\)",
        ),
        (lambda obs: None, "TypeError"),
        (lambda obs: (obs, 0.0, np.zeros(2), False, {}), "ValueError"),
    ],
)
def test_an_invalid_return_of_step_is_refused(make, monkeypatch, returned, words, limit):
    env = make(limit=limit)
    env.reset(0)
    monkeypatch.setattr(Toy, "step", lambda self, _: returned(self.observation()))
    with pytest.raises(EnvFault, match=f"OwnToy-v0 .*{words}"):
        env.step(np.zeros(2, np.float32))


def test_the_reset_of_the_old_api_is_refused(make, monkeypatch):
    env = make(limit=7)
    with monkeypatch.context() as patch:
        patch.setattr(Toy, "reset", lambda _, seed=None, options=None: np.zeros(2))
        with pytest.raises(EnvFault, match=r"shape \(2,\) .* from reset\(\), not \(observation, info\)"):
            env.reset(0)
    monkeypatch.setattr(Toy, "reset", lambda _: (np.zeros(2), {}))
    with pytest.raises(EnvFault, match=r"in reset\(\) .*: let its reset\(\) take the argument seed"):
        env.reset(0)


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_a_missing_space_is_refused(make, space):
    def without(env):
        delattr(env, space)
        return env

    with pytest.raises(EnvFault, match=f"OwnToy-v0 raised AttributeError .*{space}.* when it was asked for its spaces"):
        make(wrap=without)


def test_an_environment_that_cannot_be_closed_is_a_warning(make, monkeypatch):
    env = make()
    monkeypatch.setattr(Toy, "close", raising(SystemExit(1)))
    with pytest.warns(RuntimeWarning, match=r"OwnToy-v0 called exit\(\) in close\(\)"):
        env.close()


@pytest.mark.parametrize(
    "name", ["", ":", ".os:X-v0", "a:b:c", "a..b:X-v0", "os:", ":X-v0", "o\0s:X-v0", "Pendu\0lum-v1"]
)
def test_invalid_ids_are_refused_with_one_sentence(name):
    with pytest.raises(UserError, match="is not a valid environment ID: write gym/ID or gym/module:ID"):
        make_gymnasium(name)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('boom')", r"raised RuntimeError \(boom\) when its module broken_module was imported"),
        ("exit()", r"called exit\(\) when its module"),
        ("def", "raised SyntaxError"),
        ("import no_such_package", "needs a package that is not installed .*no_such_package"),
        ("import imageio_of_old", "needs a package that is not installed"),
        ("raise ModuleNotFoundError('No module named \\'imageio\\'')", r'run `pip install "skillscape\[gym\]"`'),
    ],
)
def test_a_module_that_breaks_is_one_sentence(tmp_path, monkeypatch, source, words):
    (tmp_path / "broken_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    trust("gym/broken_module:X-v0")
    with pytest.raises(UserError, match=words):
        make_gymnasium("broken_module:X-v0")


def test_an_error_of_gymnasium_from_inside_an_environment_does_not_hide_it(make, monkeypatch):
    monkeypatch.setattr(Toy, "__init__", raising(gymnasium.error.InvalidBound("too wide")))
    with pytest.raises(EnvFault, match=r"raised InvalidBound \(too wide\) when it was made"):
        make()
