"""Frames that are rendered of an episode, and its return."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.registry import family_of
from skillscape.reporting.video import record_episode


class Pusher:
    """A backbone that pushes along its skill, with a recurrent carry."""

    def initial_carry(self, rows):
        return jnp.zeros(rows)

    def act(self, policy, carry, obs, skill, key, explore):
        assert not explore
        return policy * skill + 0 * carry[:, None], carry + 1


class Recording(NamedTuple):
    steps: list[int]
    episode_return: float


def record(env="gym/toys:Seen-v0", **options):
    """The steps whose frames were rendered, read from their brightness, and the return."""
    rendered, skill, frames = family_of(env).rendered(env), np.array([1, 0], np.float32), []
    episode_return = record_episode(rendered, Pusher(), jnp.ones(()), skill, frames.append, seed=0, **options)
    rendered.close()
    return Recording([(int(frame[0, 0, 0]) - 40) // 3 for frame in frames], episode_return)


def test_every_step_and_every_second():
    assert record(steps=60, stride=1).steps == list(range(61))
    assert record(steps=7, stride=2).steps == [0, 2, 4, 6]


def test_the_return_is_that_of_the_whole_episode():
    whole, start = record(steps=60, stride=1), record(steps=3, stride=1)
    assert start.episode_return == whole.episode_return
    # Sixty steps of 0.1 from about 0: the distance to (1, 0) is |1 - 0.1 t|.
    assert whole.episode_return == pytest.approx(-sum(abs(1 - 0.1 * step) for step in range(1, 61)), abs=12)


def test_an_episode_that_terminates_early_shows_its_end():
    steps = record("gym/toys:SeenEnding-v0", steps=60, stride=5).steps
    assert steps[:-1] == list(range(0, steps[-1], 5))
    assert steps[-1] < 10
