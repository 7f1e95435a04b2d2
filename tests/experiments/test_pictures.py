"""Which numbers are drawn of a run."""

import fake_runs
import numpy as np
import pytest

from skillscape.evaluation.mazes import MazeMeasures
from skillscape.experiments import pictures
from skillscape.training.jobs import JobRun

SEVERAL = ("distinguishability", "skill_accuracy")


@pytest.mark.parametrize(("method", "drawn"), [("apt", {"coverage"}), ("diayn", {"coverage", *SEVERAL})])
def test_one_policy_has_no_curves_that_tell_skills_apart(tmp_path, monkeypatch, method, drawn):
    folder = fake_runs.job_run(tmp_path / "run", method, phase="pretrain", env="maze-pixels/square_a")
    columns = ["step", "coverage", *SEVERAL]
    fake_runs.write_log(folder / "evaluation.csv", columns, [[step, 0.5, 0.1, 1.0] for step in (0, 1_000)])
    fake_runs.write_log(folder / "metrics.csv", ["step"], [])
    curves = {}
    monkeypatch.setattr(pictures, "rollouts", lambda _: np.zeros((1 if method == "apt" else 2, 2, 3, 2)))
    monkeypatch.setattr(pictures, "trajectory_figure", lambda *_: None)
    monkeypatch.setattr(pictures, "curves_figure", lambda found, *_: curves.update(found))
    pictures.draw_jobs([JobRun(folder)], tmp_path / "plots")
    assert set(curves) == drawn


@pytest.mark.parametrize(
    ("skills", "information", "line"),
    [(2, 0.25, "coverage 0.50 · reach 0.50 · I(S;Z) 0.25"), (1, 0.25, "coverage 0.50 · reach 0.50")],
)
def test_a_caption_says_what_is_known(skills, information, line):
    values = {**dict.fromkeys(MazeMeasures._fields, 0.5), "distinguishability": information}
    assert pictures.caption(MazeMeasures(**values), skills=skills) == line
    assert pictures.caption(MazeMeasures(**values)._replace(distinguishability=None), skills=skills).endswith(
        "reach 0.50"
    )
