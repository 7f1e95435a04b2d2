"""Environments by ID: which family owns an ID, what it makes, and what is refused."""

from importlib.metadata import EntryPoint
from typing import final

import numpy as np
import pytest

from skillscape.envs import registry
from skillscape.envs.base import EnvFamily, HostEnv, JaxEnv
from skillscape.envs.families.mazes import Mazes
from skillscape.envs.noise import NoisyEnv
from skillscape.envs.registry import families, family_of, host_env, make_env, register_family
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import Notice, UserError
from skillscape.registry import Registry
from skillscape.types import EnvSpec


@pytest.mark.parametrize(
    ("env", "family"),
    [
        ("maze/square_a", "maze"),
        ("maze/own.txt", "maze"),
        ("maze-pixels/square_a", "maze-pixels"),
        ("walker", "urlb"),
        ("jaco", "urlb"),
        ("walker-pixels", "urlb-pixels"),
        ("quadruped-pixels/reference", "urlb-pixels"),
        ("gym/Pendulum-v1", "gym"),
        ("gym/module:ID", "gym"),
    ],
)
def test_each_id_has_one_owner(env, family):
    assert family_of(env).name == family
    assert [owner.name for owner in families().values() if owner.owns(env)] == [family]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_domain_without_a_task_is_its_primal_one(domain):
    pytest.importorskip("dm_control")
    still = np.zeros(domain.action_size, np.float32)
    rewards = {}
    for task in (None, domain.primal_task, domain.tasks[-1]):
        env = make_env(domain.name, task)
        assert env.spec == EnvSpec((domain.obs_size,), domain.action_size, domain.horizon)
        env.reset(3)
        rewards[task] = env.step(still).reward
    assert rewards[None] == rewards[domain.primal_task] != rewards[domain.tasks[-1]]


def test_mazes_are_compiled_or_on_the_host():
    assert isinstance(make_env("maze/square_a"), JaxEnv)
    assert isinstance(host_env("maze/square_a"), HostEnv)
    assert host_env("maze/square_a").spec == make_env("maze/square_a").spec


# Noise


def test_noise_is_added_only_if_asked_for():
    plain, noisy = make_env("gym/Pendulum-v1"), make_env("gym/Pendulum-v1", noise=0.5)
    assert not isinstance(plain, NoisyEnv)
    assert (plain.reset(1) != noisy.reset(1)).all()


@pytest.mark.parametrize("noise", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [make_env, host_env])
def test_noise_that_is_no_standard_deviation_is_refused(make, noise):
    with pytest.raises(UserError, match=r"--env\.noise is a standard deviation"):
        make("maze/square_a", noise=noise)


def test_noise_in_a_maze_is_for_the_host():
    with pytest.raises(UserError, match=r"--env\.noise is for .*, not for maze/square_a: leave it out"):
        make_env("maze/square_a", noise=0.1)
    noisy, plain = host_env("maze/square_a", noise=0.1), host_env("maze/square_a")
    assert (noisy.reset(1) != plain.reset(1)).all()
    assert make_env("maze-pixels/square_a", noise=0.1).reset(0).dtype == np.uint8


# Mistakes


@pytest.mark.parametrize(
    ("env", "task", "message"),
    [
        ("walker", "quadruped_walk", "quadruped_walk is not a task of walker: those are walker_stand, walker_walk"),
        ("walker", "gym/Pendulum-v1", "gym/Pendulum-v1 is not a task of walker"),
        ("walker", "walker_wlak", "did you mean 'walker_walk'"),
        ("walker", "reach", "no task 'reach'"),
        ("gym/Pendulum-v1", "walker_walk", "gym/Pendulum-v1 has one task"),
        ("wakler", None, "did you mean 'walker'.*`skillscape envs`"),
        ("zebra", None, "known are .*maze/square_a, .*walker, quadruped, jaco, walker-pixels, .*`skillscape envs`"),
        ("walker_walk", None, "give walker as the environment and walker_walk as its task"),
        ("Pendulum-v1", None, "did you mean 'gym/Pendulum-v1'"),
        ("gym/Pendulum-v9", None, "Pendulum-v1"),
        ("walker-pixel", None, "did you mean 'walker-pixels'"),
        ("walker-pixels/refrence", None, "did you mean 'walker-pixels'"),
        ("walker/reference", None, "did you mean 'walker'"),
        ("walker-pixels", "quadruped_walk", "not a task of walker-pixels: those are walker_stand, walker_walk"),
        ("square_a", None, "'square_a': write maze/square_a;"),
        ("mine/own.txt", None, r"write maze/mine/own.txt;"),
        ("maze", None, r"write maze/NAME or maze/PATH\.txt; `skillscape envs` lists them"),
        ("maze:square_a", None, r"write maze/NAME or maze/PATH\.txt"),
        ("squar_a", None, "did you mean 'maze/square_a'"),
        ("maze/sqare_a", None, "did you mean 'square_a'"),
        ("maze/nowhere.txt", None, "no maze file nowhere.txt"),
        ("maze/square_a", "walker_walk", "'walker_walk' is not a task of the maze square_a"),
        ("maze/square_a", "reach:0,1", "no free cell in row 0, column 1"),
        ("maze-pixels/square_q", None, "did you mean 'square_"),
        ("maze-pixels/square_a", "walker_walk", "'walker_walk' is not a task of the maze square_a"),
        ("maze-pixels", None, "did you mean 'maze-pixels/NAME'"),
        ("maze-pixels/nowhere.txt", None, "no maze file nowhere.txt"),
        ("", None, "There is no environment ''"),
    ],
)
@pytest.mark.parametrize("make", [make_env, host_env])
def test_mistakes_are_one_sentence(make, env, task, message):
    with pytest.raises(UserError, match=message) as caught:
        make(env, task)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("env", ["maze/square_a", "maze-pixels/square_a", "walker", "walker-pixels"])
def test_unsupported_arguments_are_refused(env):
    with pytest.raises(UserError, match=f"{env} takes no keyword arguments: leave gravity, mass out"):
        make_env(env, kwargs={"gravity": 3, "mass": 1})


# Plug-ins


@final
class Elsewhere(EnvFamily):
    """The mazes under another name."""

    name = "elsewhere"

    def owns(self, env_id):
        return env_id.startswith("elsewhere/")

    def describe(self):
        return [("elsewhere/NAME", "A maze elsewhere.")]

    def make(self, env_id, task=None, **settings):
        return Mazes().make(env_id, task, **settings)

    def tasks(self, env_id):
        return Mazes().tasks(env_id)

    def task(self, env_id, task, **settings):
        return Mazes().task(env_id, task, **settings)

    def benchmark(self, env_id, **settings):
        return "maze"


@pytest.fixture
def fresh(monkeypatch):
    """A registry of this test alone."""
    fresh = Registry("skillscape.envs.families", EnvFamily, "skillscape.env_families")
    monkeypatch.setattr(registry, "_registry", fresh)


@pytest.mark.usefixtures("fresh")
def test_a_family_that_is_registered():
    with pytest.raises(UserError, match="no environment 'elsewhere/square_a'"):
        make_env("elsewhere/square_a")
    assert register_family(Elsewhere) is Elsewhere
    assert make_env("elsewhere/square_a", "reach") == make_env("maze/square_a", "reach")
    with pytest.raises(UserError, match="did you mean 'elsewhere/NAME'"):
        make_env("elsewher")
    with pytest.raises(UserError, match="does not define benchmark"):
        register_family(type("Half", (EnvFamily,), {"name": "half"}))


def test_optional_abilities_have_defaults():
    family, env = Elsewhere(), "elsewhere/square_a"
    assert (family.hint("square_a"), family.definition(env), family.layout(env)) == (None, None, None)
    assert family.folder_name(env) == "elsewhere-square_a"
    with pytest.raises(UserError, match="elsewhere/square_a cannot be rendered"):
        family.rendered(env)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("value", "there"), [("Elsewhere", True), ("Nobody", False)])
def test_a_family_of_an_installed_package(monkeypatch, value, there):
    point = EntryPoint("elsewhere", f"{__name__}:{value}", "skillscape.env_families")
    monkeypatch.setattr("skillscape.registry.entry_points", lambda group: [point])
    if there:
        assert isinstance(make_env("elsewhere/square_a"), JaxEnv)
        return
    with pytest.warns(Notice, match="plug-in 'elsewhere' .* is skipped"):
        make_env("maze/square_a")
