"""The hosted loop on a toy, with a learner whose every action tells how often it has learned, and from what."""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import toys
from full_disk import fill

from skillscape.backbones.base import ReplayedBackbone
from skillscape.errors import EnvFault, Interrupted, UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.replay import Replay
from skillscape.training import hosted, jobs
from skillscape.training.jobs import Job, JobRun, init_state
from skillscape.training.log import read_metrics
from skillscape.types import Schedule, Spec

RANDOM = 40
STEPS = 200
SNAPSHOTS = (73, 100)
RESAMPLE = 7
SKILLS = 4


class Counted(NamedTuple):
    updates: Any
    seen: Any


@final
@dataclass(frozen=True)
class Counter(ReplayedBackbone[Counted, Any]):
    """Acts with (updates / 1000, skill / 10 + a trace of the batches it has seen / 25)."""

    view: ClassVar = "transitions"
    name: ClassVar[str] = "counter"

    random_steps: int = RANDOM
    update_every: int = 2
    fails_after: int = 10**6
    """Updates after which what it reports is not a number."""

    @property
    def schedule(self):
        return Schedule(self.random_steps, self.update_every, 8, 3, 0.99, 1000)

    def objective_spec(self, env_spec):
        return Spec(env_spec.obs_shape, env_spec.action_dim)

    def init(self, key, env_spec, objective):
        return Counted(jnp.float32(0), jnp.float32(0))

    def initial_carry(self, rows):
        return ()

    def policy_params(self, agent):
        return agent

    def act(self, policy, carry, obs, skill, key, explore):
        second = jnp.argmax(skill, axis=1) / 10 + jnp.tanh(policy.seen) / 25
        return jnp.stack([jnp.full(len(obs), policy.updates / 1000), second], axis=1), carry

    def learn(self, agent, objective, objective_state, batch, key):
        seen = 0.9 * agent.seen + jnp.mean(batch.obs) + jnp.mean(batch.reward) + 0.1 * jax.random.normal(key)
        reported = jnp.where(agent.updates >= self.fails_after, jnp.nan, seen)
        return Counted(agent.updates + 1, seen), objective_state, {"updates": agent.updates + 1, "seen": reported}

    def for_task(self, *, pretrained):
        return self

    def adapt(self, agent, key):
        return agent

    def log_prob(self, agent, obs, skill, action):
        return jnp.zeros(len(obs))

    def objective_obs(self, agent, obs, action):
        return obs

    def with_controller(self, agent, key, env_spec, skills):
        return agent


@pytest.fixture(autouse=True)
def _toy_loop(monkeypatch):
    monkeypatch.setitem(jobs.BACKBONES, "counter", Counter)
    monkeypatch.setattr(hosted, "LOG_EVERY", 20)


def a_job(env="Toy-v0", **changes):
    job = Job(
        phase="pretrain",
        env=f"gym/toys:{env}",
        task=None,
        noise=0.0,
        objective=DIAYN(SKILLS, (4,), resample_every=RESAMPLE),
        backbone=Counter(),
        steps=STEPS,
        seed=3,
        evaluate_every=50,
        evaluation_episodes=2,
        snapshots=SNAPSHOTS,
    )
    return replace(job, **changes)


def finetuning_job(**changes):
    return a_job(phase="finetune", task="gym/toys:Toy-v0", snapshots=(), **changes)


class Seen(NamedTuple):
    """What went through the buffer, and what was evaluated."""

    actions: list
    skills: list
    rewards: list
    starts: list
    """Steps at which episodes began."""
    draws: list
    """Steps taken when a batch was drawn."""
    measured: list


def measure(run, policy, skill, step):
    return {"return": float(policy.updates), "skill": float(np.argmax(skill))}


def train(folder, job, evaluate: Callable = measure, on_progress: Callable = lambda *_: None):
    """Start a run or go on with it."""
    run = JobRun(folder) if folder.exists() else JobRun.create(folder, job)
    hosted.train_job(run, init_state(run.config, run.spec), evaluate, on_progress)
    return run


def test_every_line_of_progress_tells_the_newest_evaluation(tmp_path, monkeypatch):
    monkeypatch.setattr(hosted, "LOG_EVERY", 50)
    lines = []
    run = JobRun.create(tmp_path / "run", a_job())
    hosted.train_job(
        run,
        init_state(run.config, run.spec),
        lambda run, policy, skill, step: {"return": float(step)},
        lambda _run, step, _pace, metrics: lines.append((step, metrics["return"])),
    )
    assert lines[-1] == (STEPS, STEPS)
    assert all(told == step for step, told in lines)


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """Trains a job and tells what happened."""

    def watch(job):
        seen = Seen([], [], [], [], [], [])

        class Watched(Replay):
            def begin(self, obs):
                seen.starts.append(len(seen.actions))
                super().begin(obs)

            def add(self, action, skill, reward, discount, next_obs):
                seen.actions.append(np.array(action))
                seen.skills.append(np.array(skill))
                seen.rewards.append(reward)
                super().add(action, skill, reward, discount, next_obs)

            def sample(self, size, visible):
                seen.draws.append(self.mark().written)
                return super().sample(size, visible)

        def evaluate(run, policy, skill, step):
            seen.measured.append((step, int(policy.updates)))
            return measure(run, policy, skill, step)

        monkeypatch.setattr(hosted, "Replay", Watched)
        run = train(tmp_path / f"run{len(list(tmp_path.iterdir()))}", job, evaluate)
        return run, seen

    return watch


def updates_before(step, random_steps=RANDOM, every=2):
    """One update at every second step from ``random_steps`` on, counted as the benchmark does."""
    return sum(1 for one in range(random_steps, step) if one % every == 0)


def block_start(step):
    """Blocks are ten steps long, or end early where something is due."""
    due = {*range(0, STEPS, 10), *SNAPSHOTS, RANDOM}
    return max(one for one in due if one <= step)


# When learning happens


@pytest.mark.parametrize(("random_steps", "every"), [(40, 2), (41, 2), (40, 3), (67, 1), (0, 2)])
def test_one_update_for_every_second_step_once_random_steps_are_over(watched, random_steps, every):
    run, seen = watched(a_job(backbone=Counter(random_steps=random_steps, update_every=every)))
    # Before the first episode is complete, and until the next block, there is nothing to learn from.
    assert len(seen.draws) == updates_before(STEPS, max(random_steps, toys.HORIZON), every)
    assert int(run.newest()[0].agent.updates) == len(seen.draws)


def test_the_count_of_the_benchmark():
    loop = object.__new__(hosted._Loop)
    loop._job = a_job(backbone=Counter(random_steps=4000))
    blocks = [(begin, begin + 10) for begin in range(0, 100_010, 10)]
    assert sum(loop._updates(*block) for block in blocks) == 48_005


def test_a_block_acts_with_the_policy_of_its_start(watched):
    _, seen = watched(a_job())
    found = [round(float(action[0]) * 1000) for action in seen.actions[RANDOM:]]
    assert found == [updates_before(block_start(step)) for step in range(RANDOM, STEPS)]


@pytest.mark.parametrize("make", [a_job, finetuning_job], ids=["pretrain", "finetune"])
def test_both_phases_begin_with_uniform_random_actions(watched, make):
    _, seen = watched(make(backbone=Counter(random_steps=100), evaluate_every=100))
    early = np.concatenate(seen.actions[:100])
    assert scipy.stats.kstest(early, scipy.stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert len(np.unique(early)) == len(early)
    assert all(round(float(action[0]) * 1000, 3) == 0 for action in seen.actions[100:110])


# Skills


@pytest.mark.parametrize("every", [RESAMPLE, None])
def test_skills_change_at_the_start_of_an_episode_and_so_often_within_it(watched, every):
    _, seen = watched(a_job(objective=DIAYN(SKILLS, (4,), resample_every=every)))
    assert seen.starts == list(range(0, STEPS, toys.HORIZON))
    length = every or toys.HORIZON
    spans = [
        np.array(seen.skills[start + first : start + min(first + length, toys.HORIZON)])
        for start in seen.starts
        for first in range(0, toys.HORIZON, length)
    ]
    assert all((span == span[0]).all() for span in spans)
    drawn = [int(np.argmax(span[0])) for span in spans]
    assert set(drawn) == set(range(SKILLS))
    assert sum(one != other for one, other in pairwise(drawn)) > len(drawn) / 2


def test_the_stored_skill_is_the_one_that_chose_the_action(watched):
    _, seen = watched(a_job())
    for action, skill in zip(seen.actions[RANDOM:], seen.skills[RANDOM:], strict=True):
        assert round(float(action[1]) * 10) == np.argmax(skill)


@pytest.mark.parametrize(("random_steps", "steps"), [(0, 100), (40, 39)])
def test_skills_are_not_judged_by_steps_that_are_not_taken(random_steps, steps):
    job = finetuning_job(skill="regress", backbone=Counter(random_steps=random_steps), steps=steps)
    with pytest.raises(UserError, match=f"before learning begins.* there are {random_steps}, and --steps is {steps}"):
        job.check()
    finetuning_job(skill="regress", backbone=Counter(random_steps=40), steps=40).check()


@pytest.mark.parametrize(("skill", "index"), [("2", 2), ("random", None)])
def test_a_skill_that_stays_acts_in_every_step_and_is_evaluated(watched, skill, index):
    run, seen = watched(finetuning_job(skill=skill))
    assert len(np.unique(seen.skills, axis=0)) == 1
    found = int(np.argmax(seen.skills[0]))
    assert index is None or found == index
    assert read_metrics(run.folder / "evaluation.csv")["skill"] == [found] * 5


def test_regress_draws_skills_until_learning_begins_and_keeps_one_from_then_on(watched):
    env = "gym/toys:Long-v0"
    _, seen = watched(replace(finetuning_job(skill="regress"), env=env, task=env, backbone=Counter(random_steps=120)))
    assert len(np.unique(seen.skills[:120], axis=0)) > 1
    assert len(np.unique(seen.skills[120:], axis=0)) == 1


# What is kept


def test_snapshots_are_taken_at_their_exact_steps(watched):
    run, _ = watched(a_job())
    found = {step: int(run.snapshot(step)[1].updates) for step in (73, 100, 200)}
    assert found == {step: updates_before(step) for step in found}
    assert sorted(int(path.name) for path in (run.folder / "snapshots").iterdir()) == [73, 100, 200]


@pytest.mark.parametrize(("every", "steps"), [(50, 200), (60, 200), (33, 73)])
def test_evaluations_come_at_the_start_at_every_interval_and_at_the_end(watched, every, steps):
    run, seen = watched(a_job(evaluate_every=every, steps=steps))
    expected = sorted({*range(0, steps + 1, every), steps})
    assert seen.measured == [(step, updates_before(step)) for step in expected]
    assert read_metrics(run.folder / "evaluation.csv")["step"] == expected
    assert [path.name for path in sorted(run.checkpoints.iterdir())] == [f"{step:012d}" for step in expected[-2:]]


def test_the_log_holds_the_newest_metrics_and_the_return_of_the_newest_episode(watched):
    run, seen = watched(a_job())
    log = read_metrics(run.folder / "metrics.csv")
    steps = [int(step) for step in log["step"]]
    # The first rows, before anything was learned, would have no columns.
    assert steps == list(range(60, STEPS + 1, 20))
    assert log["updates"] == [updates_before(step) for step in steps]
    expected = [sum(seen.rewards[step - toys.HORIZON : step]) for step in steps]
    assert log["episode_return"] == pytest.approx(expected, rel=1e-5)


def test_a_task_that_ends_begins_a_new_episode_at_once(watched):
    _, seen = watched(a_job(env="Ending-v0"))
    lengths = np.diff(seen.starts)
    assert lengths.min() < toys.HORIZON
    assert lengths.max() <= toys.HORIZON


# The same numbers whatever happens


def contents(folder):
    """All that a run computed."""
    arrays = sorted((folder / "checkpoints").iterdir())[-1] / "arrays.safetensors"
    snapshots = sorted((folder / "snapshots").rglob("*.safetensors"))
    named = [folder / "metrics.csv", folder / "evaluation.csv", arrays, *snapshots]
    return {str(path.relative_to(folder)): path.read_bytes() for path in named}


@pytest.mark.parametrize("slow", ["environment", "learner"])
def test_it_does_not_matter_which_side_is_faster(tmp_path, monkeypatch, slow):
    train(tmp_path / "plain", a_job())
    sleep = random.Random(0)

    def slowed(function):
        def call(*arguments):
            time.sleep(sleep.choice([0, 0, 0.003, 0.01]))
            return function(*arguments)

        return call

    if slow == "environment":
        monkeypatch.setattr(toys.Toy, "step", slowed(toys.Toy.step))
    else:
        monkeypatch.setattr(Replay, "sample", slowed(Replay.sample))
    train(tmp_path / "slow", a_job())
    assert contents(tmp_path / "slow") == contents(tmp_path / "plain")


def interrupting_at(monkeypatch, lived):
    """Sends Ctrl-C from inside the environment's step with this number."""
    step = toys.Toy.step

    def stepping(self, action):
        if self.lived == lived:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, action)

    monkeypatch.setattr(toys.Toy, "step", stepping)


@pytest.mark.parametrize("env", ["Toy-v0", "Ending-v0"])
@pytest.mark.parametrize("lived", [0, 38, 71, 133, 199])
def test_a_run_stopped_by_hand_is_saved_at_the_next_block_and_goes_on_to_the_same_numbers(
    tmp_path, monkeypatch, env, lived
):
    train(tmp_path / "whole", a_job(env))
    with monkeypatch.context() as patch:
        interrupting_at(patch, lived)
        if lived < 190:
            with pytest.raises(Interrupted):
                train(tmp_path / "stopped", a_job(env))
            found, _ = JobRun(tmp_path / "stopped").newest()
            assert lived < int(found.step) <= lived + 10
        else:
            train(tmp_path / "stopped", a_job(env))  # the last block is the end
    train(tmp_path / "stopped", a_job(env))
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_run_stopped_before_its_first_step_goes_on_to_the_same_numbers(tmp_path):
    def stop(run, policy, skill, step):
        os.kill(os.getpid(), signal.SIGINT)
        return measure(run, policy, skill, step)

    train(tmp_path / "whole", a_job())
    with pytest.raises(Interrupted):
        train(tmp_path / "stopped", a_job(), stop)
    train(tmp_path / "stopped", a_job())
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_handlers_of_signals_are_put_back(tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(tmp_path / "run", a_job(steps=10))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_deleting_the_newest_checkpoint_goes_on_from_the_one_before_it(tmp_path, monkeypatch):
    train(tmp_path / "whole", a_job())
    interrupting_at(monkeypatch, 171)
    with pytest.raises(Interrupted):
        train(tmp_path / "stopped", a_job())
    monkeypatch.undo()
    monkeypatch.setitem(jobs.BACKBONES, "counter", Counter)
    monkeypatch.setattr(hosted, "LOG_EVERY", 20)
    newest = sorted((tmp_path / "stopped" / "checkpoints").iterdir())[-1]
    for path in newest.iterdir():
        path.unlink()
    newest.rmdir()
    train(tmp_path / "stopped", a_job())
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_row_shows_the_newest_update_also_after_a_stop_between_the_two(tmp_path, monkeypatch):
    rare = Counter(update_every=16)
    train(tmp_path / "whole", a_job(backbone=rare))
    with monkeypatch.context() as patch:
        interrupting_at(patch, 89)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", a_job(backbone=rare))
    train(tmp_path / "stopped", a_job(backbone=rare))
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_finished_run_needs_neither_buffer_nor_steps_to_be_measured_again(tmp_path):
    run = train(tmp_path / "run", a_job())
    before = contents(tmp_path / "run")
    shutil.rmtree(run.folder / "replay")
    train(tmp_path / "run", a_job())
    assert contents(tmp_path / "run") == before
    assert not (run.folder / "replay").exists()


# What goes wrong


@pytest.mark.parametrize("log", ["metrics.csv", "evaluation.csv"])
@pytest.mark.parametrize("every", [2, 16])
def test_a_log_on_a_full_disk_stops_the_run_which_goes_on_to_the_same_numbers(tmp_path, log, every):
    job = a_job(backbone=Counter(update_every=every))

    def filling(_run, step, _pace, _metrics):
        if step == 80:
            fill(f"stopped/{log}")

    train(tmp_path / "whole", job)
    with pytest.raises(UserError, match=f"{log} cannot be written"):
        train(tmp_path / "stopped", job, on_progress=filling)
    found, _ = JobRun(tmp_path / "stopped").newest()
    assert int(found.step) == 90
    train(tmp_path / "stopped", job)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_checkpoint_that_does_not_fit_is_one_sentence(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupting_at(patch, 71)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", a_job())
    run = JobRun(tmp_path / "run")
    state, notes = run.newest()
    for spoil in (
        {"replay": {**notes["replay"], "generator": {"bit_generator": "other"}}},
        {"replay": {**notes["replay"], "episodes": "many"}},
        {"replay": None},
        {"collector": {**notes["collector"], "skill": [1.0]}},
        {"collector": {**notes["collector"], "carry": None}},
        {"metrics": [1]},
    ):
        run.save(state, {**notes, **spoil})
        with pytest.raises(UserError, match="does not fit this run; delete it"):
            train(tmp_path / "run", a_job())
    run.save(state, notes)
    train(tmp_path / "run", a_job())


@pytest.mark.parametrize("broken_at", [3, 87, 137])
def test_a_state_that_is_not_finite_names_its_step_and_the_repaired_run_goes_on(tmp_path, monkeypatch, broken_at):
    train(tmp_path / "whole", a_job())
    monkeypatch.setattr(toys.Toy, "broken_at", broken_at)
    with pytest.raises(UserError, match=f"not finite at step {broken_at}"):
        train(tmp_path / "broken", a_job())
    found, _ = JobRun(tmp_path / "broken").newest()
    assert broken_at - 10 <= int(found.step) < broken_at
    monkeypatch.setattr(toys.Toy, "broken_at", None)
    train(tmp_path / "broken", a_job())
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_a_start_that_is_not_finite_is_refused_like_a_step(tmp_path, monkeypatch):
    look = toys.Toy.look
    with monkeypatch.context() as patch:
        # Every life begins well; the fourth episode does not.
        patch.setattr(toys.Toy, "look", lambda self: look(self) * (np.nan if self.lived == 60 and not self.time else 1))
        with pytest.raises(UserError, match="not finite at step 61"):
            train(tmp_path / "broken", a_job())
    train(tmp_path / "whole", a_job())
    train(tmp_path / "broken", a_job())
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_a_reward_that_is_not_finite_is_refused(tmp_path, monkeypatch):
    step = toys.Toy.step

    def stepping(self, action):
        obs, reward, *rest = step(self, action)
        return obs, np.inf if self.lived == 25 else reward, *rest

    monkeypatch.setattr(toys.Toy, "step", stepping)
    with pytest.raises(UserError, match="not finite at step 25"):
        train(tmp_path / "run", a_job())


FAULTS = {
    "raises": (lambda result: 1 / 0, r"raised ZeroDivisionError \(division by zero\) in step\(\)"),
    "exits": (lambda result: sys.exit(0), r"called exit\(\) in step\(\)"),
    "earns nothing": (lambda result: (result[0], None, *result[2:]), "NoneType as the reward"),
    "is old": (lambda result: (*result[:3], {}), r"raised ValueError .* in step\(\)"),
    "changes shape": (lambda result: (np.zeros(7), *result[1:]), "an observation of shape"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_environment_that_breaks_is_told_and_the_repaired_run_goes_on(tmp_path, monkeypatch, fault):
    train(tmp_path / "whole", a_job())
    step, (spoil, words) = toys.Toy.step, FAULTS[fault]

    def stepping(self, action):
        result = step(self, action)
        return spoil(result) if self.lived == 87 else result

    with monkeypatch.context() as patch:
        patch.setattr(toys.Toy, "step", stepping)
        told = rf"toys:Toy-v0 .*{words}.* at step 87; the run is saved up to step 80: .* and --resume\.$"
        with pytest.raises(UserError, match=told):
            train(tmp_path / "broken", a_job())
    assert int(JobRun(tmp_path / "broken").newest()[0].step) == 80
    train(tmp_path / "broken", a_job())
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.parametrize("step", [0, 150])
def test_an_environment_that_breaks_in_an_evaluation_loses_one_block(tmp_path, step):
    train(tmp_path / "whole", a_job())

    def evaluate(run, policy, skill, at):
        if at == step:
            raise EnvFault("The toy broke")
        return measure(run, policy, skill, at)

    saved = "the run is saved up to step 140" if step else "nothing is lost"
    with pytest.raises(UserError, match=f"The toy broke in the evaluation at step {step}; {saved}: correct the env"):
        train(tmp_path / "broken", a_job(), evaluate)
    found = JobRun(tmp_path / "broken").newest()
    assert found is None if step == 0 else int(found[0].step) == 140
    train(tmp_path / "broken", a_job())
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_an_environment_that_does_not_repeat_itself_is_refused_on_resume(tmp_path, monkeypatch):
    interrupting_at(monkeypatch, 63)
    with pytest.raises(Interrupted):
        train(tmp_path / "run", a_job("OwnMind-v0"))
    before = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    with pytest.raises(UserError, match=r"does not repeat itself.*seed the environment"):
        train(tmp_path / "run", a_job("OwnMind-v0"))
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == before


def test_a_learner_that_is_not_finite_stops_and_keeps_the_last_checkpoint(tmp_path):
    with pytest.raises(UserError, match="step 160 because seen is not finite"):
        train(tmp_path / "run", a_job(backbone=Counter(fails_after=updates_before(150))))
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())[-1] == f"{150:012d}"
    assert read_metrics(tmp_path / "run" / "metrics.csv")["step"][-1] == 140


@pytest.mark.parametrize("ended", [False, True])
def test_episodes_that_are_always_cut_before_a_return_are_told(tmp_path, monkeypatch, ended):
    step = toys.Toy.step

    def stepping(self, action):
        obs, reward, *_, told = step(self, action)
        return obs, reward, ended and self.time == 2, self.time == 2, told

    monkeypatch.setattr(toys.Toy, "step", stepping)
    if ended:
        # There is no value beyond the end of a task, so the sum may stop early.
        state, _ = train(tmp_path / "run", a_job()).newest()
        assert int(state.agent.updates) == updates_before(STEPS)
        return
    with pytest.raises(UserError, match=r"2 steps, but returns over 3 steps .*--backbone.steps-ahead of at most 2"):
        train(tmp_path / "run", a_job())


def test_files_of_a_buffer_that_no_checkpoint_speaks_of_are_made_anew(tmp_path):
    train(tmp_path / "whole", a_job())
    run = JobRun.create(tmp_path / "killed", a_job())
    (run.folder / "replay").mkdir()
    (run.folder / "replay" / "reward.f32").write_bytes(b"left over")
    train(tmp_path / "killed", a_job())
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_two_processes_cannot_train_one_run(tmp_path):
    run = JobRun.create(tmp_path / "run", a_job())
    with run.locked(), pytest.raises(UserError, match="being trained by another process"):
        train(tmp_path / "run", a_job())
