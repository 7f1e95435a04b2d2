"""Measures of a method's own model: known scores, what objectives see of episodes, and short runs that log them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dreams import SPEC, TINY, begun
from laid_out import configuration

import skillscape
from skillscape.cli import main
from skillscape.evaluation import skill_model
from skillscape.evaluation.returns import Recorded
from skillscape.evaluation.skill_model import has_model_measures, model_measures, recorded_episodes
from skillscape.export import export_run
from skillscape.objectives.base import DiscreteSkills, Objective
from skillscape.training.run import Run
from skillscape.types import EnvSpec

SKILLS, HORIZON = 4, 30
STATES = EnvSpec((SKILLS + 1,), 2, HORIZON)
OWN = ("density_deviation", "bonus")
WHERE = ("own_skill", "other_skills", "random_walks")


@dataclass(frozen=True)
class Known(DiscreteSkills, Objective[None]):
    """Scores that are given functions of states; a state is its skill, one-hot, and the time."""

    name: ClassVar[str] = "known"
    label: ClassVar[str] = "Known"

    number_of_skills: int = SKILLS
    scores: Callable = lambda obs: 0 * obs[:, :-1]

    def init(self, key, spec):
        del key, spec

    def update(self, state, batch, key):
        raise NotImplementedError

    def reward(self, state, batch, key):
        raise NotImplementedError

    def score_skills(self, state, obs):
        del state
        return self.scores(obs)


class Diagnosed(Known):
    """Its diagnosis tells what it was given."""

    def diagnose(self, state, obs, skill, random):
        del state
        return {"first_time": jnp.min(obs[:, -1]), "agrees": jnp.mean(obs[:, :-1] == skill), "rows": len(random)}


def episodes_of(lengths=(HORIZON,) * 2):
    """Episodes of every skill, as long as said."""

    def episode(skill, length):
        times = np.arange(length + 1, dtype=np.float32)[:, None]
        return Recorded(
            np.hstack([np.repeat(np.eye(SKILLS, dtype=np.float32)[[skill]], length + 1, axis=0), times]),
            np.zeros((length, 2), np.float32),
        )

    return [[episode(skill, length) for length in lengths] for skill in range(SKILLS)]


AGENT = configuration().backbone.init(jax.random.key(0), STATES, Known())


def measured(objective, episodes=None, walks=()):
    config = replace(configuration(), objective=objective)
    return model_measures(config, STATES, AGENT, None, episodes or episodes_of(), walks)


def perfect(obs):
    return 100 * obs[:, :-1]


def uninformative(obs):
    return jnp.full_like(obs[:, :-1], -7.0)


def overconfident(obs):
    """Names the next skill, by 20 nats, in the second half of an episode."""
    late = (obs[:, -1:] > HORIZON / 2 + 0.5).astype(jnp.float32)
    return 20 * ((1 - late) * obs[:, :-1] + late * jnp.roll(obs[:, :-1], 1, axis=1))


def calibrated(obs):
    return jnp.log(0.7 * obs[:, :-1] + 0.1 * (1 - obs[:, :-1])) - 50.0


@pytest.mark.parametrize(
    ("scores", "accuracy", "information"),
    [
        (perfect, 1.0, np.log(SKILLS)),
        (uninformative, 1 / SKILLS, 0.0),
        (overconfident, 0.5, np.log(SKILLS) - 10),
        (calibrated, 1.0, np.log(SKILLS) + np.log(0.7)),
    ],
)
def test_accuracy_and_information_of_known_scores(scores, accuracy, information):
    measures = measured(Known(scores=scores))
    assert list(measures) == ["model_accuracy", "model_information"]
    assert measures["model_accuracy"] == pytest.approx(accuracy, abs=0.01)
    assert measures["model_information"] == pytest.approx(information, abs=0.1)


def test_every_episode_has_the_same_weight_however_long():
    """Of the two episodes of a skill the short one, of five steps, is never late enough to be misjudged."""
    measures = measured(Known(scores=overconfident), episodes_of((HORIZON, 5)))
    assert measures["model_accuracy"] == pytest.approx(0.75, abs=0.01)


def test_episodes_of_other_lengths_compile_nothing_new():
    measured(Known(scores=perfect), episodes_of((HORIZON, 5)))
    features = skill_model._compiled_features(configuration().backbone, None)
    measures = skill_model._compiled_measures(Known(scores=perfect))
    before = features._cache_size(), measures._cache_size()
    measured(Known(scores=perfect), episodes_of((9, 17)))
    assert (features._cache_size(), measures._cache_size()) == before


def test_a_diagnosis_sees_the_states_after_the_start_their_skills_and_random_walks():
    walks = episodes_of()[0]
    measures = measured(Diagnosed(scores=perfect), walks=walks)
    assert list(measures)[:2] == ["model_accuracy", "model_information"]
    assert (measures["first_time"], measures["agrees"]) == (1.0, 1.0)
    assert measures["rows"] == skill_model.RANDOM_STATES


@pytest.mark.parametrize(
    ("method", "changes", "has"),
    [
        ("sd3", {}, True),
        ("diayn", {}, True),
        ("diayn", {"number_of_skills": 1}, False),
        ("sd3", {"skill_kind": "sphere"}, False),
        ("becl", {}, False),
        ("rnd", {}, False),
    ],
)
def test_models_of_two_or_more_discrete_skills_are_measured(method, changes, has):
    config = configuration(method)
    config = replace(config, objective=replace(config.objective, **changes))
    assert has_model_measures(config) is has
    assert (recorded_episodes(config, STATES, 20) > 0) is has
    assert not has_model_measures(replace(config, task="reach"))


@pytest.mark.parametrize(
    ("shape", "horizon", "wanted"),
    [((3,), 1000, 4), ((64, 64, 3), 50, 4), ((64, 64, 3), 250, 2), ((64, 64, 3), 1000, 1)],
)
def test_fewer_episodes_of_images_are_recorded(shape, horizon, wanted):
    config = configuration()
    config = replace(config, objective=replace(config.objective, number_of_skills=10))
    assert recorded_episodes(config, EnvSpec(shape, 2, horizon), 20) == wanted
    assert recorded_episodes(config, EnvSpec(shape, 2, horizon), 1) == 1


def test_a_world_model_shows_objectives_the_whole_episode_before_a_state():
    agent = begun()[0]
    random = np.random.default_rng(0)
    obs = random.normal(size=(8, *SPEC.obs_shape)).astype(np.float32)
    action = random.uniform(-1, 1, (7, SPEC.action_dim)).astype(np.float32)
    padded = skill_model._padded(Recorded(obs, action), 12, 3)
    assert padded[2].tolist() == [1, 4, 7]
    seen = skill_model._compiled_features(TINY, None)(agent, *padded)
    actions = jnp.concatenate([action, np.zeros_like(action[:1])])
    wanted = TINY.objective_obs(agent, jnp.asarray(obs), actions)
    np.testing.assert_allclose(seen, wanted[jnp.array([1, 4, 7])], atol=1e-5)


# Runs

SMALL_DREAMER = {
    "replay": {"warmup_steps": 110, "task_warmup_steps": 110, "batch_size": 2, "sequence_length": 4},
    "behaviour": {"imagined_starts": 4},
}


def a_run(folder, method, env, steps, backbone=None, **objective):
    options = {"preset": "smoke", "evaluation": {"every": steps}, "progress": False}
    return skillscape.pretrain(
        method, env, out=folder, steps=steps, backbone=backbone or {}, objective=objective, **options
    )


@pytest.mark.parametrize(
    ("env", "steps", "backbone"), [("maze/square_a", 800, None), ("maze-pixels/square_a", 160, SMALL_DREAMER)]
)
def test_sd3_logs_its_model_at_every_evaluation(tmp_path, capsys, env, steps, backbone):
    run = a_run(tmp_path / "run", "sd3", env, steps, backbone, number_of_skills=3, deviation_weight=1.5)
    log = run.evaluation()
    names = ["model_accuracy", "model_information", *(f"{name}_{where}" for name in OWN for where in WHERE)]
    for name in names:
        assert np.isfinite(log[name]).all()
        assert len(log[name]) == len(log["step"])
    # An untrained density hardly tells skills from each other: log(λn / (λ + n − 1)) everywhere.
    assert log["density_deviation_other_skills"][0] == pytest.approx(np.log(1.5 * 3 / 3.5), abs=0.1)
    assert max(log["model_information"]) <= np.log(3)
    evaluation = skillscape.evaluate(run)
    # Deterministic: the same episodes as in training.
    assert {name: evaluation.measures[name] for name in names} == pytest.approx(
        {name: log[name][-1] for name in names}, rel=1e-4, abs=1e-6
    )
    main(["evaluate", str(run.folder)])
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in names)
    assert f"{evaluation.measures['model_information']:.3f} nats" in printed


def test_a_run_without_its_model_is_measured_without_it(tmp_path):
    run = a_run(tmp_path / "run", "diayn", "maze/square_a", 400)
    names = {"model_accuracy", "model_information"}
    assert names <= skillscape.evaluate(run).measures.keys()
    exported = export_run(run, tmp_path / "export", model=False)
    assert not names & skillscape.evaluate(exported).measures.keys()
    (run.folder / "checkpoints").rename(tmp_path / "checkpoints")
    (run.folder / "snapshots").rename(tmp_path / "snapshots")
    assert not names & skillscape.evaluate(Run(run.folder)).measures.keys()


@pytest.mark.parametrize("method", ["cic", "rnd", "metra"])
def test_methods_without_scores_of_skills_log_no_such_measures(tmp_path, method):
    log = a_run(tmp_path / "run", method, "maze/square_a", 400).evaluation()
    assert log["coverage"]
    assert not any(name.startswith("model_") for name in log)


def test_random_keys_of_training_are_not_consumed(tmp_path, monkeypatch):
    measured_run = a_run(tmp_path / "measured", "sd3", "maze/square_a", 800)
    monkeypatch.setattr("skillscape.evaluation.evaluators.recorded_episodes", lambda *_: 0)
    plain = a_run(tmp_path / "plain", "sd3", "maze/square_a", 800)
    assert "model_accuracy" not in plain.evaluation()
    assert plain.metrics() == measured_run.metrics()
    jax.tree.map(
        np.testing.assert_array_equal,
        *(jax.tree.leaves(run.snapshot().objective.model.params) for run in (plain, measured_run)),
    )
