"""Records of finished runs: an experiment goes on elsewhere with them, and never on those of other settings."""

import json
import shutil

import pytest

from skillscape.cli import main
from skillscape.errors import UserError
from skillscape.experiments import records
from skillscape.experiments.grid import Grid, variant
from skillscape.training.files import write_json

TASKS = Grid("tasks", (variant("diayn"),), ("walker",), ("walker_stand", "walker_walk"), preset="smoke")
SOURCE, STAND, WALK = TASKS.specs


def record(spec, root, **changes):
    """The folder of a finished run, with weights that no record has."""
    folder = root / spec.folder
    (folder / "rollouts").mkdir(parents=True)
    write_json(folder / "config.json", {**spec.config.to_json(), **changes})
    write_json(folder / "results.json", {"measures": {"return": 1.0}})
    for name in ("evaluation.csv", "weights", "rollouts/1000.npz", "rollouts/2000.npz", "rollouts/routing.npz"):
        (folder / name).write_text(name)
    return folder


def names(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_a_record_has_the_measures_and_the_last_episodes_but_no_weights(tmp_path):
    record(SOURCE, tmp_path / "runs")
    measured = []
    records.keep(TASKS.specs, tmp_path / "runs", tmp_path / "records", lambda run: measured.append(run.folder))
    kept = names(tmp_path / "records" / SOURCE.folder)
    assert kept == ["config.json", "evaluation.csv", "results.json", "rollouts/2000.npz"]
    assert measured == [tmp_path / "runs" / SOURCE.folder]
    assert not (tmp_path / "records" / STAND.folder).exists()


def test_all_records_are_restored_where_nothing_is_left_to_train(tmp_path):
    for spec in TASKS.specs:
        record(spec, tmp_path / "records")
    restored = records.restore(TASKS.specs, tmp_path / "runs", tmp_path / "records")
    assert restored == [spec.folder for spec in TASKS.specs]
    assert "results.json" in names(tmp_path / "runs" / WALK.folder)
    assert records.restore(TASKS.specs, tmp_path / "runs", tmp_path / "records") == []


def test_a_pre_training_is_not_restored_while_a_fine_tuning_needs_its_weights(tmp_path):
    for spec in (SOURCE, STAND):
        record(spec, tmp_path / "records")
    assert records.restore(TASKS.specs, tmp_path / "runs", tmp_path / "records") == [STAND.folder]
    assert not (tmp_path / "runs" / SOURCE.folder).exists()


def test_a_run_that_has_begun_is_left_alone(tmp_path):
    record(SOURCE, tmp_path / "records")
    (record(SOURCE, tmp_path / "runs") / "results.json").unlink()
    assert records.restore((SOURCE,), tmp_path / "runs", tmp_path / "records") == []


def test_a_record_of_other_settings_is_refused(tmp_path):
    record(SOURCE, tmp_path / "records", noise=0.1)
    with pytest.raises(UserError, match=r"other settings \(noise: 0\.1 .*0\.0.*choose other --records, or delete it"):
        records.restore((SOURCE,), tmp_path / "runs", tmp_path / "records")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "numbers", "runs"),
    [
        ("urlb --tasks walker_stand --methods diayn", "scores", 2),
        ("maze --methods sd3", "arms", 1),
        ("locomotion --envs half_cheetah --methods metra --steps 2000", "arms", 1),
    ],
)
def test_an_experiment_goes_on_elsewhere_with_equal_numbers(tmp_path, capsys, line, numbers, runs):
    def reproduce(place):
        folders = [f"--{name}={tmp_path / place / name}" for name in ("runs", "out")]
        more = ["--preset", "smoke", "--seeds", "1", "--records", str(tmp_path / "records")]
        main(["reproduce", *line.split(), *more, *folders])
        return json.loads(next((tmp_path / place / "out").rglob("raw.json")).read_text())

    here = reproduce("here")
    shutil.rmtree(tmp_path / "here" / "runs")
    there = reproduce("there")
    assert there[numbers] == here[numbers]
    assert there["command"] == here["command"]
    assert f"{runs} run{'s' * (runs > 1)} restored" in capsys.readouterr().err
