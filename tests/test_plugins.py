"""What users bring: registered as objects, or by a module that they name."""

import os
import sys

import pytest

import skillscape
from skillscape import backbones, objectives, plugins
from skillscape.backbones.ddpg import DDPG
from skillscape.cli import main
from skillscape.envs import registry as envs
from skillscape.errors import UserError
from skillscape.plugins import VARIABLE, load_named_plugins, load_plugin, register

MODULE = '''
"""A method that rewards the first coordinate."""

import jax.numpy as jnp
from dataclasses import dataclass

import skillscape


@skillscape.register
@dataclass(frozen=True)
class Rightwards(skillscape.Objective[None]):
    """Rewards the first coordinate of the state."""

    name = "rightwards"
    label = "Rightwards"

    number_of_skills: int = 2

    @classmethod
    def at(cls, scale):
        return cls()

    @property
    def skills(self):
        return skillscape.Discrete(self.number_of_skills)

    def init(self, key, spec):
        return None

    def update(self, state, experience, key):
        return state, {"seen": jnp.mean(experience.obs)}

    def reward(self, state, experience, key):
        return state, experience.next_obs[:, 0], {}
'''


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A current folder with a module, and registries that forget what a test registers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(VARIABLE, "")
    for registry in (objectives.registry, backbones.registry, envs._registry):
        monkeypatch.setattr(registry, "_kinds", registry())
    before = set(sys.modules)
    (tmp_path / "my_methods.py").write_text(MODULE)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("my_methods", "broken", "inner"):
            del sys.modules[name]


def run(line):
    main(line.split())


def refused(capsys, line):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run(line)
    assert stop.value.code == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    return sentence


# Objects


def test_a_class_is_registered_by_what_it_is():
    @register
    class Mine(DDPG):
        """DDPG under another name."""

        name = "mine"

    assert backbones.registry()["mine"] is Mine


@pytest.mark.parametrize("plugin", [DDPG(), int, "sd3", None])
def test_what_is_no_part_of_the_library_is_refused(plugin):
    with pytest.raises(UserError, match="cannot be registered; give a subclass of Objective, Backbone or EnvFamily"):
        register(plugin)


def test_a_name_that_is_taken_is_refused():
    class Mine(DDPG):
        """DDPG under the name of another."""

        name = "sac"

    with pytest.raises(UserError, match=r"The name 'sac' of .*Mine is taken by .*SAC; choose another name"):
        register(Mine)


# Modules


def test_a_plug_in_of_the_current_folder_is_trained_listed_and_opened_again(here, capsys):
    run("methods --plugin my_methods")
    assert capsys.readouterr().out.endswith("\nrightwards    Rewards the first coordinate of the state.\n")
    run("--plugin=my_methods pretrain rightwards --preset smoke --steps 400 --out run --objective.number-of-skills 3")
    found = skillscape.load("run")
    assert found.config.method == "rightwards"
    assert found.config.objective.skills.count == 3
    assert found.metrics()["seen"]
    capsys.readouterr()
    run("evaluate run --plugin my_methods")
    assert capsys.readouterr().out.startswith("rightwards in maze/square_a, 400 steps, 1 seed")


def test_a_run_of_a_plug_in_says_how_to_name_it(here, capsys, monkeypatch):
    monkeypatch.setattr("skillscape.launch.train", lambda *_, **__: None)
    run("pretrain rightwards --preset smoke --out run --plugin my_methods")
    monkeypatch.setattr(
        objectives.registry,
        "_kinds",
        {name: kind for name, kind in objectives.registry().items() if name != "rightwards"},
    )
    del sys.modules["my_methods"]
    for line in ("evaluate run", "plot run", "pretrain diayn --out run --resume"):
        assert "'rightwards', which is not registered; install the package it is from, or name its module with" in (
            refused(capsys, line)
        )
    assert "my_methods" not in sys.modules


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "methods --plugin no_such_module",
            "skillscape: The plug-in no_such_module was not found; install it, or run the command in its folder.",
        ),
        ("methods --plugin no.such.module", "The plug-in no.such.module was not found; install it"),
        ("methods --plugin", "--plugin has no value; name a module, such as --plugin my_methods."),
        ("methods --plugin=", "--plugin has no value; name a module"),
    ],
)
def test_a_plug_in_that_is_missing_is_one_line(capsys, line, answer):
    assert answer in refused(capsys, line)


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("raise ValueError('of\\n old')", "The plug-in broken raised ValueError (of old) on import"),
        ("import sys; sys.exit(0)", "The plug-in broken called exit() on import"),
        ("x = (", "The plug-in broken raised SyntaxError"),
        ("import no_such_package", "The plug-in broken imports a missing package (No module named"),
        ("import skillscape; skillscape.register(int)", "cannot be registered; give a subclass"),
        (MODULE.replace('"rightwards"', '"sd3"'), "The name 'sd3' of broken.Rightwards is taken by"),
    ],
)
def test_a_plug_in_that_is_broken_is_one_line(here, capsys, source, answer):
    (here / "broken.py").write_text(source)
    assert answer in refused(capsys, "methods --plugin broken")


def test_debug_shows_what_python_said(here, capsys):
    (here / "broken.py").write_text("raise ValueError('of old')")
    with pytest.raises(SystemExit):
        run("methods --plugin broken --debug")
    assert capsys.readouterr().err.splitlines()[-1] == "ValueError: of old"


def test_a_file_of_the_current_folder_does_not_stand_in_for_an_installed_package(here):
    (here / "numpy.py").write_text("raise RuntimeError")
    run("methods --plugin my_methods")
    assert sys.path[-1] == str(here)
    assert str(here) not in sys.path[:-1]


# Worker processes


def test_worker_processes_import_what_was_named(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    load_plugin("my_methods")
    load_plugin("json")
    load_plugin("my_methods")
    assert os.environ[VARIABLE] == "my_methods,json"
    named = []
    monkeypatch.setattr(plugins, "load_plugin", named.append)
    load_named_plugins()
    assert named == ["my_methods", "json"]
