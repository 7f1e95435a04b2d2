"""Skill accuracy of synthetic skills with a known answer."""

import numpy as np
import pytest

from skillscape.evaluation.skill_accuracy import state_accuracy


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


def test_skills_in_different_places_have_accuracy_one():
    accuracy = state_accuracy(episodes(4, 3, 20, lambda skill, _: 100.0 * skill))
    assert accuracy == (1.0, 0.0)


@pytest.mark.parametrize("skills", [2, 5, 10])
def test_identical_skills_are_at_chance(skills):
    """A policy that ignores its skill, with the same initial states for all skills."""
    rollouts = episodes(1, 4, 20, lambda _, episode: 10.0 * episode)[0]
    accuracy = state_accuracy([rollouts] * skills)
    assert accuracy.value == pytest.approx(1 / skills)


@pytest.mark.parametrize("skills", [2, 5])
def test_skills_in_the_same_places_are_at_chance(skills):
    accuracy = state_accuracy(episodes(skills, 20, 30, lambda *_: 0.0))
    assert abs(accuracy.value - 1 / skills) < 4 * accuracy.error
    assert 0 < accuracy.error < 0.05


def test_whole_episodes_are_held_out_with_those_of_the_same_initial_state():
    """States of an episode are close to each other and to other skills' from the same start: neither may count."""
    accuracy = state_accuracy(episodes(3, 4, 10, lambda _, episode: 100.0 * episode))
    assert accuracy.value == pytest.approx(1 / 3, abs=0.25)


def test_dimensions_are_standardised_and_constant_ones_ignored():
    states_of = episodes(3, 4, 20, lambda skill, _: np.array([100.0 * skill, 0.0, 0.0]))
    scaled = [[states * [1e-4, 1e4, 0.0] + [0.0, 0.0, 7.0] for states in rollouts] for rollouts in states_of]
    assert state_accuracy(states_of).value == 1.0
    assert state_accuracy(scaled).value > 0.9


def test_episodes_may_differ_in_length():
    lengths = [1, 30, 7]
    accuracy = state_accuracy(episodes(3, 3, None, lambda skill, _: 100.0 * skill, lengths=lengths))
    assert accuracy == (1.0, 0.0)


def test_episodes_and_skills_have_equal_weight_whatever_their_length():
    """Skill 0 is always correct; of skill 1, a short episode is and a long one is not."""
    near, far = np.zeros((1, 3)), np.full((1, 3), 100.0)
    skill_0 = [np.repeat(near, 5, 0), np.repeat(near, 5, 0)]
    skill_1 = [np.repeat(far, 2, 0), np.concatenate([near.repeat(40, 0), far])]
    accuracy = state_accuracy([skill_0, skill_1])
    # The first episode of skill 1 finds the last state of its second one; of that one, 1 of 41 states is far.
    assert accuracy.value == pytest.approx((1.0 + (1.0 + 1 / 41) / 2) / 2)


def test_some_skills_may_have_more_episodes():
    states_of = episodes(2, 4, 20, lambda skill, _: 100.0 * skill)
    assert state_accuracy([states_of[0], states_of[1][:2]]) == (1.0, 0.0)


def images(skills, per_skill, value):
    """Images with a bright square at ``value(skill, episode)``, and pixel noise."""
    generator = np.random.default_rng(0)

    def image(skill, episode):
        frames = generator.integers(0, 60, (10, 64, 64, 3), dtype=np.uint8)
        row = value(skill, episode)
        frames[:, row : row + 8, 24:32] = 255
        return frames

    return [[image(skill, episode) for episode in range(per_skill)] for skill in range(skills)]


def test_images_with_different_contents_have_accuracy_one():
    assert state_accuracy(images(3, 3, lambda skill, _: 16 * skill)) == (1.0, 0.0)


def test_images_with_the_same_contents_are_at_chance():
    accuracy = state_accuracy(images(3, 8, lambda _, episode: 8 * (episode % 4)))
    assert abs(accuracy.value - 1 / 3) < 4 * accuracy.error


def test_images_are_not_modified():
    states_of = images(2, 2, lambda skill, _: 16 * skill)
    before = [[states.copy() for states in rollouts] for rollouts in states_of]
    state_accuracy(states_of)
    for rollouts, copies in zip(states_of, before, strict=True):
        for states, copy in zip(rollouts, copies, strict=True):
            np.testing.assert_array_equal(states, copy)


@pytest.mark.parametrize(("skills", "per_skill"), [(1, 5), (3, 1), (0, 0)])
def test_accuracy_is_undefined_for_one_skill_or_one_episode(skills, per_skill):
    assert state_accuracy(episodes(skills, per_skill, 10, lambda skill, _: 100.0 * skill)) is None


def test_the_error_is_that_of_the_mean_over_episodes():
    """Half of the episodes of each skill are classified correctly."""
    near, far = np.zeros((4, 3)), np.full((4, 3), 100.0)
    states_of = [[near, near, far, far], [far, far, near, near]]
    accuracy = state_accuracy(states_of)
    assert accuracy.value == pytest.approx(np.mean([accuracies(states_of, skill).mean() for skill in range(2)]))
    variance = np.mean([accuracies(states_of, skill).var(ddof=1) / 4 for skill in range(2)]) / 2
    assert accuracy.error == pytest.approx(np.sqrt(variance))


def accuracies(states_of, skill):
    """Accuracy of each episode of a skill, by brute force."""
    correct = []
    for number, episode in enumerate(states_of[skill]):
        others = [
            (np.abs(state - other).sum(), name)
            for state in episode[:1]
            for name, rollouts in enumerate(states_of)
            for place, states in enumerate(rollouts)
            if place != number
            for other in states
        ]
        correct.append(float(min(others)[1] == skill))
    return np.array(correct)
