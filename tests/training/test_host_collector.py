"""The collector for host environments on a toy: when it learns, what is due at which step, and what it refuses."""

import random
import time

import numpy as np
import pytest
import scipy.stats
import toys
from counting import (
    RANDOM,
    SNAPSHOTS,
    STEPS,
    Counter,
    Telling,
    a_config,
    contents,
    finetuning_config,
    opened,
    saved_steps,
    told_updates,
    train,
)

from skillscape.errors import EnvFault, UserError
from skillscape.replay import Replay
from skillscape.training import host_collector
from skillscape.training import run as run_module
from skillscape.training.host_collector import HostCollector
from skillscape.training.log import read_metrics
from skillscape.training.state import init_state

pytestmark = pytest.mark.usefixtures("_toy_loop")


def updates_before(step, warmup_steps=RANDOM, every=2):
    """One update at every second step from ``warmup_steps`` on, counted as the benchmark does."""
    return sum(1 for at in range(warmup_steps, step) if at % every == 0)


def block_start(step):
    """Blocks are ten steps long, or end early where something is due."""
    due = {*range(0, STEPS, 10), *SNAPSHOTS, RANDOM}
    return max(at for at in due if at <= step)


# When learning happens


@pytest.mark.parametrize(("warmup_steps", "every"), [(40, 2), (41, 2), (40, 3), (67, 1), (0, 2)])
def test_one_update_for_every_second_step_once_random_steps_are_over(watched, warmup_steps, every):
    run, seen = watched(a_config(backbone=Counter(warmup_steps=warmup_steps, update_every=every)))
    # Before the first episode is complete, and until the next block, there is nothing to learn from.
    assert len(seen.draws) == updates_before(STEPS, max(warmup_steps, toys.HORIZON), every)
    assert int(run.newest()[0].agent.updates) == len(seen.draws)


def test_the_count_of_the_benchmark():
    collector = object.__new__(HostCollector)
    collector._config = a_config(backbone=Counter(warmup_steps=4000))
    blocks = [(begin, begin + 10) for begin in range(0, 100_010, 10)]
    assert sum(collector._updates(*block) for block in blocks) == 48_005


def test_a_block_acts_with_the_policy_of_its_start(watched):
    _, seen = watched(a_config())
    found = [told_updates(step.action) for step in seen.steps[RANDOM:]]
    assert found == [updates_before(block_start(step)) for step in range(RANDOM, STEPS)]


@pytest.mark.parametrize("make", [a_config, finetuning_config], ids=["pretrain", "finetune"])
def test_both_phases_begin_with_uniform_random_actions(watched, make):
    _, seen = watched(make(backbone=Counter(warmup_steps=100), every=100))
    early = np.concatenate([step.action for step in seen.steps[:100]])
    assert scipy.stats.kstest(early, scipy.stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert len(np.unique(early)) == len(early)
    assert all(told_updates(step.action) == 0 for step in seen.steps[100:110])


@pytest.mark.parametrize("slow", ["environment", "learner"])
def test_it_does_not_matter_which_side_is_faster(tmp_path, monkeypatch, slow):
    train(tmp_path / "plain", a_config())
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
    train(tmp_path / "slow", a_config())
    assert contents(tmp_path / "slow") == contents(tmp_path / "plain")


# What is due when


def test_snapshots_are_taken_at_their_exact_steps(watched):
    run, _ = watched(a_config())
    found = {step: int(run.snapshot(step).agent.updates) for step in (73, 100, 200)}
    assert found == {step: updates_before(step) for step in found}
    assert sorted(int(path.name) for path in (run.folder / "snapshots").iterdir()) == [73, 100, 200]


@pytest.mark.parametrize(("every", "steps"), [(50, 200), (60, 200), (33, 73)])
def test_evaluations_come_at_the_start_at_every_interval_and_at_the_end(watched, every, steps):
    run, seen = watched(a_config(every=every, steps=steps))
    expected = sorted({*range(0, steps + 1, every), steps})
    assert seen.measured == [(step, updates_before(step)) for step in expected]
    assert read_metrics(run.folder / "evaluation.csv")["step"] == expected
    assert saved_steps(run.folder) == expected[-2:]


def test_the_log_holds_the_newest_metrics_and_the_return_of_the_newest_episode(watched):
    run, seen = watched(a_config())
    log = read_metrics(run.folder / "metrics.csv")
    steps = [int(step) for step in log["step"]]
    # The first rows, before anything was learned, would have no columns.
    assert steps == list(range(60, STEPS + 1, 20))
    assert log["updates"] == [updates_before(step) for step in steps]
    rewards = [step.reward for step in seen.steps]
    expected = [sum(rewards[step - toys.HORIZON : step]) for step in steps]
    assert log["episode_return"] == pytest.approx(expected, rel=1e-5)


def test_every_line_of_progress_tells_the_newest_evaluation(tmp_path, monkeypatch):
    monkeypatch.setattr(host_collector, "LOG_EVERY", 50)
    lines = []
    tell = Telling(lambda _run, step, _pace, row: lines.append((step, row["return"])))
    train(tmp_path / "run", a_config(), lambda run, params, skill, step: {"return": float(step)}, [tell])
    assert lines[-1] == (STEPS, STEPS)
    assert all(told == step for step, told in lines)


def test_going_back_is_to_before_the_newest_block(tmp_path):
    run = opened(tmp_path / "run", a_config())
    collector = HostCollector(run, init_state(run.config, run.spec), None)
    try:
        for _ in range(6):
            collector.advance()
        before = collector.step, collector.state, collector.metrics, collector.metadata()
        collector.advance()
        assert (collector.step, collector.metadata()) != (before[0], before[3])
        collector.rewind()
        assert (collector.step, collector.state, collector.metrics, collector.metadata()) == before
    finally:
        collector.close()


def test_updates_of_a_block_overwrite_a_copy_of_its_state_and_never_what_acts_or_is_restored(tmp_path, monkeypatch):
    compile_update, given = host_collector.compiled_update, []

    def watched(backbone, objective, donate):
        update = compile_update(backbone, objective, donate)
        return lambda state, batch: given.append((donate, state)) or update(state, batch)

    monkeypatch.setattr(host_collector, "compiled_update", watched)
    run = opened(tmp_path / "run", a_config(backbone=Counter(update_every=2)))
    collector = HostCollector(run, init_state(run.config, run.spec), None)
    try:
        while len(given) < 10:
            before = collector.state
            agent = [float(value) for value in before.agent]
            collector.advance()
            assert [float(value) for value in before.agent] == agent
        assert all(donate and state.agent.updates.is_deleted() for donate, state in given)
        assert float(collector.state.agent.updates) == len(given)
    finally:
        collector.close()


def test_a_block_of_one_update_copies_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(host_collector, "copied", None)
    train(tmp_path / "run", a_config(backbone=Counter(update_every=10), snapshots=()))


# What is refused


def test_a_learner_that_is_not_finite_stops_and_keeps_the_last_checkpoint(tmp_path):
    with pytest.raises(UserError, match="step 160 because seen is not finite"):
        train(tmp_path / "run", a_config(backbone=Counter(fails_after=updates_before(150))))
    assert saved_steps(tmp_path / "run")[-1] == 150
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
        state, _ = train(tmp_path / "run", a_config()).newest()
        assert int(state.agent.updates) == updates_before(STEPS)
        return
    told = r"2 steps, but returns over 3 steps are learned from; .*--force and set --backbone.nstep to at most 2"
    with pytest.raises(UserError, match=told):
        train(tmp_path / "run", a_config())


@pytest.mark.parametrize(("warmup_steps", "steps"), [(0, 100), (40, 39)])
def test_skills_are_not_judged_by_steps_that_are_not_taken(warmup_steps, steps):
    config = finetuning_config(skill="regress", backbone=Counter(warmup_steps=warmup_steps), steps=steps)
    with pytest.raises(UserError, match=f"warm-up data of {warmup_steps} steps, but --steps is {steps}"):
        config.check_env(config.spec())
    enough = finetuning_config(skill="regress", backbone=Counter(warmup_steps=40), steps=40)
    enough.check_env(enough.spec())


@pytest.mark.parametrize("when", ["made", "joined"])
def test_environments_are_closed_where_a_run_cannot_begin(tmp_path, monkeypatch, when):
    closed = []
    monkeypatch.setattr(toys.Toy, "close", lambda self: closed.append(self), raising=False)
    run = opened(tmp_path / "run", a_config(copies=3))
    state = init_state(run.config, run.spec)
    collector = HostCollector(run, state, None)
    collector.advance()
    metadata = collector.metadata()
    collector.close()
    del closed[:]
    if when == "made":
        monkeypatch.setattr(run_module, "Replay", _no_room)
    else:
        monkeypatch.setattr(toys.Toy, "step", _broken)
    with pytest.raises((EnvFault, UserError), match="no room" if when == "made" else "ZeroDivisionError"):
        HostCollector(run, state, metadata)
    assert len(closed) == 3


def _no_room(*_arguments, **_options):
    raise UserError("There is no room for the replay buffer.")


def _broken(self, action):
    raise ZeroDivisionError
