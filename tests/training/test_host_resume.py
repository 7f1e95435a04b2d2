"""Runs on the host that are stopped go on to the same bytes; what is saved and what can be gone back to."""

import os
import shutil
import signal

import numpy as np
import pytest
from counting import (
    Counter,
    Telling,
    a_config,
    contents,
    finetuning_config,
    measure,
    opened,
    saved_steps,
    signalling_at,
    train,
    train_runs,
)
from full_disk import fill

from skillscape.errors import Interrupted, UserError
from skillscape.training.run import Run

pytestmark = pytest.mark.usefixtures("_toy_loop")


@pytest.mark.parametrize("env", ["Toy-v0", "Ending-v0"])
@pytest.mark.parametrize("lived", [0, 38, 71, 133, 199])
def test_a_run_stopped_by_hand_is_saved_at_the_next_block_and_goes_on_to_the_same_numbers(
    undisturbed, tmp_path, monkeypatch, env, lived
):
    with monkeypatch.context() as patch:
        signalling_at(patch, lived)
        if lived < 190:
            with pytest.raises(Interrupted):
                train(tmp_path / "stopped", a_config(env))
            assert lived < saved_steps(tmp_path / "stopped")[-1] <= lived + 10
        else:
            train(tmp_path / "stopped", a_config(env))  # the last block is the end
    train(tmp_path / "stopped", a_config(env))
    assert contents(tmp_path / "stopped") == undisturbed(a_config(env))


def test_a_polite_kill_is_a_stop_by_hand(undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signalling_at(patch, 71, signal.SIGTERM)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", a_config())
    assert saved_steps(tmp_path / "stopped")[-1] == 73
    train(tmp_path / "stopped", a_config())
    assert contents(tmp_path / "stopped") == undisturbed(a_config())


def test_a_second_stop_ends_the_run_at_once_and_loses_no_more_than_a_kill(undisturbed, tmp_path, monkeypatch):
    # What a shell runs in the background ignores Ctrl-C, and its children do too.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        signalling_at(patch, 71)
        signalling_at(patch, 72)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "stopped", a_config())
    signal.signal(signal.SIGINT, usual)
    assert saved_steps(tmp_path / "stopped") == [50]
    train(tmp_path / "stopped", a_config())
    assert contents(tmp_path / "stopped") == undisturbed(a_config())


def test_a_run_stopped_before_its_first_step_goes_on_to_the_same_numbers(undisturbed, tmp_path):
    def stop(run, params, skill, step):
        os.kill(os.getpid(), signal.SIGINT)
        return measure(run, params, skill, step)

    with pytest.raises(Interrupted):
        train(tmp_path / "stopped", a_config(), stop)
    assert saved_steps(tmp_path / "stopped") == [0]
    train(tmp_path / "stopped", a_config())
    assert contents(tmp_path / "stopped") == undisturbed(a_config())


@pytest.mark.parametrize("skill", ["regress", "grid"])
@pytest.mark.parametrize("lived", [31, 38, 45])
def test_a_skill_is_judged_once_also_if_the_run_is_stopped_around_that(
    undisturbed, tmp_path, monkeypatch, skill, lived
):
    config = finetuning_config(skill=skill)
    with monkeypatch.context() as patch:
        signalling_at(patch, lived)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", config)
    run = train(tmp_path / "stopped", config)
    assert contents(run.folder) == undisturbed(config)
    assert run.evaluation()["skill"][1:] == [np.argmax(run.kept_skill())] * 4


def test_seeds_on_the_host_come_one_after_the_other_and_a_stop_leaves_the_rest_unbegun(
    undisturbed, tmp_path, monkeypatch
):
    configs = [a_config(seed=seed) for seed in (3, 4)]
    runs = [opened(tmp_path / f"seed{config.seed}", config) for config in configs]
    with monkeypatch.context() as patch:
        signalling_at(patch, 71)
        with pytest.raises(Interrupted):
            train_runs(runs)
    assert saved_steps(runs[0].folder)[-1] == 73
    assert not runs[1].checkpoints.exists()
    assert not (runs[1].folder / "metrics.csv").exists()
    train_runs(runs)
    for run in runs:
        assert contents(run.folder) == undisturbed(run.config)


def test_deleting_the_newest_checkpoint_goes_on_from_the_one_before_it(undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signalling_at(patch, 171)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", a_config())
    shutil.rmtree(sorted((tmp_path / "stopped" / "checkpoints").iterdir())[-1])
    train(tmp_path / "stopped", a_config())
    assert contents(tmp_path / "stopped") == undisturbed(a_config())


def test_a_row_shows_the_newest_update_also_after_a_stop_between_the_two(undisturbed, tmp_path, monkeypatch):
    rare = a_config(backbone=Counter(update_every=16))
    with monkeypatch.context() as patch:
        signalling_at(patch, 89)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", rare)
    train(tmp_path / "stopped", rare)
    assert contents(tmp_path / "stopped") == undisturbed(rare)


def test_a_finished_run_needs_neither_buffer_nor_steps_to_be_opened_again(tmp_path):
    run = train(tmp_path / "run", a_config())
    before = contents(tmp_path / "run")
    shutil.rmtree(run.folder / "replay")
    train(tmp_path / "run", a_config())
    assert contents(tmp_path / "run") == before
    assert not (run.folder / "replay").exists()


def test_files_of_a_buffer_that_no_checkpoint_speaks_of_are_made_anew(undisturbed, tmp_path):
    run = Run.create(tmp_path / "killed", a_config())
    (run.folder / "replay").mkdir()
    (run.folder / "replay" / "reward.f32").write_bytes(b"left over")
    train(tmp_path / "killed", a_config())
    assert contents(tmp_path / "killed") == undisturbed(a_config())


def test_rows_of_a_start_that_was_killed_before_its_first_checkpoint_are_written_anew(undisturbed, tmp_path):
    class Killed(Exception):
        pass

    def kill(_run, step, _pace, _row):
        if step == 40:
            raise Killed

    with pytest.raises(Killed):
        train(tmp_path / "killed", a_config(), callbacks=[Telling(kill)])
    assert not (tmp_path / "killed" / "checkpoints").exists()
    train(tmp_path / "killed", a_config())
    assert contents(tmp_path / "killed") == undisturbed(a_config())


@pytest.mark.parametrize("log", ["metrics.csv", "evaluation.csv"])
@pytest.mark.parametrize("every", [2, 16])
def test_a_log_on_a_full_disk_stops_the_run_which_goes_on_to_the_same_numbers(undisturbed, tmp_path, log, every):
    config = a_config(backbone=Counter(update_every=every))

    def filling(_run, step, _pace, _row):
        if step == 80:
            fill(f"stopped/{log}")

    with pytest.raises(UserError, match=f"{log} cannot be written"):
        train(tmp_path / "stopped", config, callbacks=[Telling(filling)])
    assert saved_steps(tmp_path / "stopped")[-1] == 90
    train(tmp_path / "stopped", config)
    assert contents(tmp_path / "stopped") == undisturbed(config)


@pytest.mark.parametrize("step", [0, 100])
def test_an_evaluation_that_finds_no_room_is_written_when_there_is_some(undisturbed, tmp_path, step):
    def filling(run, params, skill, at):
        if at == step:
            fill("stopped/evaluation.csv")
        return measure(run, params, skill, at)

    with pytest.raises(UserError, match=r"evaluation\.csv cannot be written"):
        train(tmp_path / "stopped", a_config(), filling)
    assert (tmp_path / "stopped" / "checkpoints").exists() == (step > 0)
    train(tmp_path / "stopped", a_config())
    assert contents(tmp_path / "stopped") == undisturbed(a_config())


def test_two_processes_cannot_train_one_run(tmp_path):
    run = Run.create(tmp_path / "run", a_config())
    with run.locked(), pytest.raises(UserError, match="being trained by another process"):
        train(tmp_path / "run", a_config())
