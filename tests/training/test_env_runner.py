"""Copies of a toy: their episodes and skills, what acts in them, and that a run of several goes on as one does."""

import shutil
from collections import Counter as Tally
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import toys
from counting import (
    RANDOM,
    RESAMPLE,
    SKILLS,
    STEPS,
    Counter,
    a_config,
    contents,
    finetuning_config,
    saved_steps,
    signalling_at,
    told_carry,
    told_updates,
    train,
    with_step,
)

from skillscape.errors import Interrupted, UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.training import host_collector
from skillscape.training.log import read_metrics
from skillscape.training.run import Run

pytestmark = pytest.mark.usefixtures("_toy_loop")
BY_ITSELF = Counter(warmup_steps=0)
"""A policy that takes every step."""


def lengths(seen):
    return [len(episode) for episode in seen.episodes]


# Episodes


def test_an_episode_lasts_to_the_limit_and_a_new_one_begins_at_once(watched):
    _, seen = watched(a_config())
    assert lengths(seen) == [toys.HORIZON] * (STEPS // toys.HORIZON)


def test_a_task_that_ends_begins_a_new_episode_at_once(watched):
    _, seen = watched(a_config(env="Ending-v0"))
    assert min(lengths(seen)) < toys.HORIZON
    assert max(lengths(seen)) <= toys.HORIZON


def test_every_episode_has_a_start_of_its_own(watched):
    _, seen = watched(a_config())
    assert len(np.unique(seen.first, axis=0)) == len(seen.first)


def test_what_acting_remembers_begins_anew_with_each_episode(watched):
    _, seen = watched(a_config("Ending-v0", backbone=BY_ITSELF))
    for episode in seen.episodes:
        assert [told_carry(step.action) for step in episode] == list(range(len(episode)))


# Skills


@pytest.mark.parametrize("every", [RESAMPLE, None])
def test_skills_change_at_the_start_of_an_episode_and_so_often_within_it(watched, every):
    _, seen = watched(a_config(objective=DIAYN(SKILLS, hidden=(4,), resample_every=every)))
    length = every or toys.HORIZON
    spans = [
        np.array([step.skill for step in episode[first : first + length]])
        for episode in seen.episodes
        for first in range(0, toys.HORIZON, length)
    ]
    assert all((span == span[0]).all() for span in spans)
    drawn = [int(np.argmax(span[0])) for span in spans]
    assert set(drawn) == set(range(SKILLS))
    assert sum(one != other for one, other in pairwise(drawn)) > len(drawn) / 2


@pytest.mark.parametrize("copies", [1, 3])
def test_the_stored_skill_is_the_one_that_chose_the_action(watched, copies):
    _, seen = watched(a_config(copies=copies, backbone=BY_ITSELF))
    assert all(round(float(step.action[1]) * 10) == np.argmax(step.skill) for step in seen.steps)


@pytest.mark.parametrize(("skill", "index"), [("2", 2), ("random", None)])
def test_a_skill_that_stays_acts_in_every_step_and_is_evaluated(watched, skill, index):
    run, seen = watched(finetuning_config(skill=skill))
    skills = np.unique([step.skill for step in seen.steps], axis=0)
    assert len(skills) == 1
    found = int(np.argmax(skills))
    assert index is None or found == index
    assert read_metrics(run.folder / "evaluation.csv")["skill"] == [found] * 5
    np.testing.assert_array_equal(run.kept_skill(), skills[0])


@pytest.mark.parametrize("copies", [1, 2])
def test_regress_draws_skills_until_learning_begins_and_keeps_one_from_then_on(watched, copies):
    # Episodes of 60 steps end when learning begins.
    config = finetuning_config("Long-v0", skill="regress", backbone=Counter(warmup_steps=120), copies=copies)
    run, seen = watched(replace(config, steps=240))
    drawn, kept = ([step.skill for step in steps] for steps in (seen.steps[:120], seen.steps[120:]))
    assert len(np.unique(drawn, axis=0)) > 1
    np.testing.assert_array_equal(np.unique(kept, axis=0), [run.kept_skill()])


def test_grid_lets_every_skill_act_in_its_turn_and_keeps_the_one_that_earned_most(watched):
    run, seen = watched(finetuning_config(skill="grid"))
    tried, kept = seen.steps[:RANDOM], seen.steps[RANDOM:]
    turns = [int(np.argmax(step.skill)) for step in tried]
    assert turns == [turn for turn in range(SKILLS) for _ in range(RANDOM // SKILLS)]
    # The policy acts, not chance.
    assert all(told_updates(step.action) == 0 for step in tried)
    assert [told_carry(step.action) for step in tried] == 2 * list(range(toys.HORIZON))
    earned = np.bincount(turns, [step.reward for step in tried])
    assert {int(np.argmax(step.skill)) for step in kept} == {int(np.argmax(earned))}
    assert int(np.argmax(run.kept_skill())) == int(np.argmax(earned))


@pytest.mark.parametrize(("env", "copies"), [("Long-v0", 1), ("Long-v0", 3), ("Ending-v0", 3)])
def test_skills_are_judged_by_every_step_so_far_also_of_episodes_under_way(tmp_path, monkeypatch, env, copies):
    judged, judge = [], host_collector.selected_skill

    def watched(run, state, trajectories):
        judged.append(trajectories)
        return judge(run, state, trajectories)

    monkeypatch.setattr(host_collector, "selected_skill", watched)
    train(tmp_path / "run", finetuning_config(env, skill="grid", copies=copies))
    (trajectories,) = judged
    assert sum(len(trajectory.reward) for trajectory in trajectories) == RANDOM
    tries = Tally(int(skill) for trajectory in trajectories for skill in np.argmax(trajectory.skill, axis=1))
    assert tries == dict.fromkeys(range(SKILLS), RANDOM // SKILLS)


# Several copies


@pytest.mark.parametrize("env", ["Toy-v0", "Ending-v0"])
def test_each_copy_hands_over_whole_episodes(watched, monkeypatch, env):
    played = {}
    reset, step = toys.Toy.reset, toys.Toy.step

    def beginning(self, **options):
        obs, info = reset(self, **options)
        played.setdefault(self, []).append([obs])
        return obs, info

    def stepping(self, action):
        result = step(self, action)
        played[self][-1].append(result[0])
        return result

    monkeypatch.setattr(toys.Toy, "reset", beginning)
    monkeypatch.setattr(toys.Toy, "step", stepping)
    _, seen = watched(a_config(env, copies=3))
    assert len(played) == 3
    stored = [
        np.array([first, *(step.obs for step in episode)])
        for first, episode in zip(seen.first, seen.episodes, strict=True)
    ]
    # All but the ones that are under way at the end.
    episodes = [np.array(episode) for copy in played.values() for episode in copy]
    whole = [episode for episode in episodes if any(np.array_equal(episode, other) for other in stored)]
    assert len(whole) == len(stored)
    assert len(episodes) - len(whole) <= 3
    assert len({episode[0].tobytes() for episode in episodes}) == len(episodes)
    assert sum(len(episode) - 1 for episode in episodes) == STEPS


@pytest.mark.parametrize("copies", [3, 16])
@pytest.mark.parametrize("steps", [STEPS, 73])
def test_copies_come_equally_far_and_take_no_step_too_many(tmp_path, monkeypatch, copies, steps):
    taken, step = Tally(), toys.Toy.step

    def stepping(self, action):
        taken[self] += 1
        return step(self, action)

    monkeypatch.setattr(toys.Toy, "step", stepping)
    train(tmp_path / "run", a_config(copies=copies, steps=steps))
    assert len(taken) == copies
    assert max(taken.values()) - min(taken.values()) <= 1
    assert sum(taken.values()) == steps


def test_what_acting_remembers_is_reset_for_one_copy_alone(watched):
    _, seen = watched(a_config("Ending-v0", copies=3, backbone=BY_ITSELF))
    assert len(set(lengths(seen))) > 1
    for episode in seen.episodes:
        assert [told_carry(step.action) for step in episode] == list(range(len(episode)))


def test_random_actions_of_copies_are_draws_of_their_own(watched):
    _, seen = watched(a_config(copies=3, backbone=Counter(warmup_steps=STEPS)))
    actions = np.concatenate([step.action for step in seen.steps])
    assert len(np.unique(actions)) == len(actions)


def test_the_learner_of_several_copies_learns_as_often(watched):
    run, seen = watched(a_config(copies=3))
    # The first episodes of all three are complete at step 60.
    assert int(run.newest()[0].agent.updates) == len(seen.draws) == (STEPS - 60) // 2
    assert read_metrics(run.folder / "metrics.csv")["step"] == list(range(80, STEPS + 1, 20))


@pytest.mark.parametrize(("env", "copies"), [("Toy-v0", 3), ("Ending-v0", 3), ("Ending-v0", 16)])
@pytest.mark.parametrize("taken", [5, 38, 71, 133])
def test_copies_that_are_stopped_in_the_middle_go_on_to_the_same_numbers(
    undisturbed, tmp_path, monkeypatch, env, copies, taken
):
    config = a_config(env, copies=copies)
    with monkeypatch.context() as patch:
        signalling_at(patch, taken)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", config)
    (saved, *_) = reversed(saved_steps(tmp_path / "stopped"))
    assert taken < saved <= taken + 16
    under_way = Run(tmp_path / "stopped").newest()[1]["envs"]["episodes"]
    assert sum(episode is not None and len(episode["action"]) > 0 for episode in under_way) > 1
    train(tmp_path / "stopped", config)
    assert contents(tmp_path / "stopped") == undisturbed(config)


@pytest.mark.parametrize(("copies", "every"), [(1, 100), (4, 25)])
def test_the_checkpoint_before_the_newest_finds_its_rows_in_a_small_buffer(
    undisturbed, tmp_path, monkeypatch, copies, every
):
    # Less than an episode is learned from, and more than one is handed over between the two checkpoints.
    config = a_config("Long-v0", copies=copies, backbone=Counter(capacity=40), every=every, steps=520)
    with monkeypatch.context() as patch:
        signalling_at(patch, 491)
        with pytest.raises(Interrupted):
            train(tmp_path / "stopped", config)
    shutil.rmtree(sorted((tmp_path / "stopped" / "checkpoints").iterdir())[-1])
    train(tmp_path / "stopped", config)
    assert contents(tmp_path / "stopped") == undisturbed(config)


@pytest.mark.parametrize("number", [5, 87, 138])
def test_a_copy_that_breaks_names_the_step_of_the_run(undisturbed, tmp_path, monkeypatch, number):
    config = a_config(copies=3)
    with monkeypatch.context() as patch:
        with_step(patch, number, lambda result: (result[0] * np.nan, *result[1:]))
        with pytest.raises(UserError, match=f"not finite at step {number}; "):
            train(tmp_path / "broken", config)
    train(tmp_path / "broken", config)
    assert contents(tmp_path / "broken") == undisturbed(config)
