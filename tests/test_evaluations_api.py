"""Evaluations of runs on host environments: which skills are played, on which episodes, and what is told of them."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from skillscape import api
from skillscape.api import evaluating, skill_returns
from skillscape.cli import main
from skillscape.errors import Notice
from skillscape.evaluation.episodes import Returns
from skillscape.presets import hosted_settings
from skillscape.training.jobs import Job, JobRun

ENV = "gym/toys:Toy-v0"


class Played:
    """Stands in for episodes: a row earns what its skill and its seed say, so that nothing has to act."""

    calls: list

    def __init__(self, envs, backbone):
        self._envs = envs

    def play(self, policy, skills, seeds):
        assert len(skills) == len(seeds) == len(self._envs)
        Played.calls.append((np.array(skills), list(seeds)))
        index = np.argmax(skills, axis=1) if skills.shape[1] else np.zeros(len(seeds))
        return Returns(10.0 * index + np.arange(len(seeds)) % 2, np.full(len(seeds), 20.0))

    def close(self):
        for env in self._envs:
            env.close()


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    Played.calls = []
    monkeypatch.setattr(api, "Evaluator", Played)
    return Played.calls


def a_job(method="diayn", **changes):
    chosen = hosted_settings(method, ENV, "smoke")
    job = Job(
        phase="pretrain",
        env=ENV,
        task=None,
        noise=0.0,
        objective=chosen.objective,
        backbone=chosen.backbone,
        steps=100,
        seed=1,
        evaluate_every=50,
        evaluation_episodes=10,
    )
    return replace(job, **changes)


def evaluated(folder, job, *steps):
    run = JobRun.create(folder, job)
    with evaluating(job) as evaluate:
        return [evaluate(run, None, np.eye(16, dtype=np.float32)[3], step) for step in steps]


@pytest.mark.parametrize(("episodes", "each"), [(2, 1), (10, 1), (32, 2), (40, 2)])
def test_a_pre_training_plays_every_skill_on_the_same_episodes(tmp_path, calls, episodes, each):
    (measures,) = evaluated(tmp_path / "run", a_job(evaluation_episodes=episodes), 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16), each, axis=0))
    assert seeds == seeds[:each] * 16
    assert len(set(seeds)) == each
    assert list(measures) == ["return", "return_best", "return_worst", "length"]
    assert measures["return_best"] - measures["return_worst"] == pytest.approx(150, abs=1)
    assert measures["return_worst"] < measures["return"] < measures["return_best"]


def test_of_a_continuum_the_same_few_skills_are_played_each_time(tmp_path, calls):
    evaluated(tmp_path / "run", a_job("cic"), 0, 50)
    (first, _), (second, _) = calls
    assert first.shape == (8, 64)
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) == 8


def test_a_method_without_skills_plays_its_episodes(tmp_path, calls):
    (measures,) = evaluated(tmp_path / "run", a_job("rnd", evaluation_episodes=3), 0)
    ((skills, seeds),) = calls
    assert skills.shape == (3, 0)
    assert len(set(seeds)) == 3
    assert measures["return_best"] == measures["return_worst"] == measures["return"]


def test_a_fine_tuning_plays_the_skill_it_is_of(tmp_path, calls):
    (measures,) = evaluated(tmp_path / "run", a_job(phase="finetune", task=ENV, skill="3"), 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16)[[3]], 10, axis=0))
    assert len(set(seeds)) == 10
    assert measures["skill"] == 3


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """Makes the folder of a fine-tuning that kept a skill."""

    def make(method, kept, **changes):
        folder = tmp_path / "tuned"
        JobRun.create(folder, a_job(method, phase="finetune", task=ENV, **changes))
        monkeypatch.setattr(JobRun, "snapshot", lambda *_: (100, None, None))
        monkeypatch.setattr(JobRun, "lasting_skill", lambda _: kept)
        monkeypatch.setattr("skillscape.backbones.ddpg.DDPG.policy_params", lambda *_: None)
        return folder

    return make


def test_evaluate_says_which_skill_was_fine_tuned(tuned, capsys):
    folder = tuned("diayn", np.eye(16, dtype=np.float32)[10], skill="10")
    main(["evaluate", str(folder)])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("fine-tuned")]
    assert [line.split()[:2] for line in lines] == [["skill", "10"]]


def test_of_a_continuum_the_skill_that_was_fine_tuned_is_played_too(tuned, calls):
    kept = np.full(64, 0.5, np.float32)
    (found,) = skill_returns(tuned("cic", kept, skill="constant"), drawn=3)
    assert list(found["returns"]) == ["fine-tuned", "draw 0", "draw 1", "draw 2"]
    np.testing.assert_array_equal(calls[0][0][0], kept)


# Budgets that are too small


@pytest.fixture
def _unlearned(monkeypatch):
    """Ends every run at once, as if its budget were over before learning begins."""
    jax.config.update("jax_disable_most_optimizations", True)
    monkeypatch.setattr(api, "train_job", lambda run, *_: (run.folder / "metrics.csv").write_text(""))
    monkeypatch.setattr(api, "_write_job_results", lambda _: None)
    monkeypatch.setattr(api, "_first_state", lambda *_: None)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("_unlearned")
def test_a_budget_that_ends_before_learning_begins_is_told(tmp_path, capsys):
    with pytest.warns(Notice, match=r"nothing was learned in 500 steps, since learning begins after 1,000 of them"):
        api.pretrain("diayn", ENV, out=tmp_path / "run", preset="smoke", steps=500)
    main(["pretrain", "diayn", "--env", ENV, "--preset", "smoke", "--steps", "500", "--out", str(tmp_path / "again")])
    assert "skillscape: " in capsys.readouterr().err


@pytest.mark.usefixtures("_unlearned")
def test_a_budget_that_is_learned_in_is_not(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(api, "train_job", lambda run, *_: (run.folder / "metrics.csv").write_text("step,loss\n1,2\n"))
    main(["pretrain", "diayn", "--env", ENV, "--preset", "smoke", "--steps", "1500", "--out", str(tmp_path / "run")])
    assert "nothing was learned" not in capsys.readouterr().err
