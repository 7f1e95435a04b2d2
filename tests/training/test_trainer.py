"""The trainer around an iteration that only counts: rows, checkpoints, stops, full disks, callbacks."""

import os
import signal
import threading

import numpy as np
import pytest
from counting import (
    Telling,
    assert_rows_are_right,
    count_iterations,
    iterate,
    maze_config,
    saved_steps,
    train_maze_runs,
)
from full_disk import fill
from tensorboardX.proto.event_pb2 import Event

from skillscape.errors import EnvFault, Interrupted, Notice, Unwritable, UserError
from skillscape.training.callbacks import Callback, TensorBoard
from skillscape.training.policy import TrainedPolicy
from skillscape.training.run import Run
from skillscape.training.trainer import stop_requested

pytestmark = pytest.mark.usefixtures("_counting")


# Rows, checkpoints, skills


def test_a_run_is_logged_evaluated_from_its_start_on_and_saved_on_time(run):
    train_maze_runs(run)
    assert_rows_are_right(run)
    assert saved_steps(run.folder) == [1600, 2000]


def test_a_finished_run_shares_its_skills(run):
    train_maze_runs(run)
    shared = TrainedPolicy.load(run.folder / "skills")
    assert shared.params["iterations"] == 5
    assert shared.step == 2000
    assert shared.config == run.config


def test_a_finished_run_trains_no_further(run, iterations):
    train_maze_runs(run)
    iterations(lambda state: 1 / 0)
    train_maze_runs(run)
    assert saved_steps(run.folder) == [1600, 2000]
    assert_rows_are_right(run)


def test_snapshots_are_kept_when_they_are_due(tmp_path, iterations):
    iterations(iterate)
    run = Run.create(tmp_path / "run", maze_config(snapshots=(400, 1200)))
    train_maze_runs(run)
    kept = {step: float(run.snapshot(step).agent["iterations"]) for step in (400, 1200, 2000)}
    assert kept == {400: 1, 1200: 3, 2000: 5}
    assert sorted(int(path.name) for path in (run.folder / "snapshots").iterdir()) == [400, 1200, 2000]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_stop_the_run_and_keep_its_last_checkpoint(run, iterations, value):
    def diverge(state):
        state, metrics = iterate(state)
        return state, {**metrics, "value": np.float32(value if state.step > 1200 else 1)}

    iterations(diverge)
    with pytest.raises(UserError, match=r"stopped at step 1,600 because value is not finite"):
        train_maze_runs(run)
    assert saved_steps(run.folder) == [800]


# Stops


@pytest.mark.parametrize("when", [400, 800, 1200])
def test_a_run_told_to_stop_saves_the_state_it_is_in(run, stopping, when):
    with pytest.raises(Interrupted):
        train_maze_runs(run, callbacks=[stopping(when)])
    assert saved_steps(run.folder)[-1] == when
    train_maze_runs(run)
    assert_rows_are_right(run)


def test_a_run_stopped_before_it_began_is_saved_too(run, stopping):
    with pytest.raises(Interrupted):
        train_maze_runs(run, callbacks=[stopping(0)])
    assert saved_steps(run.folder) == [0]
    assert run.evaluation()["step"] == [0]
    train_maze_runs(run)
    assert_rows_are_right(run)


def test_a_run_that_is_killed_before_its_first_checkpoint_writes_its_rows_anew(run):
    def kill(_run, step, _pace, _row):
        if step == 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_maze_runs(run, callbacks=[Telling(kill)])
    assert not run.checkpoints.exists()
    assert run.metrics()["step"] == [400]
    train_maze_runs(run)
    assert_rows_are_right(run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_second_acts_as_usual(number):
    heard = []
    usual = signal.signal(number, lambda *_: heard.append(number))
    try:
        with stop_requested() as stop:
            assert not stop.is_set()
            os.kill(os.getpid(), number)
            assert stop.is_set()
            assert not heard
            os.kill(os.getpid(), number)
            assert heard == [number]
    finally:
        signal.signal(number, usual)


def test_handlers_of_signals_are_put_back(run):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train_maze_runs(run)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_thread_beside_the_main_one_trains_without_signals(run):
    thread = threading.Thread(target=train_maze_runs, args=[run])
    thread.start()
    thread.join()
    assert_rows_are_right(run)


def test_two_processes_cannot_train_one_run(run):
    with run.locked(), pytest.raises(UserError, match="being trained by another process"):
        train_maze_runs(run)
    assert not (run.folder / "metrics.csv").exists()


# Full disks, and evaluations that break


@pytest.mark.parametrize("log", ["metrics.csv", "evaluation.csv"])
@pytest.mark.parametrize("when", [400, 1200, 1600])
def test_a_log_on_a_full_disk_stops_the_run_which_goes_on_to_the_same_rows(run, log, when):
    def filling(_run, step, _pace, _row):
        if step == when:
            fill(f"run/{log}")

    with pytest.raises(UserError, match=f"{log} cannot be written"):
        train_maze_runs(run, callbacks=[Telling(filling)])
    failed = when + 400 if log == "metrics.csv" else {400: 800, 1200: 1600, 1600: 2000}[when]
    assert saved_steps(run.folder)[-1] == failed - 400
    train_maze_runs(run)
    assert_rows_are_right(run)


def test_a_log_and_a_checkpoint_on_a_full_disk_keep_the_checkpoint_before(run, monkeypatch):
    def filling(_run, step, _pace, _row):
        if step == 1200:
            fill("run/metrics.csv")
            monkeypatch.setattr(Run, "save", full)

    def full(*_arguments, **_options):
        raise UserError("Could not write a checkpoint.")

    with pytest.raises(UserError, match=r"metrics\.csv cannot be written"):
        train_maze_runs(run, callbacks=[Telling(filling)])
    assert saved_steps(run.folder) == [800]


@pytest.mark.parametrize("step", [0, 1600])
def test_an_evaluation_that_cannot_be_written_is_made_again_when_there_is_room(run, step):
    def evaluate(run, state, skill, at):
        if at == step:
            raise Unwritable("rollouts cannot be written.")
        return count_iterations(run, state, skill, at)

    with pytest.raises(Unwritable, match="rollouts cannot be written"):
        train_maze_runs(run, evaluate=evaluate)
    assert saved_steps(run.folder)[-1] == 1200 if step else not run.checkpoints.exists()
    train_maze_runs(run)
    assert_rows_are_right(run)


@pytest.mark.parametrize("step", [0, 1600])
def test_an_evaluation_that_breaks_loses_one_iteration(run, step):
    def evaluate(run, state, skill, at):
        if at == step:
            raise EnvFault("The toy broke")
        return count_iterations(run, state, skill, at)

    saved = "the run is saved up to step 1,200" if step else "nothing is lost"
    with pytest.raises(UserError, match=f"The toy broke in the evaluation at step {step:,}; {saved}: correct the env"):
        train_maze_runs(run, evaluate=evaluate)
    assert saved_steps(run.folder)[-1] == 1200 if step else not run.checkpoints.exists()
    train_maze_runs(run)
    assert_rows_are_right(run)


# Callbacks


class Hearing(Callback):
    """Keeps all that it hears."""

    def __init__(self):
        self.heard = []

    def on_start(self, run, step):
        self.heard.append(("start", run.config.seed, step))

    def on_log(self, run, log, step, row):
        self.heard.append((log, run.config.seed, step, dict(row)))

    def on_progress(self, run, step, pace, row):
        self.heard.append(("progress", run.config.seed, step, pace, dict(row)))

    def on_end(self, run):
        self.heard.append(("end", run.config.seed))


def test_callbacks_hear_of_start_rows_progress_and_end_in_order(run):
    hearing = Hearing()
    train_maze_runs(run, callbacks=[hearing])
    kinds = [one[0] for one in hearing.heard]
    logged = ["metrics", "progress"]
    both = ["metrics", "evaluation", "progress"]
    assert kinds == ["start", "evaluation", *logged, *both, *logged, *both, *both, "end"]
    assert hearing.heard[0] == ("start", 0, 0)
    rows = [tuple(rest) for kind, _, *rest in hearing.heard if kind == "evaluation"]
    assert rows == [(step, {"coverage": number}) for step, number in ((0, 0), (800, 2), (1600, 4), (2000, 5))]
    metrics = [row for kind, *_, row in hearing.heard if kind == "metrics"]
    assert [row["reward"] for row in metrics] == [4, 8, 12, 16, 20]
    assert all(row["steps_per_second"] > 0 for row in metrics)
    *_, pace, row = hearing.heard[-2]
    assert pace.startswith("2,000/2,000 steps")
    assert row == {"reward": 20, "coverage": 5}


def test_callbacks_hear_where_a_run_goes_on_and_of_its_end_also_after_a_stop(run, stopping):
    hearing = Hearing()
    with pytest.raises(Interrupted):
        train_maze_runs(run, callbacks=[hearing, stopping(1200)])
    assert hearing.heard[-1] == ("end", 0)
    again = Hearing()
    train_maze_runs(run, callbacks=[again])
    assert again.heard[0] == ("start", 0, 1200)
    assert [one[2] for one in again.heard if one[0] == "evaluation"] == [1600, 2000]
    finished = Hearing()
    train_maze_runs(run, callbacks=[finished])
    assert not finished.heard


def test_a_callback_that_wants_nothing_hears_nothing(run):
    train_maze_runs(run, callbacks=[Callback()])
    assert_rows_are_right(run)


def events(folder):
    """The events of TensorBoard's files in their order."""
    for path in sorted((folder / "tensorboard").iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            event = Event()
            event.ParseFromString(content[12 : 12 + length])
            content = content[16 + length :]
            yield event


def scalars(folder, name):
    return {
        event.step: value.simple_value for event in events(folder) for value in event.summary.value if value.tag == name
    }


def test_tensorboard_shows_the_rows_of_the_logs(run):
    train_maze_runs(run, callbacks=[TensorBoard()])
    assert scalars(run.folder, "metrics/reward") == {400: 4, 800: 8, 1200: 12, 1600: 16, 2000: 20}
    assert scalars(run.folder, "evaluation/coverage") == {0: 0, 800: 2, 1600: 4, 2000: 5}
    assert set(scalars(run.folder, "metrics/steps_per_second")) == {400, 800, 1200, 1600, 2000}


def test_tensorboard_forgets_work_that_was_lost_and_nothing_else(run):
    for lost in (400, 1200):  # before the first checkpoint, and after it

        def kill(_run, step, _pace, _row, lost=lost):
            if step == lost:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_maze_runs(run, callbacks=[TensorBoard(), Telling(kill)])
    train_maze_runs(run, callbacks=[TensorBoard()])
    assert [event.step for event in events(run.folder) if event.HasField("session_log")] == [0, 801]


def test_tensorboard_keeps_the_first_evaluation_of_a_run_that_was_stopped_right_after_it(run, stopping):
    with pytest.raises(Interrupted):
        train_maze_runs(run, callbacks=[TensorBoard(), stopping(0)])
    train_maze_runs(run, callbacks=[TensorBoard()])
    assert [event.step for event in events(run.folder) if event.HasField("session_log")] == [1]


def test_tensorboard_on_a_full_disk_does_not_stop_the_run(run):
    def filling(_run, step, _pace, _row):
        if step == 400:
            fill("tfevents")

    with pytest.warns(Notice, match="continues without TensorBoard") as told:
        train_maze_runs(run, callbacks=[TensorBoard(), Telling(filling)])
    assert len(told) == 1
    assert_rows_are_right(run)
