"""A run folder never brings in code; an environment that the user names on the command line may."""

import json
import os
import sys

import gymnasium
import pytest
from laid_out import configuration

import skillscape
from skillscape.cli import main
from skillscape.envs import gymnasium_modules as modules
from skillscape.errors import UserError
from skillscape.training.run import Run

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
    monkeypatch.setattr("skillscape.envs.families.gymnasium._benchmarks", {})
    (tmp_path / "evilmod.py").write_text(MODULE)
    run = Run.create(tmp_path / "run", configuration("diayn", "gym/Pendulum-v1")).folder
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
        ("finetune", "run"),
        ("train", "--env", "gym/Pendulum-v1", "--out", "run", "--resume"),
        ("pretrain", "diayn", "--env", "gym/Pendulum-v1", "--preset", "smoke", "--out", "run", "--resume"),
        ("pretrain", "diayn", "--preset", "smoke", "--out", "run", "--resume"),
    ],
)
def test_a_run_folder_imports_nothing(here, capsys, monkeypatch, arguments):
    monkeypatch.syspath_prepend(here)  # as `python -m skillscape` does
    answer = refused(capsys, *arguments)
    assert not (here / "imported").exists()
    if arguments[0] not in ("pretrain", "train"):
        assert f"'evilmod', which a run folder alone may not import: say --env {ENV} if you trust it" in answer


@pytest.mark.parametrize("arguments", [("plot", "run"), ("report", "run")])
def test_pictures_and_reports_need_no_environment(here, capsys, monkeypatch, arguments):
    monkeypatch.syspath_prepend(here)
    for log, column in (("metrics", "reward"), ("evaluation", "return")):
        (here / "run" / f"{log}.csv").write_text(f"step,{column}\r\n1000,0.1\r\n2000,0.2\r\n")
    (here / "run" / "results.json").write_text('{"measures": {"return": 0.2}}')
    main(list(arguments))
    assert not (here / "imported").exists()


def test_from_python_neither(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    run = skillscape.load("run")
    for use in (
        lambda: run.spec,
        lambda: run.policy(),
        lambda: skillscape.evaluate("run"),
        lambda: skillscape.finetune("run", out="tuned"),
        lambda: skillscape.finetune(run, out="tuned"),
        lambda: skillscape.pretrain("diayn", "gym/Pendulum-v1", out="run", resume=True),
    ):
        with pytest.raises(UserError, match=r"in Python, import evilmod first|env: gym/evilmod:Evil-v0 in the run"):
            use()
    assert not (here / "imported").exists()


def test_a_user_who_names_it_in_python_allows_it(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    with pytest.raises(UserError, match=r"is not a checkpoint: arrays\.safetensors is missing"):
        skillscape.finetune("run", ENV, out="tuned")
    assert (here / "imported").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "run", "--env", ENV),
        ("video", "run", "--env", ENV),
        ("finetune", "run", "--task", ENV),
        ("finetune", "run", "--env", ENV),
        ("finetune", "--env", ENV, "run"),
        ("train", "--env", ENV, "--steps", "0"),
    ],
)
def test_what_the_user_names_is_imported_from_the_current_folder(here, capsys, arguments):
    answer = refused(capsys, *arguments)  # the snapshot is none
    assert (here / "imported").exists()
    assert "evilmod" not in answer or "has one task" in answer


def test_another_environment_than_the_run_s_is_not_allowed(here, capsys):
    assert "--env is gym/other:X-v0, but" in refused(capsys, "evaluate", "run", "--env", "gym/other:X-v0")


def test_training_finds_a_module_in_the_current_folder(here, capsys):
    answer = refused(capsys, "pretrain", "diayn", "--env", ENV, "--steps", "0")
    assert "--steps must be above zero" in answer
    assert (here / "imported").exists()


@pytest.mark.parametrize("name", ["evilmod", "evilmod:Evil", "../evilmod"])
@pytest.mark.parametrize("part", ["objective", "backbone"])
def test_what_a_run_folder_calls_its_method_or_backbone_is_not_imported(here, capsys, monkeypatch, part, name):
    monkeypatch.syspath_prepend(here)
    config = json.loads((here / "run" / "config.json").read_text())
    config[part]["name"] = name
    (here / "run" / "config.json").write_text(json.dumps(config))
    for arguments in (("evaluate", "run"), ("plot", "run"), ("finetune", "run")):
        assert "which is not registered" in refused(capsys, *arguments)
    assert not (here / "imported").exists()


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
    run, victim = Run.create(here / "maze", configuration()).folder, here / "victim"
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
