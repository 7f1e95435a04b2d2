"""One run of a sweep as a worker performs it, on toy environments."""

import fcntl
import json
from pathlib import Path

import jax
import pytest

from skillscape.api import pretrain, train
from skillscape.errors import Interrupted
from skillscape.experiments import worker
from skillscape.experiments.grid import Grid, variant
from skillscape.experiments.worker import Job, bookkeeping, perform, perform_values, sees, trained_steps
from skillscape.training.files import read_results

TOY = "gym/toys:Toy-v0"


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def _contained(monkeypatch):
    """What a worker tells its own process stays in the test."""
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")


def planned(env=TOY, **changes):
    columns = (variant("diayn", **changes),)
    return Grid("grid", columns, (env,), preset="smoke", steps=1000, finetuning_steps=1000).specs


def job(run, runs):
    return Job(json.loads(json.dumps(run.to_json())), str(runs), str(runs / "log"), 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a sweep whose two runs were performed, with a setting of the method and one of the learner."""
    runs = tmp_path_factory.mktemp("runs")
    every = planned(objective=(("hidden", (8,)),), settings=(("width", 8),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_limit_resources", lambda _: None)
        outcomes = [perform(job(run, runs)) for run in every]
    return runs, every, outcomes


def test_a_run_is_trained_with_the_settings_of_the_grid(trained):
    runs, (source, tuned), outcomes = trained
    assert [outcome.reason for outcome in outcomes] == ["", ""]
    assert outcomes[0].results == json.loads((runs / source.folder / "results.json").read_text())
    assert (outcomes[0].results["phase"], outcomes[1].results["phase"]) == ("pretrain", "finetune")
    for run in (source, tuned):
        config = json.loads((runs / run.folder / "config.json").read_text())
        assert (config["objective"]["hidden"], config["backbone"]["width"], config["steps"]) == ([8], 8, 1000)
        assert trained_steps(runs, run.folder) == 1000
        pace = json.loads(bookkeeping(runs, "paces", f"{run.folder}.json").read_text())
        assert pace["steps"] == 1000
        assert pace["core_seconds"] > 0
    assert "1,000/1,000 steps" in (runs / "log").read_text()


def test_a_finished_run_is_only_read(trained, monkeypatch):
    runs, every, outcomes = trained
    monkeypatch.setattr(worker, "_train", lambda *_: pytest.fail("trained again"))
    assert perform_values(job(every[0], runs)._asdict()) == outcomes[0]._asdict()


def test_what_api_trained_is_recognised_by_its_folder(tmp_path, monkeypatch):
    run = planned()[0]
    pretrain("diayn", TOY, out=tmp_path / run.folder, preset="smoke", steps=1000)
    monkeypatch.setattr(worker, "_train", lambda *_: pytest.fail("trained again"))
    assert perform(job(run, tmp_path)).results == read_results(tmp_path / run.folder)


@pytest.mark.parametrize(("method", "noise"), [("sd3", 0.0), ("sd3", 0.1), ("ddpg", 0.0)])
def test_what_the_api_trains_has_the_configuration_of_the_grid(tmp_path, monkeypatch, method, noise):
    pytest.importorskip("dm_control")
    monkeypatch.setattr("skillscape.launch.train", lambda *_, **__: None)
    run = Grid("grid", (variant(method, noise=noise),), ("walker",), preset="smoke").specs[0]
    settings = {"out": tmp_path / run.folder, "preset": "smoke", "progress": False}
    if method == "ddpg":
        train("walker", run.config.task, **settings)
    else:
        pretrain(method, "walker", noise=noise, **settings)
    before = (tmp_path / run.folder / "config.json").read_bytes()
    # A folder with other settings would be refused.
    with (tmp_path / "log").open("w") as log:
        worker._train(job(run, tmp_path), log)
    assert (tmp_path / run.folder / "config.json").read_bytes() == before


def test_a_run_that_breaks_is_a_reason_and_no_exception(tmp_path):
    outcome = perform(job(planned("gym/toys:Breaking-v0")[0], tmp_path))
    assert outcome.results is None
    assert "gave a state or reward that is not finite at step 500" in outcome.reason
    assert outcome.reason in (tmp_path / "log").read_text()


def test_a_bug_is_one_sentence_and_its_traceback_is_in_the_log(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("two\nlines")

    monkeypatch.setattr(worker, "_train", broken)
    assert perform(job(planned()[0], tmp_path)).reason == "ValueError: two lines"
    assert "Traceback" in (tmp_path / "log").read_text()


def test_an_interruption_is_passed_on(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_train", interrupted)
    with pytest.raises(Interrupted):
        perform(job(planned()[0], tmp_path))


def test_a_run_that_another_process_holds_is_waited_for(tmp_path, monkeypatch):
    run = planned()[0]
    with bookkeeping(tmp_path, "locks", f"{run.folder}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waited = []

        def wait(seconds):
            """The other process finishes the run and lets go of it."""
            waited.append(seconds)
            (tmp_path / run.folder).mkdir(parents=True)
            (tmp_path / run.folder / "results.json").write_text('{"measures": {}}')
            fcntl.flock(file, fcntl.LOCK_UN)

        monkeypatch.setattr(worker.time, "sleep", wait)
        assert perform(job(run, tmp_path)).results == {"measures": {}}
    assert len(waited) == 1


def test_a_run_that_stays_held_is_given_up(tmp_path, monkeypatch):
    run = planned()[0]
    monkeypatch.setattr(worker, "PATIENCE", -1.0)
    with bookkeeping(tmp_path, "locks", f"{run.folder}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "is being trained by another process" in perform(job(run, tmp_path)).reason


def test_damaged_results_are_told(tmp_path):
    run = planned()[0]
    (tmp_path / run.folder).mkdir(parents=True)
    (tmp_path / run.folder / "results.json").write_text("{")
    assert "results.json is damaged: it is not JSON; delete it" in perform(job(run, tmp_path)).reason


def test_whether_a_node_sees_the_folder(tmp_path):
    path = Path(tmp_path / "token")
    assert not sees(str(path), "token")
    path.write_text("token")
    assert sees(str(path), "token")
    assert not sees(str(path), "another")
