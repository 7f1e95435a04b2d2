"""Evaluations of runs: which skills are played, on which episodes, and what is told of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from laid_out import configuration

import skillscape
from skillscape.cli import main
from skillscape.config import EvaluationConfig
from skillscape.errors import Unwritable, UserError
from skillscape.evaluation import evaluators
from skillscape.evaluation.evaluators import evaluate, evaluating, maze_measures, measured_in_maze, named_skills
from skillscape.evaluation.returns import Returns
from skillscape.skills import Box, Discrete, NoSkill
from skillscape.training.policy import TrainedPolicy
from skillscape.training.run import Run

ENV = "gym/toys:Toy-v0"


class Played:
    """Stands in for episodes: a row earns what its skill and its seed say, so that nothing has to act."""

    calls: list
    closed: int

    def __init__(self, envs, backbone):
        self._envs = envs

    def play(self, policy, skills, seeds):
        assert len(skills) == len(seeds) == len(self._envs)
        Played.calls.append((np.array(skills), list(seeds)))
        index = np.argmax(skills, axis=1) if skills.shape[1] else np.zeros(len(seeds))
        states = [np.full((5, 3), 100.0 * skill) + seed % 7 for skill, seed in zip(index, seeds, strict=True)]
        return Returns(10.0 * index + np.arange(len(seeds)) % 2, np.full(len(seeds), 20.0), states)

    def close(self):
        Played.closed += len(self._envs)
        for env in self._envs:
            env.close()


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    Played.calls, Played.closed = [], 0
    monkeypatch.setattr(evaluators, "Player", Played)
    return Played.calls


def a_config(method="diayn", episodes=10, **changes):
    config = configuration(method, ENV, steps=100, seed=1)
    return replace(config, evaluation=EvaluationConfig(50, episodes), **changes)


def evaluated(folder, config, *steps):
    run = Run.create(folder, config)
    with evaluating(config) as measure:
        return [measure(run, None, np.eye(16, dtype=np.float32)[3], step) for step in steps]


# In training


@pytest.mark.parametrize(("episodes", "each"), [(2, 1), (10, 1), (32, 2), (40, 2)])
def test_a_pre_training_plays_every_skill_on_the_same_episodes(tmp_path, calls, episodes, each):
    (measures,) = evaluated(tmp_path / "run", a_config(episodes=episodes), 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16), each, axis=0))
    assert seeds == seeds[:each] * 16
    assert len(set(seeds)) == each
    # One episode of a skill does not tell whether its states name it.
    told_apart = ["skill_accuracy"] if each > 1 else []
    assert list(measures) == ["return", "return_best", "return_worst", "length", *told_apart]
    assert measures["return_best"] - measures["return_worst"] == pytest.approx(150, abs=1)
    assert measures["return_worst"] < measures["return"] < measures["return_best"]
    assert Played.closed == 16 * each


def test_every_evaluation_has_episodes_of_its_own_and_repeats_them(tmp_path, calls):
    evaluated(tmp_path / "run", a_config(), 0, 50, 50)
    first, second, again = (tuple(seeds) for _, seeds in calls)
    assert first != second == again
    evaluated(tmp_path / "other", replace(a_config(), seed=2), 50)
    assert tuple(calls[-1][1]) != second


def test_of_a_continuum_the_same_few_skills_are_played_each_time(tmp_path, calls):
    evaluated(tmp_path / "run", a_config("cic"), 0, 50)
    (first, _), (second, _) = calls
    assert first.shape == (8, 64)
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) == 8


def test_a_method_without_skills_plays_its_episodes(tmp_path, calls):
    (measures,) = evaluated(tmp_path / "run", a_config("rnd", episodes=3), 0)
    ((skills, seeds),) = calls
    assert skills.shape == (3, 0)
    assert len(set(seeds)) == 3
    assert measures["return_best"] == measures["return_worst"] == measures["return"]
    assert "skill_accuracy" not in measures


@pytest.mark.parametrize("phase", ["finetune", "train"])
def test_a_task_plays_the_skill_that_acts(tmp_path, calls, phase):
    config = a_config(phase=phase, task=ENV, skill="3" if phase == "finetune" else "prior")
    (measures,) = evaluated(tmp_path / "run", config, 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16)[[3]], 10, axis=0))
    assert len(set(seeds)) == 10
    assert list(measures) == ["return", "return_deviation", "length", "skill"]
    assert measures["skill"] == 3


@pytest.mark.parametrize(
    ("env", "task", "wanted"),
    [
        ("maze/square_a", None, True),
        ("maze/square_a", "reach", False),
        ("maze-pixels/square_a", None, True),
        ("walker", None, False),
        (ENV, None, False),
    ],
)
def test_mazes_without_a_task_are_measured_by_where_skills_go(env, task, wanted):
    assert measured_in_maze(replace(configuration(env=env), task=task)) is wanted


def test_where_skills_went_is_kept_beside_the_run(tmp_path, monkeypatch):
    config = configuration()
    run = Run.create(tmp_path / "run", config)
    positions = np.random.default_rng(0).uniform(-0.4, 0.4, (10, 4, 51, 2)).astype(np.float32)
    monkeypatch.setattr(evaluators, "maze_rollouts", lambda *_: positions)
    with evaluating(config) as measure:
        measures = measure(run, None, None, 800)
        assert measures == maze_measures(config, positions)
        (path,) = (run.folder / "rollouts").iterdir()
        assert path.name == "000000000800.npz"
        np.testing.assert_array_equal(np.load(path)["positions"], positions)
        path.unlink()
        (run.folder / "rollouts").rmdir()
        (run.folder / "rollouts").write_text("in the way")
        with pytest.raises(Unwritable, match=r"npz cannot be written \(.*\), so training stopped; .* --resume"):
            measure(run, None, None, 800)


def test_measures_of_mazes_are_for_mazes():
    with pytest.raises(UserError, match="is not a maze"):
        maze_measures(configuration(env=ENV), np.zeros((1, 1, 2, 2)))


# After it


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Makes the folder of a run whose policy is told, and never acts."""

    def make(method="diayn", kept=None, name="run", **changes):
        run = Run.create(tmp_path / name, a_config(method, **changes))
        monkeypatch.setattr(Run, "trained_policy", lambda run: TrainedPolicy(run.config, run.spec, None, 100, kept))
        return run

    return make


def test_every_skill_is_played_on_the_same_episodes(trained, calls):
    found = evaluate(trained(), episodes=3, seed=5)
    assert list(found.returns) == [f"skill {index}" for index in range(16)]
    assert [seeds for _, seeds in calls] == [[5, 6, 7]] * 16
    assert (found.step, found.finetuned) == (100, None)
    assert found.measures["return_worst"] == pytest.approx(1 / 3)
    assert found.measures["return_best"] == pytest.approx(150 + 1 / 3)
    assert found.measures["return"] == pytest.approx(75 + 1 / 3)
    assert (found.measures["skill_accuracy"], found.measures["skill_accuracy_error"]) == (1.0, 0.0)
    assert Played.closed == 3


def test_episodes_are_as_many_as_in_training_unless_told_otherwise(trained, calls):
    evaluate(trained(episodes=4))
    assert {len(seeds) for _, seeds in calls} == {4}
    with pytest.raises(UserError, match="--episodes must be at least 1, not 0"):
        evaluate(Run(trained(name="other").folder), episodes=0)


def test_one_episode_does_not_tell_skills_apart(trained):
    measures = evaluate(trained(), episodes=1).measures
    assert (measures["skill_accuracy"], measures["skill_accuracy_error"]) == (None, None)


def test_what_was_trained_with_noise_is_measured_without(trained, monkeypatch):
    made = []
    host_env = type(a_config()).host_env
    monkeypatch.setattr(type(a_config()), "host_env", lambda config: made.append(config.noise) or host_env(config))
    run = trained(noise=0.5)
    _ = run.spec
    made.clear()
    evaluate(run, episodes=2)
    assert made == [0.0, 0.0]


def test_evaluate_says_which_skill_was_fine_tuned(trained, capsys):
    run = trained(kept=np.eye(16, dtype=np.float32)[10], phase="finetune", task=ENV, skill="10")
    found = evaluate(run, episodes=2)
    assert found.finetuned == "skill 10"
    assert found.measures["return"] == np.mean(found.returns["skill 10"]) == 100.5
    main(["evaluate", str(run.folder)])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("fine-tuned")]
    assert [line.split()[:2] for line in lines] == [["skill", "10"]]


def test_of_a_continuum_the_skill_that_was_fine_tuned_is_played_too(trained, calls):
    kept = np.full(64, 0.5, np.float32)
    found = evaluate(trained("cic", kept, phase="finetune", task=ENV, skill="constant"))
    assert list(found.returns) == ["fine-tuned", *(f"draw {index}" for index in range(8))]
    assert found.finetuned == "fine-tuned"
    np.testing.assert_array_equal(calls[0][0][0], kept)


def test_a_controller_is_one_policy_whatever_its_skills(trained, calls):
    found = evaluate(trained(phase="finetune", task=ENV, skill="controller", kept=np.full(16, 1 / 16)))
    assert list(found.returns) == ["controller"]
    assert found.finetuned is None
    assert found.measures["skill_accuracy"] is None


def test_training_from_scratch_is_one_policy(trained):
    found = evaluate(trained(phase="train", task=ENV, objective=None, skill="prior"), episodes=2)
    assert list(found.returns) == ["policy 0"]
    assert found.measures["return"] == found.measures["return_best"] == 0.5


def test_another_task_is_measured_where_the_environment_has_it(trained):
    assert len(evaluate(trained(), task=ENV, episodes=1).returns) == 16
    with pytest.raises(UserError, match="has one task, itself, and walker_walk is another"):
        evaluate(trained(name="other"), task="walker_walk")


@pytest.mark.parametrize(
    ("space", "names"),
    [
        (Discrete(2), ["skill 0", "skill 1"]),
        (Box(3), [f"draw {index}" for index in range(8)]),
        (NoSkill(), ["policy 0"]),
    ],
)
def test_skills_have_the_names_of_what_they_are(space, names):
    assert [name for name, _ in named_skills(space)] == names


# On the command line


def test_one_json_object_tells_measures_and_runs(trained, capsys):
    run = trained()
    main(["evaluate", str(run.folder), "--json", "--episodes", "2"])
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["measures", "runs"]
    assert told["measures"]["return_best"] == {"mean": 150.5, "interval": None, "per_seed": [150.5]}
    (found,) = told["runs"]
    assert (found["seed"], found["step"], found["finetuned"]) == (1, 100, None)
    assert found["returns"]["skill 2"] == [20.0, 21.0]
    assert found["measures"]["return_best"] == 150.5


def test_it_is_printed_for_reading(trained, capsys):
    run = trained()
    main(["evaluate", str(run.folder), "--episodes", "2"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"diayn in {ENV}, 100 steps, 1 seed"
    assert [line.split()[0] for line in lines[:4]] == ["return", "return_best", "return_worst", "skill_accuracy"]
    assert lines[4] == "  mean return of each skill"
    assert lines[5].split() == ["skill", "0", "0.5", "episodes", "0.0", "to", "1.0"]
    assert len(lines) == 5 + 16


def test_a_summary_of_several_seeds_is_told_with_the_returns_of_each(trained, capsys, tmp_path):
    for seed in (4, 5):
        trained(name=f"runs/seed_{seed}", seed=seed)
    main(["evaluate", str(tmp_path / "runs"), "--episodes", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"diayn in {ENV}, 100 steps, 2 seeds"
    assert "95 % interval" in lines[1]
    assert "  mean return of each skill, seed 4" in lines
    assert "  mean return of each skill, seed 5" in lines
    assert lines[-1] == "With 2 seeds, a 95 % bootstrap interval is about the range of the seeds."
    assert skillscape.summarise_runs(skillscape.load_seeds(tmp_path / "runs"))["return"].interval is not None
