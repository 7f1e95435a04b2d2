"""The queue of recent states that a density model is also fitted on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.objectives.history import History

SKILLS = 4


def numbered(*numbers):
    """States (i, i) with skill i modulo the number of skills."""
    return jnp.asarray(numbers, jnp.float32)[:, None].repeat(2, axis=1), jnp.eye(SKILLS)[jnp.asarray(numbers) % SKILLS]


def remembering(rows, *batches):
    history = History.create(rows, (2,), SKILLS)
    for batch in batches:
        history = history.include(*batch)
    return history


def test_it_is_newest_first_and_the_oldest_fall_off():
    history = remembering(5, numbered(1, 2), numbered(3, 4), numbered(5, 6))
    np.testing.assert_array_equal(history.obs[:, 0], [5, 6, 3, 4, 1])
    np.testing.assert_array_equal(jnp.argmax(history.skill, axis=-1), np.asarray([5, 6, 3, 4, 1]) % SKILLS)


def test_it_counts_its_rows_up_to_its_size():
    assert [int(remembering(5, *[numbered(1, 2)] * times).filled) for times in range(4)] == [0, 2, 4, 5]


def test_without_rows_it_keeps_nothing_and_adds_nothing():
    history = remembering(0, numbered(1, 2))
    assert history.filled == 0
    states, skills = history.mixed_into(*numbered(1, 2), 0.0, jax.random.key(0))
    np.testing.assert_array_equal(states[:, 0], [1, 2])
    np.testing.assert_array_equal(jnp.argmax(skills, axis=-1), [1, 2])


def mixed(newest_fraction, filled, rows=2000):
    """A batch of ones, some of them replaced by states from 10 on."""
    history = History(*numbered(*range(10, 18)), jnp.asarray(filled, jnp.int32))
    states, skills = history.mixed_into(*numbered(*[1] * rows), newest_fraction, jax.random.key(0))
    return np.asarray(states[:, 0]), np.argmax(skills, axis=-1)


@pytest.mark.parametrize("newest_fraction", [0.0, 0.3, 0.8, 1.0])
def test_the_asked_share_of_a_batch_is_old(newest_fraction):
    states, _ = mixed(newest_fraction, filled=8)
    assert np.mean(states >= 10) == pytest.approx(1 - newest_fraction, abs=0.03)


def test_old_rows_are_drawn_evenly_with_their_skills():
    states, skills = mixed(0.0, filled=8)
    np.testing.assert_array_equal(states % SKILLS, skills)
    np.testing.assert_allclose([np.mean(states == number) for number in range(10, 18)], 1 / 8, atol=0.03)


def test_rows_that_were_never_filled_are_not_drawn():
    assert set(mixed(0.0, filled=3)[0]) == {10, 11, 12}


def test_an_empty_history_leaves_the_newest_batch():
    assert set(mixed(0.0, filled=0)[0]) == {1}
