"""Runs on disk: configurations that read back, folders that are kept or refused, and one process at a time."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import jax
import pytest
from fake_runs import job_run

from skillscape.api import load
from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.ppo import PPO
from skillscape.envs.layouts import builtin_layouts, load_layout, parse_layout
from skillscape.errors import LeftOut, UserError
from skillscape.objectives import registry
from skillscape.objectives.sd3 import SD3
from skillscape.presets import PRESETS, settings
from skillscape.training.fused import init_state
from skillscape.training.jobs import JobRun
from skillscape.training.runs import Pretraining, Run, check_ranges, from_fields


def configuration(method="diayn", preset="smoke", maze="square_a", **changes):
    chosen = settings(method, preset)
    config = Pretraining(
        env=f"maze/{maze}",
        layout=load_layout(maze),
        objective=chosen.objective,
        backbone=chosen.backbone,
        steps=chosen.steps,
        seed=3,
        evaluate_every=chosen.evaluate_every,
        rollouts_per_skill=chosen.rollouts_per_skill,
    )
    return replace(config, **changes)


def through_json(config):
    return Pretraining.from_json(json.loads(json.dumps(config.to_json())))


# Configurations


@pytest.mark.parametrize("method", registry())
@pytest.mark.parametrize("preset", PRESETS)
def test_a_configuration_reads_back_from_json(method, preset):
    config = configuration(method, preset)
    assert through_json(config) == config


@pytest.mark.parametrize("maze", builtin_layouts())
def test_every_maze_reads_back_from_json(maze):
    config = configuration(maze=maze)
    assert through_json(config) == config


def test_settings_away_from_the_defaults_read_back():
    config = configuration(
        layout=parse_layout("S..\n..#", "own"),
        objective=SD3(floor=-3.0, clip_norm=1.5, density="reconstruction", resample_every=7),
        backbone=PPO(hidden=(16, 8, 4), normalise_inputs=True),
    )
    assert through_json(config) == config


@pytest.mark.parametrize("method", sorted(set(registry()) - {"extrinsic"}))
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_trained(method, preset):
    config = configuration(method, preset)
    config.check()
    state = jax.eval_shape(lambda: init_state(config.seed, config.maze, config.backbone, config.objective))
    assert state.step.shape == ()


def changed(part, name, value):
    values = configuration("sd3").to_json()
    (values if part is None else values[part])[name] = value
    return json.loads(json.dumps(values))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("objective", "number_of_skills", "ten"),
        ("objective", "number_of_skills", True),
        ("objective", "number_of_skills", 2.5),
        ("objective", "floor", "low"),
        ("objective", "density", "density"),
        ("objective", "no_such_field", 1),
        ("objective", "name", "no_such_method"),
        ("backbone", "hidden", 128),
        ("backbone", "hidden", [128, "128"]),
        ("backbone", "normalise_inputs", 1),
        ("backbone", "no_such_field", 1),
        ("backbone", "name", "ddpg"),
        (None, "format", "skillscape-run-99"),
        (None, "steps", "many"),
        (None, "seed", None),
        (None, "seed", 1.5),
        (None, "env", 5),
        (None, "evaluate_every", "often"),
        (None, "rollouts_per_skill", [4]),
    ],
)
def test_a_wrong_field_or_type_is_refused(part, name, value):
    with pytest.raises(UserError):
        Pretraining.from_json(changed(part, name, value))


@pytest.mark.parametrize("name", ["hidden", "clip"])
def test_a_missing_field_takes_its_default(name):
    values = {key: value for key, value in asdict(PPO(hidden=(3,), clip=0.5)).items() if key != name}
    assert getattr(from_fields(PPO, values), name) == getattr(PPO(), name)


@pytest.mark.parametrize(
    ("part", "flag"),
    [
        (PPO(learning_rate=float("nan")), "--backbone.learning-rate must be a finite number"),
        (PPO(discount=float("inf")), "--backbone.discount must be a finite number"),
        (PPO(episodes=0), "--backbone.episodes must be above zero"),
        (PPO(hidden=(8, 0)), "--backbone.hidden must be above zero"),
        (PPO(entropy=-0.1), "--backbone.entropy must be zero or more"),
        (Dreamer(restraint=-1.0), "--backbone.restraint must be zero or more"),
        (Dreamer(centre_rate=1.5), "--backbone.centre-rate must be between 0 and 1"),
        (SD3(number_of_skills=-1), "--objective.number-of-skills must be above zero"),
        (SD3(clip_norm=-1.0), "--objective.clip-norm must be above zero"),
        (SD3(floor=float("nan")), "--objective.floor must be a finite number"),
        (Dreamer(sequence_length=1), "--backbone.sequence-length must be at least 2, not 1: .*pairs"),
        (Dreamer(sequence_length=0), "--backbone.sequence-length must be at least 2, not 0"),
        (Dreamer(horizon=1), "--backbone.horizon must be at least 2, not 1: .*one more step"),
        (Dreamer(horizon=-1), "--backbone.horizon must be at least 2, not -1"),
    ],
)
def test_settings_out_of_range_are_refused_by_the_name_of_their_flag(part, flag):
    with pytest.raises(UserError, match=flag):
        check_ranges(part)


@pytest.mark.parametrize("part", [SD3(floor=-5.0), Dreamer(sequence_length=2, horizon=2)])
def test_what_is_just_possible_is_in_range(part):
    check_ranges(part)


def test_a_budget_is_whole_batches():
    config = configuration(steps=1999)
    assert (config.steps_per_iteration, config.iterations) == (400, 4)
    with pytest.raises(UserError, match="below one batch of 400 steps"):
        replace(config, steps=399).check()


# Folders


def test_a_new_run_says_what_it_is_and_with_which_versions(tmp_path):
    run = Run.create(tmp_path / "deep" / "run", configuration())
    assert Run(run.folder).config == configuration()
    versions = json.loads((run.folder / "versions.json").read_text())
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["jax"] == jax.__version__


def test_a_run_that_stands_there_is_kept(tmp_path):
    Run.create(tmp_path, configuration())
    with pytest.raises(UserError, match=r"--resume .* --force"):
        Run.create(tmp_path, configuration(seed=4))
    assert Run(tmp_path).config.seed == 3


def test_force_replaces_a_run(tmp_path):
    Run.create(tmp_path, configuration())
    (tmp_path / "metrics.csv").touch()
    assert Run.create(tmp_path, configuration(seed=4), force=True).config.seed == 4
    assert not (tmp_path / "metrics.csv").exists()


def test_force_replaces_a_run_whose_configuration_is_damaged(tmp_path):
    (tmp_path / "config.json").write_text("{")
    assert Run.create(tmp_path, configuration(), force=True).config == configuration()


def test_force_does_not_replace_what_is_no_run(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not a run"):
        Run.create(tmp_path, configuration(), force=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_force_does_not_replace_a_run_in_training(tmp_path):
    run = Run.create(tmp_path, configuration())
    with run.locked(), pytest.raises(UserError, match="another process"):
        Run.create(tmp_path, configuration(seed=4), force=True)
    assert Run(tmp_path).config.seed == 3


def test_a_failed_write_of_the_configuration_leaves_no_half_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("skillscape.training.runs.versions", lambda: {"python": object()})
    with pytest.raises(TypeError):
        Run.create(tmp_path / "run", configuration())
    assert Run(tmp_path / "run").config == configuration()


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "{}", '{"format": "skillscape-run-1"}', "\x00"])
def test_a_damaged_configuration_is_told_in_one_sentence(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json") as caught:
        Run(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("objective", "width", -64),
        ("objective", "layers", 0),
        ("objective", "layers", 10**6),
        ("objective", "number_of_skills", 2**40),
        ("objective", "learning_rate", float("nan")),
        ("objective", "learning_rate", 10**30),
        ("backbone", "hidden", [128, -128]),
        ("backbone", "entropy", float("-inf")),
        ("layout", "horizon", -1),
        ("layout", "horizon", 10**9),
        ("layout", "max_step", float("nan")),
        ("layout", "walls", None),
        ("layout", "cells", "cells"),
        ("layout", "start", [-1, -1]),
        (None, "layout", None),
        (None, "rollouts_per_skill", -1),
        (None, "rollouts_per_skill", 10**9),
        (None, "evaluate_every", 0),
        (None, "steps", 10**20),
        (None, "seed", -1),
    ],
)
def test_what_cannot_be_trained_cannot_be_opened(tmp_path, part, name, value):
    (tmp_path / "config.json").write_text(json.dumps(changed(part, name, value)))
    with pytest.raises(UserError, match=r"restore .* or train again with --force") as caught:
        Run(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("objective", "number_of_skills", -1),
        ("backbone", "width", 0),
        ("backbone", "random_steps", -1),
        (None, "evaluation_episodes", 0),
        (None, "evaluation_episodes", 10**9),
        (None, "evaluate_every", -5),
        (None, "steps", 2**31),
        (None, "finetuning_steps", 0),
        (None, "snapshots", [1000, "2000"]),
        (None, "snapshots", [-1000]),
        (None, "snapshots", None),
        (None, "skill", "99"),
    ],
)
def test_what_cannot_be_trained_on_a_host_cannot_be_opened(tmp_path, part, name, value):
    folder = job_run(tmp_path / "run", "diayn", phase="pretrain")
    JobRun(folder)
    values = json.loads((folder / "config.json").read_text())
    (values if part is None else values[part])[name] = value
    (folder / "config.json").write_text(json.dumps(values))
    with pytest.raises(UserError) as caught:
        JobRun(folder)
    assert str(caught.value).startswith(str(folder))


def test_a_run_with_a_link_in_it_is_not_opened(tmp_path):
    run = Run.create(tmp_path / "run", configuration())
    (run.folder / "metrics.csv").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(UserError, match=r"metrics\.csv is a symbolic link"):
        load(tmp_path / "run")


def test_a_run_without_a_checkpoint_says_how_to_get_one(tmp_path):
    run = Run.create(tmp_path, configuration())
    assert run.newest_state() is None
    with pytest.raises(UserError, match="holds no checkpoint yet"):
        run.trained_state()
    assert run.results is None


# Opening


def test_one_run_opens_alone(tmp_path):
    Run.create(tmp_path, configuration())
    assert [run.folder for run in load(tmp_path)] == [tmp_path]


def test_seeds_open_in_the_order_of_their_numbers(tmp_path):
    for seed in (10, 9, 0):
        Run.create(tmp_path / f"seed_{seed}", configuration(seed=seed))
    assert [run.config.seed for run in load(tmp_path)] == [0, 9, 10]


def test_other_folders_among_the_seeds_are_left_alone(tmp_path):
    for name in ("seed_0", "seed_0_backup", "seed_", "plots"):
        Run.create(tmp_path / name, configuration())
    assert [run.folder.name for run in load(tmp_path)] == ["seed_0"]


@pytest.mark.parametrize(
    "damage", ["[]", "{", '{"format": "skillscape-run-1", "objective": {"name": "mine"}, "backbone": {}}']
)
def test_a_damaged_or_unknown_seed_does_not_stop_the_others(tmp_path, damage):
    for seed in range(3):
        Run.create(tmp_path / f"seed_{seed}", configuration(seed=seed))
    (tmp_path / "seed_0" / "config.json").write_text(damage)
    with pytest.warns(LeftOut, match="left out: .*seed_0"):
        runs = load(tmp_path)
    assert [run.config.seed for run in runs] == [1, 2]
    for seed in range(3):
        (tmp_path / f"seed_{seed}" / "config.json").write_text(damage)
    with pytest.raises(UserError, match="seed_0"):
        load(tmp_path)


def test_a_missing_folder_and_one_without_a_run_are_told_apart(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "missing")
    with pytest.raises(UserError, match="holds no run"):
        load(tmp_path)


# One process at a time

LOCK = """
import sys
from pathlib import Path
from skillscape.errors import LeftOut, UserError
from skillscape.training.runs import Run
try:
    with Run(Path(sys.argv[1])).locked():
        print("locked")
except UserError as error:
    print(error)
"""


def test_a_second_process_is_kept_off_until_the_first_is_done(tmp_path):
    run = Run.create(tmp_path, configuration())
    with run.locked():
        assert "being trained by another process" in lock_in_another_process(tmp_path)
    assert lock_in_another_process(tmp_path) == "locked\n"


def lock_in_another_process(folder):
    done = subprocess.run([sys.executable, "-c", LOCK, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout
