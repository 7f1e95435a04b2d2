"""What is shown of an episode, and what it earned, also where nobody looks."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.registry import family_of
from skillscape.evaluation.filming import Filmer


class Pusher:
    """Stands in for a backbone: pushes along its skill, and remembers for how long."""

    def initial_carry(self, rows):
        return jnp.zeros(rows)

    def act(self, policy, carry, obs, skill, key, explore):
        assert not explore
        return policy * skill + 0 * carry[:, None], carry + 1


class Film(NamedTuple):
    brightness: list[int]
    earned: float


def film(env="gym/toys:Seen-v0", **wish):
    filmer = Filmer(family_of(env).drawn(env), Pusher())
    shown = []
    earned = filmer.film(jnp.ones(()), np.array([1, 0], np.float32), shown.append, seed=0, **wish)
    filmer.close()
    return Film([(int(frame[0, 0, 0]) - 40) // 3 for frame in shown], earned)


def test_every_step_and_every_second():
    assert film(steps=60, every=1).brightness == list(range(61))
    assert film(steps=7, every=2).brightness == [0, 2, 4, 6]


def test_the_return_is_that_of_the_whole_episode():
    whole, start = film(steps=60, every=1), film(steps=3, every=1)
    assert start.earned == whole.earned
    # Sixty steps of 0.1 from about 0: the distance to (1, 0) is |1 - 0.1 t|.
    assert whole.earned == pytest.approx(-sum(abs(1 - 0.1 * step) for step in range(1, 61)), abs=12)


def test_an_episode_that_ends_early_shows_its_end():
    shown = film("gym/toys:SeenEnding-v0", steps=60, every=5).brightness
    assert shown[:-1] == list(range(0, shown[-1], 5))
    assert shown[-1] < 10
