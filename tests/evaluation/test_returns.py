"""Episodes side by side, each under a skill of its own."""

import jax.numpy as jnp
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.registry import host_env
from skillscape.evaluation.returns import SAMPLED_STATES, Player
from skillscape.training.policy import compiled_act


class Along:
    """A backbone whose action is the skill itself, and that remembers for how long it has acted."""

    def initial_carry(self, rows):
        return jnp.zeros(rows)

    def act(self, policy, carry, obs, skill, key, explore):
        assert not explore
        return policy * skill + 0 * carry[:, None], carry + 1


@pytest.fixture(autouse=True)
def _forget():
    yield
    compiled_act.cache_clear()


def play(skills, seeds, env="gym/toys:Toy-v0", **options):
    player = Player([host_env(env, **options) for _ in seeds], Along())
    try:
        return player.play(jnp.ones(()), np.asarray(skills, np.float32), seeds)
    finally:
        player.close()


def test_every_row_is_played_under_its_own_skill():
    skills = [[1, 0], [-1, 0], [0, 1]]
    together = play(skills, [4, 4, 4])
    alone = [play([skill], [4]).returns[0] for skill in skills]
    np.testing.assert_allclose(together.returns, alone, rtol=1e-5)
    assert together.returns[0] > together.returns[2] > together.returns[1]
    assert together.lengths.tolist() == [20, 20, 20]


def test_a_row_is_the_episode_of_its_seed():
    together = play([[1, 0]] * 3, [4, 5, 4])
    assert together.returns[0] == together.returns[2] != together.returns[1]
    for first, again in zip(together.states[0], together.states[2], strict=True):
        np.testing.assert_array_equal(first, again)


def test_episodes_that_end_early_wait_for_the_others():
    found = play([[1, 0], [0.1, 0], [-1, 0]], [4, 4, 4], "gym/toys:Ending-v0")
    assert found.lengths[1] == 20
    assert found.lengths[[0, 2]].max() < 8
    assert [len(states) for states in found.states] == found.lengths.tolist()


def test_the_states_are_those_that_the_episode_led_to():
    (states,) = play([[1, 0]], [4]).states
    assert states.shape == (20, 3)
    np.testing.assert_allclose(np.diff(states[:, 0]), 0.1, atol=1e-6)
    np.testing.assert_allclose(states[:, 2], np.arange(1, 21) / 20, atol=1e-6)


def test_of_long_episodes_some_states_are_kept_the_last_one_among_them():
    found = play([[1, 0]], [4], "gym/toys:Long-v0", kwargs={})
    assert found.lengths.tolist() == [60]
    assert len(found.states[0]) == 60  # one of every step where it is not much longer than that
    maze = play([[0, -1]], [4], "maze/square_a")
    assert maze.lengths.tolist() == [SAMPLED_STATES]
    walker = play([[0] * 6], [4], "walker")
    assert len(walker.states[0]) == SAMPLED_STATES


def test_images_are_kept_as_they_are():
    (states,) = play([[1, 0]], [4], "gym/toys:Pictured-v0").states
    assert states.dtype == np.uint8
    assert states.shape == (20, 64, 64, 3)


def test_a_player_plays_again_from_the_start():
    player = Player([host_env("gym/toys:Toy-v0")], Along())
    first, again = (player.play(jnp.ones(()), np.float32([[1, 0]]), [4]) for _ in range(2))
    player.close()
    assert first.returns == again.returns
