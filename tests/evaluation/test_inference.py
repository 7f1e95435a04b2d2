"""A skill that a method infers from task rewards: on which data, and how it is measured."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained_run

import skillscape
from skillscape.cli import main
from skillscape.errors import UserError
from skillscape.evaluation.inference import inferred_skill
from skillscape.objectives.aps import APS

TOY = "gym/toys:Toy-v0"
"""Episodes of twenty steps; the reward is minus the distance to (1, 0)."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These policies act a few times; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return untrained_run(tmp_path_factory.mktemp("runs") / "aps", "aps", TOY)


@pytest.fixture
def given(monkeypatch):
    """What the method's model was asked with; it answers with the third axis."""
    asked = []

    def infer(self, state, obs, reward):
        asked.append((np.asarray(obs), np.asarray(reward)))
        return jnp.eye(10)[2]

    monkeypatch.setattr(APS, "infer_skill", infer)
    return asked


@pytest.mark.parametrize("steps", [7, 20, 410])
def test_the_model_is_asked_with_so_many_labelled_steps(run, given, steps):
    skill = inferred_skill(run, None, steps)
    np.testing.assert_array_equal(skill, np.eye(10)[2])
    ((obs, reward),) = given
    assert (obs.shape, reward.shape) == ((steps, 3), (steps,))
    # Each reward is that of the step from its state: a tenth of an action away.
    away = np.hypot(obs[:, 0] - 1, obs[:, 1])
    assert np.abs(reward + away).max() < 0.15
    assert (obs[:, 2] == 0).sum() == -(-steps // 20)  # as many starts as episodes


def test_the_data_follow_from_the_seed(run, given):
    for seed in (1, 1, 2):
        inferred_skill(run, None, 30, seed=seed)
    first, again, other = (obs for obs, _ in given)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_inferred_skill_is_measured_as_it_is(run, given):
    found = skillscape.evaluate(run, task=TOY, infer=40, episodes=3)
    assert list(found.returns) == ["inferred"]
    env, policy, total = skillscape.make(TOY, TOY), run.policy(np.eye(10)[2]), 0.0
    obs, _ = env.reset(seed=0)
    for _ in range(20):
        obs, reward, *_ = env.step(policy(obs))
        total += reward
    assert found.returns["inferred"][0] == pytest.approx(total, abs=1e-4)
    assert found.measures["return"] == pytest.approx(np.mean(found.returns["inferred"]))


def test_the_command_infers_and_measures(run, capsys):
    main(["evaluate", str(run.folder), "--task", TOY, "--infer", "1e2", "--episodes", "2", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["runs"][0]["returns"]) == ["inferred"]


def test_what_cannot_be_inferred_is_refused(run, tmp_path):
    with pytest.raises(UserError, match="--infer must be at least 1"):
        skillscape.evaluate(run, infer=0)
    other = untrained_run(tmp_path / "diayn", "diayn", TOY)
    with pytest.raises(UserError, match="diayn cannot infer a skill from rewards; leave --infer out"):
        skillscape.evaluate(other, infer=10)
