"""A run folder never brings in code; an environment that the user names on the command line may."""

import json
import os
import sys

import fake_runs
import gymnasium
import pytest

from skillscape.api import finetune, skill_returns
from skillscape.cli import main
from skillscape.envs import modules
from skillscape.errors import UserError

ENV = "gym/evilmod:Evil-v0"
MODULE = """
import gymnasium, pathlib
pathlib.Path(__file__).with_name("imported").touch()
gymnasium.register("Evil-v0", entry_point="gymnasium.envs.classic_control.pendulum:PendulumEnv", max_episode_steps=20)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with a module and a stranger's run that names it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(modules, "_trusted", set())
    (tmp_path / "evilmod.py").write_text(MODULE)
    run = fake_runs.job_run(tmp_path / "run", "diayn", "gym/Pendulum-v1", phase="pretrain")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "env": ENV}))
    # Enough of a snapshot for the environment to be asked for.
    (run / "snapshots" / f"{2000:012d}").mkdir(parents=True)
    (run / "snapshots" / f"{2000:012d}" / "arrays.json").write_text("{}")
    yield tmp_path
    gymnasium.registry.pop("Evil-v0", None)
    sys.modules.pop("evilmod", None)


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    *before, line = capsys.readouterr().err.splitlines()
    assert line.startswith("skillscape: ")
    return "\n".join([*before, line])


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "run"),
        ("video", "run"),
        ("finetune", "run", "--task", "walker_walk"),
        ("pretrain", "diayn", "--env", "gym/Pendulum-v1", "--preset", "smoke", "--out", "run", "--resume"),
        ("pretrain", "diayn", "--preset", "smoke", "--out", "run", "--resume"),
    ],
)
def test_a_run_folder_imports_nothing(here, capsys, monkeypatch, arguments):
    monkeypatch.syspath_prepend(here)  # as `python -m skillscape` does
    answer = refused(capsys, *arguments)
    assert not (here / "imported").exists()
    if arguments[0] != "pretrain":
        assert f"'evilmod', which a run folder alone may not import: say --env {ENV} if you trust it" in answer


@pytest.mark.parametrize("arguments", [("plot", "run"), ("report", "run")])
def test_pictures_and_reports_need_no_environment(here, capsys, monkeypatch, arguments):
    monkeypatch.syspath_prepend(here)
    fake_runs.write_log(here / "run" / "metrics.csv", ["step", "reward"], [[1000, 0.1], [2000, 0.2]])
    main(list(arguments))
    assert not (here / "imported").exists()


def test_from_python_neither(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    with pytest.raises(UserError, match="in Python, import evilmod first"):
        skill_returns("run")
    with pytest.raises(UserError, match="in Python, import evilmod first"):
        finetune("run", "walker_walk", out="tuned")
    assert not (here / "imported").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "run", "--env", ENV),
        ("video", "run", "--env", ENV),
        ("finetune", "run", "--task", ENV),
        ("finetune", "run", "--task", "walker_walk", "--env", ENV),
    ],
)
def test_what_the_user_names_is_imported_from_the_current_folder(here, capsys, arguments):
    answer = refused(capsys, *arguments)  # the snapshot is none
    assert (here / "imported").exists()
    assert "evilmod" not in answer or "has one task" in answer


def test_another_environment_than_the_run_s_is_not_allowed(here, capsys):
    assert f"was trained on {ENV}, not on gym/other:X-v0" in refused(
        capsys, "evaluate", "run", "--env", "gym/other:X-v0"
    )


def test_training_finds_a_module_in_the_current_folder(here, capsys):
    answer = refused(capsys, "pretrain", "diayn", "--env", ENV, "--steps", "0")
    assert "--steps must be at least 1" in answer
    assert (here / "imported").exists()


def test_a_sweep_names_its_environments(here, capsys):
    (here / "grid.toml").write_text(f'name = "grid"\nmethods = ["diayn"]\nenvs = ["{ENV}"]\npreset = "smoke"\n')
    main(["sweep", "grid.toml", "--dry-run"])
    assert (here / "imported").exists()
    assert ENV in capsys.readouterr().out


def test_debug_shows_what_python_said(here, capsys):
    (here / "evilmod.py").write_text("raise ValueError('of old')")
    arguments = ("pretrain", "diayn", "--env", ENV)
    assert "Traceback" not in refused(capsys, *arguments)
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--debug"])
    assert stop.value.code == 2
    sentence, head, *_, last = capsys.readouterr().err.splitlines()
    assert sentence.startswith("skillscape: evilmod:Evil-v0 raised ValueError (of old) when its module")
    assert head.startswith("Traceback")
    assert last == "ValueError: of old"


# Links in a run folder


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_lock_that_is_something_else_is_neither_followed_nor_waited_for(here, capsys, kind):
    run, victim = fake_runs.maze_run(here / "maze"), here / "victim"
    if kind == "pipe":
        (run / ".lock").unlink(missing_ok=True)
        os.mkfifo(run / ".lock")
    else:
        (run / ".lock").symlink_to(victim)
    if kind == "link":
        victim.write_text("precious")
    answer = refused(capsys, "pretrain", "diayn", "--preset", "smoke", "--out", run, "--force")
    assert "delete it and try again" in answer
    assert victim.exists() == (kind == "link")
    assert kind != "link" or victim.read_text() == "precious"
