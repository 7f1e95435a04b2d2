"""Several seeds at once: what one of them meets with, a stop, and one compilation for all."""

import pytest
from counting import assert_rows_are_right, contents, iterate, maze_config, saved_steps, train_maze_runs

from skillscape.errors import Interrupted, UserError
from skillscape.training import jit_collector, trainer
from skillscape.training.callbacks import Callback
from skillscape.training.run import Run

pytestmark = pytest.mark.usefixtures("_counting")


@pytest.fixture
def together(run, tmp_path, monkeypatch):
    """Trains three seeds, one of which does what a test says."""
    runs = [run, *(Run.create(tmp_path / str(seed), maze_config(seed=seed)) for seed in (1, 2))]

    def go(act, workers=3):
        begun = []

        def fake(run, _compiled, _first_state, _evaluate, _callbacks, stop, _on_end):
            begun.append(run.config.seed)
            if run.config.seed == 0:
                while len(begun) < workers and not stop.wait(0.001):
                    pass
                return act()
            assert stop.wait(timeout=30)
            raise Interrupted

        monkeypatch.setattr(trainer, "_train", fake)
        try:
            train_maze_runs(*runs, workers=workers)
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

    monkeypatch.setattr(trainer, "wait", press_control_c)
    with pytest.raises(Interrupted):
        together(lambda: None)


def test_seeds_that_are_stopped_are_all_saved_and_go_on_to_the_same_numbers(run, tmp_path, stopping):
    train_maze_runs(run)
    runs = [Run.create(tmp_path / f"stopped{seed}", maze_config(seed=seed)) for seed in (0, 1)]
    with pytest.raises(Interrupted):
        train_maze_runs(*runs, callbacks=[stopping(400)], workers=2)
    assert all(saved_steps(each.folder)[-1] < 2000 for each in runs if each.checkpoints.exists())
    ended = []
    hearing = Callback()
    hearing.on_end = lambda run: ended.append(run.config.seed)
    train_maze_runs(*runs, callbacks=[hearing], workers=2)
    for each in runs:
        assert_rows_are_right(each)
    assert contents(runs[0].folder) == contents(run.folder)
    assert sorted(ended) == [0, 1]


def test_seeds_share_one_compilation(tmp_path, monkeypatch):
    traced = []

    def iteration(*_arguments):
        def advance(state):
            traced.append(state)
            return iterate(state)

        return advance

    monkeypatch.setattr(jit_collector, "iteration", iteration)
    runs = [Run.create(tmp_path / str(seed), maze_config(seed=seed)) for seed in (0, 1)]
    train_maze_runs(*runs, workers=2)
    assert len(traced) == 1
    assert saved_steps(runs[0].folder) == [1600, 2000]


def test_an_environment_that_is_not_compiled_is_refused_for_iterations(tmp_path):
    run = Run.create(tmp_path / "run", maze_config(env="gym/Pendulum-v1"))
    with pytest.raises(UserError, match="Compass needs an environment in JAX"):
        train_maze_runs(run)
