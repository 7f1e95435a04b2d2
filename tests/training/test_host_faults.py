"""Environments and checkpoints of the host that go wrong: what is said, what is kept, and how the run goes on."""

import sys

import numpy as np
import pytest
import toys
from counting import a_config, contents, measure, saved_steps, signalling_at, train, with_step

from skillscape.errors import EnvFault, Interrupted, UserError
from skillscape.training.run import Run

pytestmark = pytest.mark.usefixtures("_toy_loop")


# States and rewards


@pytest.mark.parametrize("broken_at", [3, 87, 137])
def test_a_state_that_is_not_finite_names_its_step_and_the_repaired_run_goes_on(
    undisturbed, tmp_path, monkeypatch, broken_at
):
    monkeypatch.setattr(toys.Toy, "broken_at", broken_at)
    with pytest.raises(UserError, match=f"not finite at step {broken_at}"):
        train(tmp_path / "broken", a_config())
    assert broken_at - 10 <= saved_steps(tmp_path / "broken")[-1] < broken_at
    monkeypatch.setattr(toys.Toy, "broken_at", None)
    train(tmp_path / "broken", a_config())
    assert contents(tmp_path / "broken") == undisturbed(a_config())


def test_a_start_that_is_not_finite_is_refused_like_a_step(undisturbed, tmp_path, monkeypatch):
    look = toys.Toy.look
    with monkeypatch.context() as patch:
        # Every life begins well; the fourth episode does not.
        patch.setattr(toys.Toy, "look", lambda self: look(self) * (np.nan if self.lived == 60 and not self.time else 1))
        with pytest.raises(UserError, match="not finite at step 61"):
            train(tmp_path / "broken", a_config())
    train(tmp_path / "broken", a_config())
    assert contents(tmp_path / "broken") == undisturbed(a_config())


def test_a_reward_that_is_not_finite_is_refused(tmp_path, monkeypatch):
    with_step(monkeypatch, 25, lambda result: (result[0], np.inf, *result[2:]))
    with pytest.raises(UserError, match="not finite at step 25"):
        train(tmp_path / "run", a_config())


FAULTS = {
    "raises": (lambda result: 1 / 0, r"raised ZeroDivisionError \(division by zero\) in step\(\)"),
    "exits": (lambda result: sys.exit(0), r"called exit\(\) in step\(\)"),
    "earns nothing": (lambda result: (result[0], None, *result[2:]), "a reward of type NoneType"),
    "is old": (lambda result: (*result[:3], {}), r"raised ValueError .* in step\(\)"),
    "changes shape": (lambda result: (np.zeros(7), *result[1:]), "an observation of shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_environment_that_breaks_is_told_and_the_repaired_run_goes_on(undisturbed, tmp_path, monkeypatch, fault):
    spoil, words = FAULTS[fault]
    with monkeypatch.context() as patch:
        with_step(patch, 87, spoil)
        told = rf"toys:Toy-v0 .*{words}.* at step 87; the run is saved up to step 80: .* and --resume\.$"
        with pytest.raises(UserError, match=told):
            train(tmp_path / "broken", a_config())
    assert saved_steps(tmp_path / "broken")[-1] == 80
    train(tmp_path / "broken", a_config())
    assert contents(tmp_path / "broken") == undisturbed(a_config())


@pytest.mark.parametrize("step", [0, 150])
def test_an_environment_that_breaks_in_an_evaluation_loses_one_block(undisturbed, tmp_path, step):

    def evaluate(run, state, skill, at):
        if at == step:
            raise EnvFault("The toy broke")
        return measure(run, state, skill, at)

    saved = "the run is saved up to step 140" if step else "nothing is lost"
    with pytest.raises(UserError, match=f"The toy broke in the evaluation at step {step}; {saved}: correct the env"):
        train(tmp_path / "broken", a_config(), evaluate)
    found = Run(tmp_path / "broken").newest()
    assert found is None if step == 0 else int(found[0].step) == 140
    train(tmp_path / "broken", a_config())
    assert contents(tmp_path / "broken") == undisturbed(a_config())


# Environments that do not repeat themselves


def refused_on_resume(tmp_path, monkeypatch, env="Toy-v0"):
    """What going on with a run says that was stopped in the middle of an episode; no checkpoint is lost by it."""
    with monkeypatch.context() as patch:
        signalling_at(patch, 63)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", a_config(env))
    before = saved_steps(tmp_path / "run")
    with pytest.raises(UserError, match=r"is not deterministic.*seed the environment"):
        train(tmp_path / "run", a_config(env))
    assert saved_steps(tmp_path / "run") == before


def test_an_environment_that_does_not_repeat_itself_is_refused_on_resume(tmp_path, monkeypatch):
    refused_on_resume(tmp_path, monkeypatch, "OwnMind-v0")


def test_rewards_that_do_not_repeat_themselves_are_refused_on_resume(tmp_path, monkeypatch):
    step, rewards = toys.Toy.step, np.random.default_rng(0)

    def stepping(self, action):
        obs, _, *rest = step(self, action)
        return obs, float(rewards.normal()), *rest

    monkeypatch.setattr(toys.Toy, "step", stepping)
    refused_on_resume(tmp_path, monkeypatch)


@pytest.mark.parametrize("after", [2, 10])
def test_an_episode_that_ends_when_it_is_played_again_is_refused(tmp_path, monkeypatch, after):
    with monkeypatch.context() as patch:
        signalling_at(patch, 63)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", a_config())
    step = toys.Toy.step

    def stepping(self, action):
        obs, reward, _, cut, told = step(self, action)
        return obs, reward, self.time == after, cut, told

    monkeypatch.setattr(toys.Toy, "step", stepping)
    assert len(Run(tmp_path / "run").newest()[1]["envs"]["episodes"][0]["action"]) == 10
    with pytest.raises(UserError, match="is not deterministic"):
        train(tmp_path / "run", a_config())


# Checkpoints


def test_a_checkpoint_that_does_not_fit_is_one_sentence(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signalling_at(patch, 71)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", a_config())
    run = Run(tmp_path / "run")
    state, metadata = run.newest()
    envs, replay = metadata["envs"], metadata["replay"]
    (episode,) = envs["episodes"]
    for spoil in (
        {"replay": {**replay, "generator": {"bit_generator": "other"}}},
        {"replay": {**replay, "episodes": "many"}},
        {"replay": None},
        {"step": None},
        {"skill": "none"},
        {"skill": [1.0]},
        {"envs": None},
        {"envs": {**envs, "skills": [[1.0]]}},
        {"envs": {**envs, "carry": None}},
        {"envs": {**envs, "carry": []}},
        {"envs": {**envs, "episodes": [episode, episode]}},
        {"envs": {**envs, "episodes": [{**episode, "action": episode["action"][1:]}]}},
        {"envs": {**envs, "episodes": [{**episode, "action": [[0.0]] * len(episode["action"])}]}},
        {"metrics": [1]},
    ):
        run.save(state, {**metadata, **spoil})
        with pytest.raises(UserError, match="does not fit this run; delete it"):
            train(tmp_path / "run", a_config())
    run.save(state, metadata)
    train(tmp_path / "run", a_config())


def test_a_buffer_whose_rows_are_not_those_of_the_checkpoint_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        signalling_at(patch, 71)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", a_config())
    path = tmp_path / "run" / "replay" / "reward.f32"
    rewards = np.fromfile(path, np.float32)
    rewards[5] += 1
    rewards.tofile(path)
    with pytest.raises(UserError, match="do not match their checksums"):
        train(tmp_path / "run", a_config())
