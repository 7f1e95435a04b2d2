"""Evaluations of runs: which skills, on which episodes, and with which measures."""

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
from skillscape.evaluation.evaluators import evaluate, evaluating, has_maze_measures, maze_measures, named_skills
from skillscape.evaluation.returns import Episodes, Recorded
from skillscape.evaluation.rollouts import SkillRollouts
from skillscape.skills import Box, Discrete, NoSkill
from skillscape.training.policy import TrainedPolicy
from skillscape.training.run import Run

ENV = "gym/toys:Toy-v0"


class FakeRunner:
    """An EpisodeRunner without a policy: returns and states are functions of skill and seed."""

    calls: list
    closed: int
    walked: list
    walks = None
    """Positions [t + 1, p] of an episode as a function of skill and seed; None where the environment tells none."""

    def __init__(self, envs, backbone, unread=0):
        self._envs = envs
        self.size = len(envs)
        self.unread = unread

    def run(self, policy, skills, seeds, record=()):
        assert len(skills) == len(seeds) <= len(self._envs)
        FakeRunner.calls.append((np.array(skills), list(seeds)))
        index = np.argmax(skills, axis=1) if skills.shape[1] else np.zeros(len(seeds))
        states = [np.full((5, 3), 100.0 * skill) + seed % 7 for skill, seed in zip(index, seeds, strict=True)]
        return Episodes(
            10.0 * index + np.arange(len(seeds)) % 2,
            np.full(len(seeds), 20.0),
            states,
            self._positions(index, seeds),
            tuple(Recorded(np.zeros((3, 3), np.float32), np.zeros((2, 2), np.float32)) for _ in record),
        )

    def random_walk(self, seed):
        FakeRunner.walked.append(seed)
        return Recorded(np.zeros((3, 3), np.float32), np.zeros((2, 2), np.float32))

    def _positions(self, index, seeds):
        walks = type(self).walks
        return walks and [walks(skill, seed) for skill, seed in zip(index, seeds, strict=True)]

    def close(self):
        FakeRunner.closed += len(self._envs)
        for env in self._envs:
            env.close()


def fake_model_measures(config, spec, agent, state, episodes, walks, render=None):
    """Measures of a model that is never called: which episodes of each skill it would score, and random walks."""
    return {"model_accuracy": 0.5, "scored": [len(own) for own in episodes], "walks": len(walks), "render": render}


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    FakeRunner.calls, FakeRunner.closed, FakeRunner.walked = [], 0, []
    monkeypatch.setattr(evaluators, "EpisodeRunner", FakeRunner)
    monkeypatch.setattr(evaluators, "model_measures", fake_model_measures)
    return FakeRunner.calls


def a_config(method="diayn", episodes=10, **changes):
    config = configuration(method, ENV, steps=100, seed=1)
    return replace(config, evaluation=EvaluationConfig(50, episodes), **changes)


def evaluated(folder, config, *steps):
    run = Run.create(folder, config)
    with evaluating(config) as measure:
        return [measure(run, run.like, np.eye(16, dtype=np.float32)[3], step) for step in steps]


# In training


@pytest.mark.parametrize(("episodes", "each"), [(2, 1), (10, 1), (32, 2), (40, 2)])
def test_a_pre_training_evaluates_every_skill_on_the_same_seeds(tmp_path, calls, episodes, each):
    (measures,) = evaluated(tmp_path / "run", a_config(episodes=episodes), 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16), each, axis=0))
    assert seeds == seeds[:each] * 16
    assert len(set(seeds)) == each
    # Accuracy needs a held-out episode.
    accuracy = ["skill_accuracy"] if each > 1 else []
    own = ["model_accuracy", "scored", "walks", "render"]
    assert list(measures) == ["return", "return_best", "return_worst", "length", *accuracy, *own]
    assert measures["return_best"] - measures["return_worst"] == pytest.approx(150, abs=1)
    assert measures["return_worst"] < measures["return"] < measures["return_best"]
    assert FakeRunner.closed == 16 * each


def test_every_evaluation_has_reproducible_seeds_of_its_own(tmp_path, calls):
    evaluated(tmp_path / "run", a_config(), 0, 50, 50)
    first, second, again = (tuple(seeds) for _, seeds in calls)
    assert first != second == again
    evaluated(tmp_path / "other", replace(a_config(), seed=2), 50)
    assert tuple(calls[-1][1]) != second


def test_the_same_samples_of_a_continuum_are_evaluated_each_time(tmp_path, calls):
    evaluated(tmp_path / "run", a_config("cic"), 0, 50)
    (first, _), (second, _) = calls
    assert first.shape == (8, 64)
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) == 8


def test_a_method_without_skills_is_one_policy(tmp_path, calls):
    (measures,) = evaluated(tmp_path / "run", a_config("rnd", episodes=3), 0)
    ((skills, seeds),) = calls
    assert skills.shape == (3, 0)
    assert len(set(seeds)) == 3
    assert measures["return_best"] == measures["return_worst"] == measures["return"]
    assert "skill_accuracy" not in measures


def walk(skill, seed):
    """From the origin, a cell for each number of the skill to the right."""
    del seed
    return np.array([[0.5, 0.5], [0.5 + skill, 0.5]])


@pytest.fixture
def _walking(monkeypatch):
    monkeypatch.setattr(FakeRunner, "walks", staticmethod(walk))


@pytest.mark.usefixtures("_walking")
@pytest.mark.parametrize(
    ("counted", "runs", "stored"), [(0, [16], 1), (16, [16], 1), (20, [16], 1), (48, [16, 16, 16], 3)]
)
def test_positions_are_measured_on_as_many_episodes_as_asked_for(tmp_path, calls, counted, runs, stored):
    config = replace(a_config(), evaluation=EvaluationConfig(50, 10, counted))
    (measures,) = evaluated(tmp_path / "run", config, 50)
    assert [len(seeds) for _, seeds in calls] == runs
    assert measures["policy_coverage"] == 16
    assert measures["distance"] == measures["speed"] == 7.5
    assert measures["spread_between"] == pytest.approx(np.std(np.arange(16)))
    assert "spread_within" not in measures
    (path,) = (tmp_path / "run" / "rollouts").iterdir()
    positions = np.load(path)["positions"]
    assert positions.shape == (16, stored, 2, 2)
    np.testing.assert_array_equal(positions[5, -1], walk(5, 0))
    every = [pair for skills, seeds in calls for pair in zip(skills.argmax(axis=1).tolist(), seeds, strict=True)]
    assert len(set(every)) == len(every) == 16 * stored
    assert len({seed for _, seed in every}) == stored


@pytest.mark.usefixtures("_walking")
def test_coverage_of_a_continuum_draws_skills_of_its_own(tmp_path, calls):
    config = replace(a_config("cic"), evaluation=EvaluationConfig(50, 10, 20))
    (measures,) = evaluated(tmp_path / "run", config, 50)
    assert [len(seeds) for _, seeds in calls] == [8, 8, 8, 4]
    drawn = np.concatenate([skills for skills, _ in calls[1:]])
    assert len(np.unique(drawn, axis=0)) == 20
    assert measures["policy_coverage"] == len({int(index) for index in drawn.argmax(axis=1)} | {0})


@pytest.mark.usefixtures("_walking")
def test_positions_on_a_task_are_not_measured(tmp_path):
    config = a_config(phase="finetune", task=ENV, skill="3")
    (measures,) = evaluated(tmp_path / "run", config, 50)
    assert list(measures) == ["return", "return_std", "length", "skill"]


@pytest.mark.parametrize("phase", ["finetune", "train"])
def test_on_a_task_the_acting_skill_is_evaluated(tmp_path, calls, phase):
    config = a_config(phase=phase, task=ENV, skill="3" if phase == "finetune" else "prior")
    (measures,) = evaluated(tmp_path / "run", config, 50)
    ((skills, seeds),) = calls
    np.testing.assert_array_equal(skills, np.repeat(np.eye(16)[[3]], 10, axis=0))
    assert len(set(seeds)) == 10
    assert list(measures) == ["return", "return_std", "length", "skill"]
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
def test_maze_measures_are_for_mazes_without_a_task(env, task, wanted):
    assert has_maze_measures(replace(configuration(env=env), task=task)) is wanted


def a_maze_run(tmp_path, monkeypatch):
    """A run in a maze whose rollouts are given."""
    config = configuration()
    run = Run.create(tmp_path / "run", config)
    positions = np.random.default_rng(0).uniform(-0.4, 0.4, (10, 4, 51, 2)).astype(np.float32)
    episodes = SkillRollouts(positions, np.zeros((10, 4, 50, 2), np.float32))
    monkeypatch.setattr(evaluators, "skill_rollouts", lambda *_, **__: episodes)
    return config, run, positions


def test_rollouts_are_saved_in_the_run_folder(tmp_path, monkeypatch):
    config, run, positions = a_maze_run(tmp_path, monkeypatch)
    with evaluating(config) as measure:
        measures = measure(run, run.like, None, 800)
        assert {name: measures[name] for name in maze_measures(config, positions)} == maze_measures(config, positions)
        (path,) = (run.folder / "rollouts").iterdir()
        assert path.name == "000000000800.npz"
        np.testing.assert_array_equal(np.load(path)["positions"], positions)
        path.unlink()
        (run.folder / "rollouts").rmdir()
        (run.folder / "rollouts").write_text("in the way")
        with pytest.raises(Unwritable, match=r"npz cannot be written \(.*\), so training stopped; .* --resume"):
            measure(run, run.like, None, 800)


def test_rollouts_are_written_atomically(tmp_path, monkeypatch):
    config, run, _ = a_maze_run(tmp_path, monkeypatch)
    save = np.savez_compressed

    def killed(file, **arrays):
        file.write(b"PK half of an archive")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", killed)
    with evaluating(config) as measure:
        with pytest.raises(KeyboardInterrupt):
            measure(run, run.like, None, 800)
        assert list((run.folder / "rollouts").glob("*.npz")) == []
        monkeypatch.setattr(np, "savez_compressed", save)
        measure(run, run.like, None, 800)
        before = (run.folder / "rollouts" / "000000000800.npz").read_bytes()
        monkeypatch.setattr(np, "savez_compressed", killed)
        with pytest.raises(KeyboardInterrupt):
            measure(run, run.like, None, 800)
    assert (run.folder / "rollouts" / "000000000800.npz").read_bytes() == before


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path, monkeypatch):
    config, run, positions = a_maze_run(tmp_path, monkeypatch)
    (tmp_path / "precious").write_text("mine")
    (run.folder / "rollouts").mkdir()
    (run.folder / "rollouts" / "000000000800.partial").symlink_to(tmp_path / "precious")
    with evaluating(config) as measure:
        measure(run, run.like, None, 800)
    (path,) = (run.folder / "rollouts").iterdir()
    np.testing.assert_array_equal(np.load(path)["positions"], positions)
    assert (tmp_path / "precious").read_text() == "mine"


# The method's own model


@pytest.mark.parametrize(("episodes", "each"), [(16, 1), (48, 3), (160, 4)])
def test_a_model_scores_up_to_four_episodes_of_every_skill(tmp_path, episodes, each):
    (measures,) = evaluated(tmp_path / "run", a_config(episodes=episodes), 50)
    assert measures["scored"] == [each] * 16
    assert (measures["walks"], FakeRunner.walked) == (0, [])


def test_random_walks_are_taken_once_and_only_for_a_method_that_diagnoses_itself(tmp_path):
    first, second = evaluated(tmp_path / "run", a_config("sd3"), 0, 50)
    assert first["walks"] == second["walks"] == len(FakeRunner.walked) == len(set(FakeRunner.walked)) == 4


@pytest.mark.parametrize("method", ["rnd", "cic", "metra", "becl"])
def test_methods_that_score_no_skills_have_no_measures_of_a_model(tmp_path, method):
    (measures,) = evaluated(tmp_path / "run", a_config(method), 50)
    assert "model_accuracy" not in measures


def test_a_model_in_a_maze_scores_the_rollouts(tmp_path, monkeypatch):
    config, run, _ = a_maze_run(tmp_path, monkeypatch)
    with evaluating(config) as measure:
        measures = measure(run, run.like, None, 800)
    assert (measures["scored"], measures["walks"]) == ([4] * 10, 0)


def test_maze_measures_are_refused_elsewhere():
    with pytest.raises(UserError, match="is not a maze"):
        maze_measures(configuration(env=ENV), np.zeros((1, 1, 2, 2)))


# After it


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Makes the folder of a run whose policy never acts; ``tuned``: the fine-tuned skill."""

    def make(method="diayn", tuned=None, name="run", **changes):
        run = Run.create(tmp_path / name, a_config(method, **changes))
        monkeypatch.setattr(Run, "trained_policy", lambda run: TrainedPolicy(run.config, run.spec, None, 100, tuned))
        return run

    return make


def test_every_skill_is_evaluated_on_the_same_seeds(trained, calls):
    evaluation = evaluate(trained(), episodes=3, seed=5)
    assert list(evaluation.returns) == [f"skill {index}" for index in range(16)]
    assert [seeds for _, seeds in calls] == [[5, 6, 7]] * 16
    assert (evaluation.step, evaluation.finetuned) == (100, None)
    assert evaluation.measures["return_worst"] == pytest.approx(1 / 3)
    assert evaluation.measures["return_best"] == pytest.approx(150 + 1 / 3)
    assert evaluation.measures["return"] == pytest.approx(75 + 1 / 3)
    assert (evaluation.measures["skill_accuracy"], evaluation.measures["skill_accuracy_error"]) == (1.0, 0.0)
    assert FakeRunner.closed == 3


@pytest.mark.usefixtures("_walking")
def test_positions_are_measured_after_training_too(trained, calls, capsys):
    run = trained()
    measures = evaluate(run, episodes=2).measures
    assert (measures["policy_coverage"], measures["distance"], measures["spread_within"]) == (16, 7.5, 0)
    assert len(calls) == 16
    calls.clear()
    evaluate(run, episodes=2, coverage_episodes=48, seed=5)
    assert [seeds for _, seeds in calls[16:]] == [[7, 7]] * 8
    assert "policy_coverage" not in evaluate(run, episodes=2, task=ENV).measures
    main(["evaluate", str(run.folder), "--episodes", "2", "--coverage-episodes", "16"])
    assert "policy_coverage     16.000" in capsys.readouterr().out
    with pytest.raises(UserError, match="--coverage-episodes must be at least 0, not -1"):
        evaluate(run, coverage_episodes=-1)


def test_episodes_default_to_those_of_training(trained, calls):
    evaluate(trained(episodes=4))
    assert {len(seeds) for _, seeds in calls} == {4}
    with pytest.raises(UserError, match="--episodes must be at least 1, not 0"):
        evaluate(Run(trained(name="other").folder), episodes=0)


def test_accuracy_is_undefined_with_one_episode(trained):
    measures = evaluate(trained(), episodes=1).measures
    assert (measures["skill_accuracy"], measures["skill_accuracy_error"]) == (None, None)


def test_evaluation_is_without_noise(trained, monkeypatch):
    noises = []
    host_env = type(a_config()).host_env
    monkeypatch.setattr(type(a_config()), "host_env", lambda config: noises.append(config.noise) or host_env(config))
    run = trained(noise=0.5)
    _ = run.spec
    noises.clear()
    evaluate(run, episodes=2)
    assert noises == [0.0, 0.0]


def test_evaluate_marks_the_fine_tuned_skill(trained, capsys):
    run = trained(tuned=np.eye(16, dtype=np.float32)[10], phase="finetune", task=ENV, skill="10")
    evaluation = evaluate(run, episodes=2)
    assert evaluation.finetuned == "skill 10"
    assert evaluation.measures["return"] == np.mean(evaluation.returns["skill 10"]) == 100.5
    main(["evaluate", str(run.folder)])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("fine-tuned")]
    assert [line.split()[:2] for line in lines] == [["skill", "10"]]


def test_the_fine_tuned_skill_of_a_continuum_is_evaluated_too(trained, calls):
    tuned = np.full(64, 0.5, np.float32)
    evaluation = evaluate(trained("cic", tuned, phase="finetune", task=ENV, skill="constant"))
    assert list(evaluation.returns) == ["fine-tuned", *(f"draw {index}" for index in range(8))]
    assert evaluation.finetuned == "fine-tuned"
    np.testing.assert_array_equal(calls[0][0][0], tuned)


def test_a_controller_is_one_policy_whatever_its_skills(trained, calls):
    evaluation = evaluate(trained(phase="finetune", task=ENV, skill="controller", tuned=np.full(16, 1 / 16)))
    assert list(evaluation.returns) == ["controller"]
    assert evaluation.finetuned is None
    assert evaluation.measures["skill_accuracy"] is None


def test_training_from_scratch_is_one_policy(trained):
    evaluation = evaluate(trained(phase="train", task=ENV, objective=None, skill="prior"), episodes=2)
    assert list(evaluation.returns) == ["policy 0"]
    assert evaluation.measures["return"] == evaluation.measures["return_best"] == 0.5


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
def test_names_of_skills(space, names):
    assert list(named_skills(space)) == names


# On the command line


def test_one_json_object_holds_measures_and_runs(trained, capsys):
    run = trained()
    main(["evaluate", str(run.folder), "--json", "--episodes", "2"])
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["measures", "runs"]
    assert printed["measures"]["return_best"] == {"mean": 150.5, "interval": None, "per_seed": [150.5]}
    (result,) = printed["runs"]
    assert (result["seed"], result["step"], result["finetuned"]) == (1, 100, None)
    assert result["returns"]["skill 2"] == [20.0, 21.0]
    assert result["measures"]["return_best"] == 150.5


def test_the_printed_table(trained, capsys):
    run = trained()
    main(["evaluate", str(run.folder), "--episodes", "2"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"diayn in {ENV}, 100 steps, 1 seed"
    assert [line.split()[0] for line in lines[:4]] == ["return", "return_best", "return_worst", "skill_accuracy"]
    assert lines[4] == "  mean return of each skill"
    assert lines[5].split() == ["skill", "0", "0.5", "episodes", "0.0", "to", "1.0"]
    assert len(lines) == 5 + 16


def test_a_summary_of_several_seeds_lists_the_returns_of_each(trained, capsys, tmp_path):
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
