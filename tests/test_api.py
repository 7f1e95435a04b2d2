"""The interface for Python, used as the README uses it."""

import jax
import numpy as np
import pytest

import skillscape
from skillscape.errors import LeftOut
from skillscape.training.run import Run


class Listener(skillscape.Callback):
    """Keeps what it is told."""

    def __init__(self):
        self.told, self.rows = [], []

    def on_progress(self, run, step, pace, row):
        self.told.append((run, step, pace, row))

    def on_log(self, run, log, step, row):
        self.rows.append((log, step))


@pytest.fixture(scope="module")
def listener():
    """What the callback of the trained run was told."""
    return Listener()


@pytest.fixture(scope="module")
def run(tmp_path_factory, listener):
    jax.config.update("jax_disable_most_optimizations", True)
    trained = skillscape.pretrain(
        "diayn",
        env="maze/square_a",
        out=tmp_path_factory.mktemp("runs") / "diayn",
        preset="smoke",
        steps=1600,
        callbacks=[listener],
        progress=False,
    )
    jax.config.update("jax_disable_most_optimizations", False)
    return trained


def test_one_run_is_returned_and_of_several_seeds_a_list(run, tmp_path, monkeypatch):
    assert isinstance(run, skillscape.Run)
    monkeypatch.setattr("skillscape.launch.train", lambda *_, **__: None)
    several = skillscape.pretrain("diayn", out=tmp_path / "two", preset="smoke", seed=4, seeds=2)
    assert [each.config.seed for each in several] == [4, 5]
    assert [each.folder.name for each in several] == ["seed_4", "seed_5"]
    (one,) = skillscape.pretrain("diayn", out=tmp_path / "one", preset="smoke", seeds=1)
    assert one.folder == tmp_path / "one"


def test_progress_is_told_after_every_iteration(run, listener):
    assert [step for _, step, _, _ in listener.told] == [400, 800, 1200, 1600]
    assert all(told.folder == run.folder for told, _, _, _ in listener.told)
    assert "1,600/1,600 steps" in listener.told[-1][2]
    assert {"reward", "coverage", "skill_accuracy"} <= set(listener.told[-1][3])


def test_every_row_of_the_logs_is_told(run, listener):
    for log, table in (("metrics", run.metrics()), ("evaluation", run.evaluation())):
        assert [step for name, step in listener.rows if name == log] == table["step"]
    assert run.evaluation()["step"] == [0, 800, 1600]


def test_other_callbacks_are_in_place_of_tensorboard(run):
    assert not (run.folder / "tensorboard").exists()


def test_a_method_without_skills_has_no_measures_that_tell_skills_apart(tmp_path):
    alone = skillscape.pretrain("apt", out=tmp_path / "apt", preset="smoke", steps=400, progress=False)
    assert list(alone.results["measures"]) == ["coverage", "reach"]
    measures = skillscape.evaluate(alone).measures
    assert measures["coverage"] == alone.results["measures"]["coverage"]
    told_apart = ["mutual_information", "skill_accuracy", "mutual_information_error", "skill_accuracy_error"]
    assert [measures[name] for name in told_apart] == [None] * 4
    assert skillscape.rollouts(alone).shape == (1, 40, 51, 2)
    assert skillscape.rollouts(alone, per_skill=3).shape == (1, 3, 51, 2)
    assert skillscape.summarise_runs([alone])["skill_accuracy"] is None


def test_a_run_loads_from_its_folder_or_from_itself(run):
    assert skillscape.load(str(run.folder)).config == run.config
    assert skillscape.load(run.folder).config == run.config
    assert skillscape.load(run) is run


def test_the_measures_are_those_of_the_results(run):
    found = skillscape.evaluate(run)
    assert found.measures == run.results["measures"]
    assert (found.step, found.returns, found.finetuned) == (1600, {}, None)
    assert skillscape.evaluate(run.folder).measures == found.measures


def test_a_summary_over_one_run_is_that_run_without_an_interval(run):
    summaries = skillscape.summarise_runs([run])
    assert {name: summary.mean for name, summary in summaries.items()} == run.results["measures"]
    assert {summary.interval for summary in summaries.values()} == {None}


def test_a_summary_leaves_out_what_cannot_be_measured(run, tmp_path):
    empty = Run.create(tmp_path / "empty", run.config)
    with pytest.warns(LeftOut, match="left out: .*empty has no checkpoint yet"):
        summaries = skillscape.summarise_runs([empty, run])
    assert summaries["reach"].per_seed == (run.results["measures"]["reach"],)
    with pytest.raises(skillscape.UserError, match="The list of runs is empty"):
        skillscape.summarise_runs([])


@pytest.mark.parametrize(("episodes", "task", "least"), [(1, None, 2), (0, None, 2), (0, "reach", 1), (-1, "reach", 1)])
def test_too_few_episodes_are_a_users_error(run, episodes, task, least):
    with pytest.raises(skillscape.UserError, match=f"--episodes must be at least {least}, not {episodes}"):
        skillscape.evaluate(run, task=task, episodes=episodes)


def test_a_maze_is_measured_by_a_task_too(run):
    found = skillscape.evaluate(run, task="reach", episodes=2)
    assert list(found.returns) == [f"skill {index}" for index in range(10)]
    assert all(len(returns) == 2 for returns in found.returns.values())
    assert found.measures["return_best"] >= found.measures["return"] >= found.measures["return_worst"]
    with pytest.raises(skillscape.UserError, match="walker_walk"):
        skillscape.evaluate(run, task="walker_walk")


def test_rollouts_are_episodes_of_every_skill_from_the_fixed_start(run):
    positions = skillscape.rollouts(run, per_skill=4)
    assert positions.shape == (10, 4, 51, 2)
    np.testing.assert_array_equal(positions[:, :, 0], np.broadcast_to(np.float32([0, -0.5]), (10, 4, 2)))


def test_rollouts_depend_on_their_seed_alone(run):
    first, again, other = (skillscape.rollouts(run, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first[:, :, 1:] != other[:, :, 1:]).mean() > 0.9


def test_rollouts_are_of_mazes(tmp_path):
    from laid_out import configuration

    elsewhere = Run.create(tmp_path / "run", configuration(env="gym/toys:Long-v0"))
    elsewhere.trained_policy = lambda: type("Trained", (), {"params": None})
    with pytest.raises(skillscape.UserError, match="gym/toys:Long-v0 is not a maze"):
        skillscape.rollouts(elsewhere)
