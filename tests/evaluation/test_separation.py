"""How well states name their skills: on skills that are made up, so that the right answer is known."""

import numpy as np
import pytest

from skillscape.evaluation.separation import state_accuracy


def episodes(skills, per_skill, states, where, *, lengths=None, seed=0):
    """States of each episode of each skill, drawn around ``where(skill, episode)``."""
    generator = np.random.default_rng(seed)
    return [
        [
            where(skill, episode) + generator.normal(size=(lengths[episode] if lengths else states, 3))
            for episode in range(per_skill)
        ]
        for skill in range(skills)
    ]


def test_skills_that_go_to_different_places_are_always_named():
    found = state_accuracy(episodes(4, 3, 20, lambda skill, _: 100.0 * skill))
    assert found == (1.0, 0.0)


@pytest.mark.parametrize("skills", [2, 5, 10])
def test_skills_that_all_do_exactly_the_same_are_named_by_chance(skills):
    """As a policy that ignores its skill does, whose episodes begin alike."""
    one = episodes(1, 4, 20, lambda _, episode: 10.0 * episode)[0]
    found = state_accuracy([one] * skills)
    assert found.value == pytest.approx(1 / skills)


@pytest.mark.parametrize("skills", [2, 5])
def test_skills_that_go_to_the_same_places_are_named_by_chance(skills):
    found = state_accuracy(episodes(skills, 20, 30, lambda *_: 0.0))
    assert abs(found.value - 1 / skills) < 4 * found.error
    assert 0 < found.error < 0.05


def test_episodes_are_held_out_whole_and_with_those_that_begin_alike():
    """States of one episode are close to each other, and to those of other skills that began there: neither counts."""
    found = state_accuracy(episodes(3, 4, 10, lambda _, episode: 100.0 * episode))
    assert found.value == pytest.approx(1 / 3, abs=0.25)


def test_every_entry_counts_alike_and_one_that_never_changes_not_at_all():
    made = episodes(3, 4, 20, lambda skill, _: np.array([100.0 * skill, 0.0, 0.0]))
    scaled = [[states * [1e-4, 1e4, 0.0] + [0.0, 0.0, 7.0] for states in rollouts] for rollouts in made]
    assert state_accuracy(made).value == 1.0
    assert state_accuracy(scaled).value > 0.9


def test_episodes_may_differ_in_length():
    lengths = [1, 30, 7]
    found = state_accuracy(episodes(3, 3, None, lambda skill, _: 100.0 * skill, lengths=lengths))
    assert found == (1.0, 0.0)


def test_every_episode_and_every_skill_counts_alike_whatever_its_length():
    """Skill 0 is always named; of skill 1, a short episode is and a long one is not."""
    near, far = np.zeros((1, 3)), np.full((1, 3), 100.0)
    skill_0 = [np.repeat(near, 5, 0), np.repeat(near, 5, 0)]
    skill_1 = [np.repeat(far, 2, 0), np.concatenate([near.repeat(40, 0), far])]
    found = state_accuracy([skill_0, skill_1])
    # The first episode of skill 1 finds the last state of its second one; of that one, 1 of 41 states is far.
    assert found.value == pytest.approx((1.0 + (1.0 + 1 / 41) / 2) / 2)


def test_some_skills_may_have_more_episodes():
    made = episodes(2, 4, 20, lambda skill, _: 100.0 * skill)
    assert state_accuracy([made[0], made[1][:2]]) == (1.0, 0.0)


def images(skills, per_skill, value):
    """Pictures with a bright square at a place of their own, and noise in single pixels."""
    generator = np.random.default_rng(0)

    def picture(skill, episode):
        made = generator.integers(0, 60, (10, 64, 64, 3), dtype=np.uint8)
        row = value(skill, episode)
        made[:, row : row + 8, 24:32] = 255
        return made

    return [[picture(skill, episode) for episode in range(per_skill)] for skill in range(skills)]


def test_images_are_told_apart_by_what_is_in_them():
    assert state_accuracy(images(3, 3, lambda skill, _: 16 * skill)) == (1.0, 0.0)


def test_images_of_the_same_are_named_by_chance():
    found = state_accuracy(images(3, 8, lambda _, episode: 8 * (episode % 4)))
    assert abs(found.value - 1 / 3) < 4 * found.error


def test_images_are_read_and_not_changed():
    made = images(2, 2, lambda skill, _: 16 * skill)
    before = [[states.copy() for states in rollouts] for rollouts in made]
    state_accuracy(made)
    for rollouts, kept in zip(made, before, strict=True):
        for states, same in zip(rollouts, kept, strict=True):
            np.testing.assert_array_equal(states, same)


@pytest.mark.parametrize(("skills", "per_skill"), [(1, 5), (3, 1), (0, 0)])
def test_one_skill_or_one_episode_tells_nothing(skills, per_skill):
    assert state_accuracy(episodes(skills, per_skill, 10, lambda skill, _: 100.0 * skill)) is None


def test_the_error_is_that_of_the_mean_over_episodes():
    """Half of the episodes of each skill are named and half are not, in a way that is known."""
    near, far = np.zeros((4, 3)), np.full((4, 3), 100.0)
    made = [[near, near, far, far], [far, far, near, near]]
    found = state_accuracy(made)
    assert found.value == pytest.approx(np.mean([shares(made, skill).mean() for skill in range(2)]))
    variance = np.mean([shares(made, skill).var(ddof=1) / 4 for skill in range(2)]) / 2
    assert found.error == pytest.approx(np.sqrt(variance))


def shares(made, skill):
    """Of each episode of a skill, the share of states that are named, by brute force."""
    right = []
    for number, episode in enumerate(made[skill]):
        others = [
            (np.abs(state - other).sum(), name)
            for state in episode[:1]
            for name, rollouts in enumerate(made)
            for place, states in enumerate(rollouts)
            if place != number
            for other in states
        ]
        right.append(float(min(others)[1] == skill))
    return np.array(right)
