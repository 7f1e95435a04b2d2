"""Places that training has visited: bins, the queue, and that a run which was stopped knows them all."""

import json

import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

import skillscape
from skillscape.errors import UserError
from skillscape.training import positions
from skillscape.training.positions import Visited, bins


def test_bins_are_rounded_down_also_below_zero():
    found = bins(np.array([[0.0, 0.99], [0.5, 0.1], [-0.01, 0.5], [1.0, -1.0]]))
    assert found == {(0, 0), (-1, 0), (1, -1)}
    assert bins(np.array([[2.5], [2.6], [-2.5]])) == {(2,), (-3,)}


def test_the_queue_forgets_and_the_total_does_not(monkeypatch):
    monkeypatch.setattr(positions, "QUEUE_STEPS", 25)
    visited = before = Visited()
    for x in range(5):
        visited = visited.after(np.array([[x, 0.0], [x + 0.5, 0.0]]), horizon=10)
    assert visited.measures == {"total_coverage": 5.0, "queue_coverage": 2.0}
    assert visited.after(np.array([[0.0, 0.0]]), horizon=10).measures == {"total_coverage": 5.0, "queue_coverage": 2.0}
    assert before.measures == {"total_coverage": 0.0, "queue_coverage": 0.0}
    # An episode longer than the queue is its only one.
    assert visited.after(np.array([[9.0, 9.0]]), horizon=1_000).measures["queue_coverage"] == 1.0


def test_json_gives_them_back():
    visited = Visited().after(np.array([[0.5, 3.0], [-7.0, 3.0]]), 10).after(np.array([[1.0, 1.0]]), 10)
    assert Visited.from_json(json.loads(json.dumps(visited.to_json()))) == visited


def pretrained(out, **settings):
    return skillscape.pretrain(
        "diayn",
        "gym/toys:Toy-v0",
        out=out,
        preset="smoke",
        steps=150,
        env_position=[0, 1],
        backbone={"warmup_steps": 30, "batch_size": 8, "width": 8},
        objective={"number_of_skills": 2},
        # Evaluations in the middle of episodes, which last 20 steps.
        evaluation={"every": 50, "episodes": 2, "coverage_episodes": 4},
        progress=False,
        **settings,
    )


@pytest.fixture
def _small_queue(monkeypatch):
    monkeypatch.setattr(positions, "QUEUE_STEPS", 60)


@pytest.mark.usefixtures("_small_queue")
@pytest.mark.parametrize("copies", [1, 3])
def test_a_run_that_was_stopped_knows_where_it_has_been(tmp_path, copies):
    class Stop(skillscape.Callback):
        def on_log(self, run, log, step, row):
            if log == "evaluation" and step == 100:
                raise KeyboardInterrupt

    whole = pretrained(tmp_path / "whole", copies=copies)
    with pytest.raises(KeyboardInterrupt):
        pretrained(tmp_path / "stopped", copies=copies, callbacks=[Stop()])
    again = pretrained(tmp_path / "stopped", copies=copies, resume=True)
    assert again.evaluation() == whole.evaluation()
    log = whole.evaluation()
    assert log["total_coverage"][0] == 0
    assert log["total_coverage"] == sorted(log["total_coverage"])
    assert log["total_coverage"][-1] > 1
    assert log["queue_coverage"][-1] <= log["total_coverage"][-1]
    assert whole.config.env_position == (0, 1)
    assert {"policy_coverage", "distance", "speed", "spread_between"} <= set(log)


def test_another_position_is_not_the_same_run(tmp_path):
    pretrained(tmp_path / "run")
    with pytest.raises(UserError, match=r"env_position: \[0, 1\] in the run, \[0\] asked for"):
        skillscape.pretrain("diayn", "gym/toys:Toy-v0", out=tmp_path / "run", resume=True, env_position=[0])


def test_total_coverage_counts_what_complete_episodes_visited(tmp_path, monkeypatch):
    seen = []
    after = Visited.after
    monkeypatch.setattr(Visited, "after", lambda self, path, horizon: seen.append(path) or after(self, path, horizon))
    run = pretrained(tmp_path / "run")
    assert [len(path) for path in seen] == [21] * 7
    every = {tuple(place) for place in np.floor(np.concatenate(seen)).astype(int).tolist()}
    assert run.evaluation()["total_coverage"][-1] == len(every)
