"""What a run is trained with, from Python: presets, overrides, budgets that go on, folders. Nothing is trained here."""

import json
import shutil

import pytest

import skillscape
from skillscape.api import finetune, pretrain, train_from_scratch
from skillscape.errors import UserError
from skillscape.objectives.sd3 import SD3

ENV = "gym/toys:Long-v0"
MAZE = "maze/square_a"


@pytest.fixture(autouse=True)
def _untrained(monkeypatch):
    """Lays out runs, which then count as pre-trained, and builds no network."""
    for name in ("train_all", "train_job", "_write_results", "_write_job_results", "_first_state"):
        monkeypatch.setattr(f"skillscape.api.{name}", lambda *_arguments, **_options: None)
    monkeypatch.setattr(
        "skillscape.training.jobs.JobRun.snapshot", lambda run, step=None: (step or run.config.steps, None, None)
    )


def objective_of(run):
    return run.config.to_json()["objective"]


@pytest.mark.parametrize("env", [MAZE, ENV])
def test_overrides_change_the_preset_and_nothing_else(tmp_path, env):
    (plain,) = pretrain("sd3", env, out=tmp_path / "plain", preset="smoke")
    (run,) = pretrain(
        "sd3",
        env,
        out=tmp_path / "run",
        preset="smoke",
        objective={"number_of_skills": 5},
        backbone={"learning_rate": 1e-3},
    )
    assert objective_of(run) == {**objective_of(plain), "number_of_skills": 5}
    assert run.config.to_json()["backbone"] == {**plain.config.to_json()["backbone"], "learning_rate": 1e-3}


def test_a_whole_objective_is_taken_as_it_is(tmp_path):
    (run,) = pretrain("sd3", ENV, out=tmp_path / "run", preset="smoke", objective=SD3(number_of_skills=5))
    assert run.config.objective == SD3(number_of_skills=5)


def test_training_from_scratch_takes_overrides(tmp_path):
    run = train_from_scratch(ENV, out=tmp_path / "run", preset="smoke", backbone={"width": 24})
    assert (run.config.backbone.width, run.config.backbone.batch_size) == (24, 32)


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"objective": {"number_of_skils": 5}}, "did you mean 'number_of_skills'"),
        ({"objective": {"number_of_skills": "5"}}, "SD3.number_of_skills cannot be '5'"),
        ({"backbone": {"learning_rates": 1.0}}, "backbone.learning_rates is no setting of"),
        ({"objective": {"number_of_skills": 0}}, "must be above zero"),
    ],
)
def test_an_override_that_does_not_fit_is_one_sentence(tmp_path, env, given, answer):
    with pytest.raises(UserError, match=answer):
        pretrain("sd3", env, out=tmp_path / "run", preset="smoke", **given)
    assert not (tmp_path / "run").exists()


# Going on


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize("preset", [None, "smoke"])
def test_a_run_that_goes_on_keeps_its_budget_and_its_settings(tmp_path, env, preset):
    given = {"objective": {"number_of_skills": 5}} if preset is None else {}
    (first,) = pretrain("diayn", env, out=tmp_path, preset="smoke", steps=1600, **given)
    before = (tmp_path / "config.json").read_bytes()
    (run,) = pretrain("diayn", env, out=tmp_path, preset=preset, resume=True)
    assert run.config == first.config
    assert (tmp_path / "config.json").read_bytes() == before


def test_missing_seeds_get_the_budget_of_those_that_stand(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path, preset="smoke", steps=1600, seeds=2)
    shutil.rmtree(tmp_path / "seed_1")
    runs = pretrain("diayn", MAZE, out=tmp_path, resume=True, seeds=2)
    assert [run.config.steps for run in runs] == [1600, 1600]


def test_the_budget_of_a_maze_can_be_raised_and_of_a_host_run_not(tmp_path):
    pretrain("diayn", MAZE, out=tmp_path / "maze", preset="smoke", steps=1600)
    (run,) = pretrain("diayn", MAZE, out=tmp_path / "maze", steps=2400, resume=True)
    assert run.config.steps == 2400
    pretrain("diayn", ENV, out=tmp_path / "host", preset="smoke", steps=1600)
    with pytest.raises(UserError, match="steps: 1,600 in the run, 2,400 asked for"):
        pretrain("diayn", ENV, out=tmp_path / "host", steps=2400, resume=True)


@pytest.mark.parametrize("env", [MAZE, ENV])
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"objective": {"number_of_skills": 5}}, r"objective.number_of_skills: \d+ in the run, 5 asked for"),
        ({"backbone": {"learning_rate": 0.5}}, "backbone.learning_rate: .* in the run, 0.5 asked for"),
        ({"seed": 3}, "seed: 0 in the run, 3 asked for"),
    ],
)
def test_other_settings_are_refused_by_name_with_both_values(tmp_path, env, given, answer):
    pretrain("diayn", env, out=tmp_path / "run", preset="smoke")
    with pytest.raises(UserError, match=answer):
        pretrain("diayn", env, out=tmp_path / "run", resume=True, **given)


def test_another_place_or_method_is_refused_by_name(tmp_path):
    pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke")
    with pytest.raises(UserError, match=f"env: {ENV} in the run, {MAZE} asked for"):
        pretrain("diayn", MAZE, out=tmp_path / "run", resume=True)
    with pytest.raises(UserError, match=r"objective.name: diayn in the run, cic asked for"):
        pretrain("cic", ENV, out=tmp_path / "run", preset="smoke", resume=True)


@pytest.fixture
def source(tmp_path):
    return pretrain("diayn", ENV, out=tmp_path / "source", preset="smoke", steps=1600)[0].folder


def test_a_fine_tuning_that_goes_on_keeps_what_is_not_said(source, tmp_path):
    (first,) = finetune(source, out=tmp_path / "tuned", skill="3", steps=1200, seed=8)
    (run,) = finetune(source, out=tmp_path / "tuned", resume=True)
    assert run.config == first.config
    with pytest.raises(UserError, match="steps: 1,200 in the run, 1,300 asked for"):
        finetune(source, out=tmp_path / "tuned", steps=1300, resume=True)
    with pytest.raises(UserError, match="skill: 3 in the run, random asked for"):
        finetune(source, out=tmp_path / "tuned", skill="random", resume=True)


def test_training_from_scratch_that_goes_on_keeps_what_is_not_said(tmp_path):
    first = train_from_scratch(ENV, out=tmp_path / "run", preset="smoke", steps=1200, backbone={"width": 24})
    assert train_from_scratch(ENV, out=tmp_path / "run", resume=True).config == first.config
    with pytest.raises(UserError, match=r"backbone.width: 24 in the run, 16 asked for"):
        train_from_scratch(ENV, out=tmp_path / "run", preset="smoke", resume=True)


# Tasks and folders


def test_the_one_task_of_an_environment_need_not_be_said(source, tmp_path):
    assert finetune(source, out=tmp_path / "tuned")[0].config.task == ENV
    assert train_from_scratch(ENV, out=tmp_path / "alone", preset="smoke").config.task == ENV


def test_one_of_several_tasks_has_to_be_said(tmp_path):
    with pytest.raises(UserError, match=r"Say which task to learn.*walker has walker_stand, walker_walk"):
        train_from_scratch("walker", out=tmp_path / "run", preset="smoke")


@pytest.mark.parametrize("task", [None, "walker_walk"])
def test_mazes_have_no_tasks(tmp_path, task):
    pretrain("diayn", MAZE, out=tmp_path / "maze", preset="smoke")
    with pytest.raises(UserError, match="mazes have no tasks yet"):
        finetune(tmp_path / "maze", task, out=tmp_path / "tuned")
    with pytest.raises(UserError, match="mazes have no tasks yet"):
        train_from_scratch("maze-pixels/square_a", task, out=tmp_path / "tuned", preset="smoke")


@pytest.mark.parametrize("place", ["source", "source/tuned", ".", "link", "source/../source"])
@pytest.mark.parametrize("option", [{}, {"force": True}, {"resume": True}])
def test_a_fine_tuning_never_writes_into_its_source(source, tmp_path, place, option):
    (tmp_path / "link").symlink_to(source)
    before = {path: path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()}
    with pytest.raises(UserError, match="choose a folder apart from it"):
        finetune(source, out=tmp_path / place, **option)
    assert {path: path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()} == before
    assert json.loads((source / "config.json").read_text())["phase"] == "pretrain"


def test_what_stands_in_the_way_is_said_for_python_too(source):
    with pytest.raises(skillscape.UserError, match=r"resume=True.*force=True"):
        pretrain("diayn", ENV, out=source, preset="smoke")
