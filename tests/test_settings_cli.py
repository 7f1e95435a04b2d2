"""What a run is trained with, from the command line: numbers, presets, budgets, folders. Nothing is trained here."""

import json

import pytest

from skillscape.cli import main
from skillscape.cli.numbers import whole_number

ENV = "gym/toys:Long-v0"


@pytest.fixture(autouse=True)
def _untrained(monkeypatch, tmp_path):
    """Lays out runs, which then count as pre-trained, and builds no network."""
    for name in ("train_all", "train_job", "_write_results", "_write_job_results", "_first_state"):
        monkeypatch.setattr(f"skillscape.api.{name}", lambda *_arguments, **_options: None)
    monkeypatch.setattr(
        "skillscape.training.jobs.JobRun.snapshot", lambda run, step=None: (step or run.config.steps, None, None)
    )
    monkeypatch.chdir(tmp_path)


def run(line):
    main(line.split())


def refused(capsys, line):
    """The one line of a command that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run(line)
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return " ".join(printed.split())


def config(tmp_path, name):
    return json.loads((tmp_path / "runs" / name / "config.json").read_text())


@pytest.mark.parametrize(
    ("text", "number"),
    [("20000", 20_000), ("2e4", 20_000), ("250_000", 250_000), ("250,000", 250_000), ("2.5E5", 250_000), ("-5", -5)],
)
def test_numbers_are_read_as_people_write_them(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["many", "1.5", "nan", "inf", "1e400", "", "1e30"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is no whole number"):
        whole_number(text)


@pytest.mark.parametrize("text", ["2e4", "20_000", "20000"])
def test_steps_are_read_as_people_write_them(tmp_path, text):
    run(f"pretrain diayn --steps {text}")
    assert config(tmp_path, "diayn-square_a")["steps"] == 20_000


def test_half_a_step_is_refused(capsys):
    assert "'2.5' is no whole number" in refused(capsys, "pretrain diayn --steps 2.5")


@pytest.mark.parametrize("env", ["maze/square_a", ENV])
def test_a_run_that_goes_on_keeps_its_budget_and_its_settings(tmp_path, env):
    first = f"pretrain diayn --env {env} --out runs/x --preset smoke --steps 1600 --objective.number-of-skills 5"
    run(first)
    before = config(tmp_path, "x")
    run(f"pretrain diayn --env {env} --out runs/x --resume")
    assert config(tmp_path, "x") == before
    run(f"pretrain diayn --env {env} --out runs/x --resume --objective.number-of-skills 5 --steps 1600")
    assert config(tmp_path, "x") == before


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (f"--env {ENV} --steps 1700", "steps: 1,600 in the run, 1,700 asked for"),
        (f"--env {ENV} --objective.number-of-skills 5", "objective.number_of_skills: 16 in the run, 5 asked for"),
        (f"--env {ENV} --env.noise 0.5", "noise: 0.0 in the run, 0.5 asked for"),
        ("", f"env: {ENV} in the run, maze/square_a asked for"),
    ],
)
def test_another_setting_is_refused_by_name_with_both_values(capsys, tmp_path, flags, answer):
    run(f"pretrain diayn --env {ENV} --out runs/x --preset smoke --steps 1600")
    assert answer in refused(capsys, f"pretrain diayn --out runs/x --resume {flags}")


def test_a_preset_that_there_is_not_names_those_that_there_are(capsys):
    line = refused(capsys, "pretrain diayn --preset smok")
    assert line.endswith("did you mean 'smoke'? There are default, compact, paper, long, smoke.")
    line = refused(capsys, "pretrain diayn --env walker --preset xyzzy")
    assert line.endswith("known are compact, paper, smoke.")


@pytest.mark.parametrize(("wrong", "right"), [("SD3", "sd3"), ("Protorl", "protorl"), ("DIAYN", "diayn")])
def test_capitals_do_not_hide_what_is_meant(capsys, wrong, right):
    assert f"did you mean '{right}'?" in refused(capsys, f"pretrain {wrong}")


def test_the_methods_that_are_listed_are_those_that_can_be_trained(capsys):
    run("methods")
    assert "extrinsic" not in capsys.readouterr().out


def test_the_two_phases_of_an_own_environment_have_folders_of_their_own(tmp_path):
    run("pretrain diayn --env gym/Pendulum-v1 --preset smoke")
    run("finetune runs/diayn-Pendulum-v1")
    assert config(tmp_path, "diayn-Pendulum-v1")["phase"] == "pretrain"
    tuned = config(tmp_path, "diayn-Pendulum-v1-finetuned")
    assert (tuned["phase"], tuned["task"], tuned["source"]) == ("finetune", "gym/Pendulum-v1", "diayn-Pendulum-v1")


@pytest.mark.parametrize("flags", ["--force", "--resume", ""])
def test_a_fine_tuning_never_replaces_its_source(capsys, tmp_path, flags):
    run(f"pretrain diayn --env {ENV} --preset smoke --out runs/x")
    line = refused(capsys, f"finetune runs/x --out runs/x {flags}")
    assert "choose a folder apart from it with --out" in line
    assert config(tmp_path, "x")["phase"] == "pretrain"


def test_mazes_have_no_tasks(capsys):
    run("pretrain diayn --preset smoke --out runs/x")
    for line in ("finetune runs/x", "finetune runs/x --task walker_walk"):
        assert "mazes have no tasks yet" in refused(capsys, line)
    assert "mazes have no tasks yet" in refused(capsys, "finetune --from-scratch --env maze/square_a")


def test_one_of_several_tasks_has_to_be_said(capsys):
    assert "walker has walker_stand, walker_walk" in refused(capsys, "finetune --from-scratch --env walker")


def test_training_from_scratch_in_an_own_environment_needs_no_task(tmp_path):
    run(f"finetune --from-scratch --env {ENV} --preset smoke")
    assert config(tmp_path, "ddpg-toys-Long-v0")["task"] == ENV
