"""The host side of training, around an iteration that only counts."""

import csv
from threading import Event

import jax
import jax.numpy as jnp
import pytest
from full_disk import fill

from skillscape.envs.layouts import load_layout
from skillscape.errors import Notice, UserError
from skillscape.presets import settings
from skillscape.training import loop
from skillscape.training.checkpoint import checkpoints, load_tree
from skillscape.training.fused import TrainState
from skillscape.training.loop import Interrupted, train, train_all
from skillscape.training.runs import Pretraining, Run

START = TrainState(jax.random.key(0), {"weight": jnp.zeros(2)}, None, jnp.int32(0))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of five iterations of 400 steps, evaluated every 800, whose state is tiny."""
    monkeypatch.setattr(Run, "fresh_state", lambda _run: START)
    monkeypatch.setattr(Run, "_like", START)
    return make_run(tmp_path / "run")


def make_run(folder, seed=0):
    chosen = settings("diayn", "smoke")
    layout = load_layout("square_a")
    config = Pretraining("maze/square_a", layout, chosen.objective, chosen.backbone, 2000, seed, 800, 4)
    return Run.create(folder, config)


def count(state):
    """An iteration that learns one and takes 400 steps."""
    step = state.step + 400
    return TrainState(state.key, {"weight": state.agent["weight"] + 1}, None, step), {"reward": step / 100}


def evaluate(_run, state):
    return {"coverage": float(state.agent["weight"][0])}


def silent(*_told):
    pass


def column(run, log, name):
    with (run.folder / log).open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def steps_saved(run):
    return [step for step, _ in checkpoints(run.checkpoints)]


def test_a_run_is_logged_evaluated_and_saved_on_time(run):
    train(run, count, evaluate, silent, Event())
    assert column(run, "metrics.csv", "step") == [400, 800, 1200, 1600, 2000]
    assert column(run, "metrics.csv", "reward") == [4, 8, 12, 16, 20]
    assert column(run, "evaluation.csv", "step") == [800, 1600, 2000]
    assert column(run, "evaluation.csv", "coverage") == [2, 4, 5]
    assert steps_saved(run) == [1600, 2000]


def test_a_finished_run_shares_its_skills(run):
    train(run, count, evaluate, silent, Event())
    assert load_tree(run.folder / "skills", START.agent)["weight"][0] == 5


@pytest.mark.parametrize("when", [400, 800, 1200])
def test_a_run_told_to_stop_saves_the_state_it_is_in(run, when):
    stop = Event()

    def stop_at(_run, step, _pace, _metrics):
        if step == when:
            stop.set()

    with pytest.raises(Interrupted):
        train(run, count, evaluate, stop_at, stop)
    assert steps_saved(run)[-1] == when
    train(run, count, evaluate, silent, Event())
    assert column(run, "metrics.csv", "reward") == [4, 8, 12, 16, 20]
    assert column(run, "evaluation.csv", "step") == [800, 1600, 2000]


def test_a_run_stopped_before_it_began_is_saved_too(run):
    stop = Event()
    stop.set()
    with pytest.raises(Interrupted):
        train(run, count, evaluate, silent, stop)
    assert steps_saved(run) == [0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_stop_the_run_and_keep_its_last_checkpoint(run, value):
    def diverge(state):
        state, metrics = count(state)
        return state, {"reward": metrics["reward"], "value": jnp.where(state.step > 1200, value, 1.0)}

    with pytest.raises(UserError, match=r"stopped at step 1,600 because value is not finite"):
        train(run, diverge, evaluate, silent, Event())
    assert steps_saved(run) == [800]


@pytest.mark.parametrize("log", ["metrics.csv", "evaluation.csv"])
@pytest.mark.parametrize("when", [400, 1200, 1600])
def test_a_log_on_a_full_disk_stops_the_run_which_goes_on_to_the_same_rows(run, log, when):
    def filling(_run, step, _pace, _metrics):
        if step == when:
            fill(f"run/{log}")

    with pytest.raises(UserError, match=f"{log} cannot be written"):
        train(run, count, evaluate, filling, Event())
    failed = when + 400 if log == "metrics.csv" else {400: 800, 1200: 1600, 1600: 2000}[when]
    assert steps_saved(run)[-1] == failed - 400
    train(run, count, evaluate, silent, Event())
    assert column(run, "metrics.csv", "reward") == [4, 8, 12, 16, 20]
    assert column(run, "evaluation.csv", "coverage") == [2, 4, 5]


def test_a_log_and_a_checkpoint_on_a_full_disk_keep_the_checkpoint_before(run, monkeypatch):
    def filling(_run, step, _pace, _metrics):
        if step == 1200:
            fill("run/metrics.csv")
            monkeypatch.setattr(loop, "save_tree", full)

    def full(*_arguments, **_options):
        raise UserError("Could not write a checkpoint.")

    with pytest.raises(UserError, match=r"metrics\.csv cannot be written"):
        train(run, count, evaluate, filling, Event())
    assert steps_saved(run) == [800]


def test_tensorboard_on_a_full_disk_does_not_stop_the_run(run):
    def filling(_run, step, _pace, _metrics):
        if step == 400:
            fill("tfevents")

    with pytest.warns(Notice, match="goes on without TensorBoard") as told:
        train(run, count, evaluate, filling, Event())
    assert len(told) == 2  # metrics and evaluation have a file each
    assert column(run, "metrics.csv", "reward") == [4, 8, 12, 16, 20]


def test_a_finished_run_trains_no_further(run):
    train(run, count, evaluate, silent, Event())
    train(run, None, evaluate, silent, Event())
    assert steps_saved(run) == [1600, 2000]


# Several seeds


@pytest.fixture
def together(run, tmp_path, monkeypatch):
    """Trains three seeds, one of which does what a test says."""
    monkeypatch.setattr(loop, "iteration", lambda *_arguments: lambda state: (state, {}))
    runs = [run, make_run(tmp_path / "one", 1), make_run(tmp_path / "two", 2)]

    def go(act, workers=3):
        begun = []

        def fake(run, _compiled, _evaluate, _on_progress, stop):
            begun.append(run.config.seed)
            if run.config.seed == 0:
                return act()
            assert stop.wait(timeout=30)
            raise Interrupted

        monkeypatch.setattr(loop, "train", fake)
        try:
            train_all(runs, evaluate, silent, workers=workers)
        finally:
            go.begun = begun

    return go


def fail():
    raise UserError("seed 0 failed.")


def test_the_error_of_one_seed_stops_the_others_and_is_told(together):
    with pytest.raises(UserError, match="seed 0 failed"):
        together(fail)
    assert sorted(together.begun) == [0, 1, 2]


def test_seeds_that_have_not_begun_never_begin_after_an_error(together):
    with pytest.raises(UserError, match="seed 0 failed"):
        together(fail, workers=1)
    assert set(together.begun) <= {0, 1}


def test_a_stop_by_hand_interrupts_every_seed(together, monkeypatch):
    def press_control_c(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "wait", press_control_c)
    with pytest.raises(Interrupted):
        together(lambda: None)


def test_seeds_share_one_compilation(run, tmp_path, monkeypatch):
    traced = []

    def iteration(*_arguments):
        def advance(state):
            traced.append(state)
            return count(state)

        return advance

    monkeypatch.setattr(loop, "iteration", iteration)
    train_all([run, make_run(tmp_path / "one", 1)], evaluate, silent, workers=2)
    assert len(traced) == 1
    assert steps_saved(run) == [1600, 2000]
