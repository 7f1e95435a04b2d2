"""Runs on disk: folders that are kept or refused, what was trained in them, and one process at a time."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from laid_out import configuration

from skillscape.api import load, load_seeds
from skillscape.config import EARLIER
from skillscape.errors import LeftOut, UserError
from skillscape.training.run import Run, adapted_state, run_folders, seed_folders
from skillscape.training.state import init_state

HOST = "gym/toys:Long-v0"


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


@pytest.mark.parametrize("content", ["{", '{"format": "skillscape-job-1"}'])
def test_force_replaces_a_run_whose_configuration_cannot_be_read(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
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


def test_what_cannot_be_trained_gets_no_folder(tmp_path):
    with pytest.raises(UserError, match="--steps must be above zero"):
        Run.create(tmp_path / "run", configuration(steps=0))
    assert not (tmp_path / "run").exists()


def test_a_failed_write_of_the_configuration_leaves_no_half_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("skillscape.training.run.versions", lambda: {"python": object()})
    with pytest.raises(TypeError):
        Run.create(tmp_path / "run", configuration())
    assert Run(tmp_path / "run").config == configuration()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", "{}", '{"format": "skillscape-run-2"}', '{"format": "other"}', "\x00"]
)
def test_a_damaged_configuration_is_told_in_one_sentence(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json") as caught:
        Run(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("told", EARLIER)
def test_a_run_of_an_earlier_version_is_refused_with_one_true_sentence(tmp_path, told):
    (tmp_path / "config.json").write_text(json.dumps({"format": told, "env": "walker", "steps": 5}))
    with pytest.raises(UserError) as caught:
        Run(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the run was written by an earlier version of skillscape; read it with that version."
    )


def changed(folder, part, name, value):
    values = json.loads((folder / "config.json").read_text())
    (values if part is None else values[part])[name] = value
    (folder / "config.json").write_text(json.dumps(values))


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
        ("definition", "horizon", -1),
        ("definition", "horizon", 10**9),
        ("definition", "max_step", float("nan")),
        ("definition", "walls", None),
        ("definition", "cells", "cells"),
        ("definition", "start", [-1, -1]),
        ("definition", "no_such_field", 1),
        (None, "definition", {}),
        ("evaluation", "episodes", -1),
        ("evaluation", "episodes", 10**9),
        ("evaluation", "every", 0),
        (None, "steps", 10**20),
        (None, "steps", 0),
        (None, "seed", -1),
        (None, "copies", 0),
        (None, "noise", -1),
        (None, "finetuning_steps", 0),
        (None, "snapshots", [-1000]),
        (None, "skill", "99"),
    ],
)
def test_what_cannot_be_trained_cannot_be_opened(tmp_path, part, name, value):
    Run.create(tmp_path / "run", configuration("sd3"))
    changed(tmp_path / "run", part, name, value)
    with pytest.raises(UserError, match=r"restore .* or train again with --force") as caught:
        Run(tmp_path / "run")
    assert str(caught.value).startswith(str(tmp_path / "run" / "config.json is damaged"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("objective", "number_of_skills", -1),
        ("backbone", "width", 0),
        ("backbone", "warmup_steps", -1),
        ("evaluation", "episodes", 0),
        ("evaluation", "every", -5),
        (None, "steps", 2**31),
        (None, "finetuning_steps", 0),
        (None, "snapshots", [1000, "2000"]),
        (None, "snapshots", None),
        (None, "skill", "99"),
        (None, "env_kwargs", None),
        (None, "task", {}),
    ],
)
def test_what_cannot_be_trained_on_a_host_cannot_be_opened(tmp_path, part, name, value):
    Run.create(tmp_path / "run", configuration("diayn", "walker"))
    changed(tmp_path / "run", part, name, value)
    with pytest.raises(UserError) as caught:
        Run(tmp_path / "run")
    assert str(caught.value).startswith(str(tmp_path / "run"))


def test_a_run_with_a_link_in_it_is_not_opened(tmp_path):
    run = Run.create(tmp_path / "run", configuration())
    (run.folder / "metrics.csv").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(UserError, match=r"metrics\.csv is a symbolic link"):
        load(tmp_path / "run")


def test_a_run_without_a_checkpoint_says_how_to_get_one(tmp_path):
    run = Run.create(tmp_path, configuration())
    assert run.newest() is None
    assert run.results is None
    assert run.kept_skill() is None
    assert run.trained_steps == 0
    for use in (run.snapshot, run.policy, run.trained_policy):
        with pytest.raises(UserError, match="has no checkpoint yet; train it further with --resume"):
            use()
    with pytest.raises(UserError, match="has no snapshot yet; train it further with --resume"):
        run.snapshot_step()
    for log in (run.metrics, run.evaluation):
        with pytest.raises(UserError, match="is missing: the run has not written metrics yet"):
            log()


def test_what_a_run_says_of_itself(tmp_path):
    maze = Run.create(tmp_path / "maze", configuration(steps=1999))
    assert (maze.end, maze.due(400), maze.due(800), maze.due(1600)) == (1600, False, True, True)
    assert maze.layout.name == "square_a"
    assert maze.spec.obs_shape == (2,)
    host = Run.create(tmp_path / "host", configuration(env=HOST, steps=1999))
    assert (host.end, host.due(1000), host.due(1001), host.due(1999)) == (1999, True, False, True)
    assert host.layout is None


# What was trained


@pytest.fixture
def trained(tmp_path):
    """Makes a run with a snapshot at 1,000 steps and checkpoints at 1,000 and 1,200."""

    def make(**changes):
        run = Run.create(tmp_path / "run", replace(configuration(env=HOST), **changes))
        for step in (1000, 1200):
            state = state_at(run, step)
            if step == 1000:
                run.keep_snapshot(state)
            run.save(state, {"skill": None if run.config.phase == "pretrain" else [0.0] * 15 + [1.0]})
        return run

    return make


def state_at(run, step):
    """Another state at each step."""
    state = init_state(replace(run.config, seed=step), run.spec)
    return state._replace(step=jax.numpy.int32(step))


def weights(agent):
    return np.asarray(agent.actor.params.output.weight)


def test_the_newest_is_taken_be_it_a_snapshot_or_a_mere_checkpoint(trained):
    run = trained()
    assert run.trained_steps == run.snapshot().step == run.trained_policy().step == 1200
    np.testing.assert_array_equal(weights(run.snapshot().agent), weights(state_at(run, 1200).agent))
    assert run.snapshot_step() == run.snapshot(1000).step == 1000
    np.testing.assert_array_equal(weights(run.snapshot(1000).agent), weights(state_at(run, 1000).agent))
    with pytest.raises(UserError, match=r"has no snapshot of step 1200; choose one of 1000\."):
        run.snapshot_step(1200)
    run.keep_snapshot(state_at(run, 1200))
    assert run.snapshot().step == run.snapshot_step() == 1200
    with pytest.raises(UserError, match=r"has no snapshot of step 7; choose one of 1000, 1200\."):
        run.snapshot(7)


def test_a_snapshot_is_without_optimisers(trained):
    run = trained()
    moments = jax.tree.leaves(run.snapshot(1000).agent.actor.opt_state)
    assert moments
    assert not any(np.asarray(leaf).any() for leaf in moments)


def test_two_checkpoints_are_kept(trained):
    run = trained()
    run.save(state_at(run, 1300), {"skill": None})
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["000000001200", "000000001300"]
    state, metadata = run.newest()
    assert int(state.step) == 1300
    assert metadata == {"skill": None}


def test_the_skill_that_a_fine_tuning_kept_acts(trained):
    run = trained(phase="finetune", task=HOST, skill="15")
    np.testing.assert_array_equal(run.kept_skill(), np.eye(16)[15])
    np.testing.assert_array_equal(run.policy().skill, np.eye(16)[15])
    np.testing.assert_array_equal(run.policy(3).skill, np.eye(16)[3])


def test_a_pre_training_keeps_no_skill(trained):
    run = trained()
    assert run.kept_skill() is None
    np.testing.assert_array_equal(run.policy().skill, np.eye(16)[0])


@pytest.mark.parametrize("metadata", [{}, {"skill": "three"}, {"skill": [[1], [2, 3]]}])
def test_a_checkpoint_that_does_not_say_which_skill_acts_is_refused(trained, metadata):
    run = trained(phase="finetune", task=HOST, skill="15")
    run.save(state_at(run, 1300), metadata)
    with pytest.raises(UserError, match="name no skill"):
        run.trained_policy()


def test_a_run_that_was_shared_with_its_skills_alone_still_acts(trained):
    run = trained(phase="finetune", task=HOST, skill="15")
    obs = np.linspace(-1, 1, 3, dtype=np.float32)
    wanted = run.policy()(obs)
    run.trained_policy().save(run.folder / "skills")
    for part in ("checkpoints", "snapshots"):
        shutil.rmtree(run.folder / part)
    shared = load(run.folder)
    np.testing.assert_array_equal(shared.policy()(obs), wanted)
    np.testing.assert_array_equal(shared.policy().skill, np.eye(16)[15])
    assert shared.trained_policy().step == 1200
    with pytest.raises(UserError, match="has no snapshot yet"):
        shared.snapshot_step()


def test_a_task_of_another_body_is_refused(trained):
    run = trained()
    other = replace(configuration(env=HOST), phase="finetune", task=HOST, snapshot=1000)
    with pytest.raises(UserError, match=r"pre-trained on observations \(3,\) and 2 actions, but .* has \(4,\) and 2"):
        adapted_state(other, run, run.spec._replace(obs_shape=(4,)))


def test_the_model_of_a_method_is_kept_once_and_comes_back(tmp_path):
    run = Run.create(tmp_path / "run", configuration("aps", HOST))
    first, second = (init_state(replace(run.config, seed=seed), run.spec).objective for seed in (0, 1))
    run.keep_model(first)
    run.keep_model(second)
    kept, wanted = (
        [np.asarray(leaf) for leaf in jax.tree.leaves(model.features.params)] for model in (run.model(), first)
    )
    jax.tree.map(np.testing.assert_array_equal, kept, wanted)


def test_training_from_scratch_has_no_model(tmp_path):
    run = Run.create(tmp_path / "run", replace(configuration(env=HOST), phase="train", task=HOST, objective=None))
    with pytest.raises(UserError, match="trained from scratch, so it has no pre-trained objective"):
        run.model()


# Opening


def test_one_run_opens_alone(tmp_path):
    Run.create(tmp_path, configuration())
    assert load(tmp_path).folder == tmp_path
    assert [run.folder for run in load_seeds(tmp_path)] == [tmp_path]


def test_seeds_open_in_the_order_of_their_numbers(tmp_path):
    for seed in (10, 9, 0):
        Run.create(tmp_path / f"seed_{seed}", configuration(seed=seed))
    assert [run.config.seed for run in load_seeds(tmp_path)] == [0, 9, 10]
    with pytest.raises(UserError, match="holds 3 seeds; load one of them, or all with load_seeds"):
        load(tmp_path)


def test_other_folders_among_the_seeds_are_left_alone(tmp_path):
    for name in ("seed_0", "seed_0_backup", "seed_", "seed_²", "seed_-1", "plots"):
        Run.create(tmp_path / name, configuration())
    (tmp_path / "seed_7").mkdir()
    assert [run.folder.name for run in load_seeds(tmp_path)] == ["seed_0"]
    assert run_folders(tmp_path) == seed_folders(tmp_path) == [tmp_path / "seed_0"]
    assert seed_folders(tmp_path / "seed_0") == []


@pytest.mark.parametrize(
    "damage",
    [
        "[]",
        "{",
        '{"format": "skillscape-run-2", "objective": {"name": "mine"}, "backbone": {}}',
        '{"format": "skillscape-run-1"}',
    ],
)
def test_a_damaged_or_unknown_seed_does_not_stop_the_others(tmp_path, damage):
    for seed in range(3):
        Run.create(tmp_path / f"seed_{seed}", configuration(seed=seed))
    (tmp_path / "seed_0" / "config.json").write_text(damage)
    with pytest.warns(LeftOut, match="left out: .*seed_0"):
        runs = load_seeds(tmp_path)
    assert [run.config.seed for run in runs] == [1, 2]
    for seed in range(3):
        (tmp_path / f"seed_{seed}" / "config.json").write_text(damage)
    with pytest.raises(UserError, match="seed_0"):
        load_seeds(tmp_path)


@pytest.mark.parametrize("use", [load, load_seeds])
def test_a_missing_folder_and_one_without_a_run_are_told_apart(tmp_path, use):
    with pytest.raises(UserError, match="does not exist"):
        use(tmp_path / "missing")
    with pytest.raises(UserError, match="holds no run"):
        use(tmp_path)


# One process at a time

LOCK = """
import sys
from pathlib import Path
from skillscape.errors import UserError
from skillscape.training.run import Run
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
