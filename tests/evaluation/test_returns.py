"""Parallel episodes, each with its own skill."""

import jax.numpy as jnp
import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known

from skillscape.envs.registry import host_env
from skillscape.evaluation.returns import SAMPLED_STATES, EpisodeRunner
from skillscape.training.policy import compiled_act


class SkillAsAction:
    """A backbone whose action is the skill itself, with a recurrent carry."""

    def initial_carry(self, rows):
        return jnp.zeros(rows)

    def act(self, policy, carry, obs, skill, key, explore):
        assert not explore
        return policy * skill + 0 * carry[:, None], carry + 1


@pytest.fixture(autouse=True)
def _forget():
    yield
    compiled_act.cache_clear()


def run(skills, seeds, env="gym/toys:Toy-v0", **options):
    runner = EpisodeRunner([host_env(env, **options) for _ in seeds], SkillAsAction())
    try:
        return runner.run(jnp.ones(()), np.asarray(skills, np.float32), seeds)
    finally:
        runner.close()


def test_every_row_has_its_own_skill():
    skills = [[1, 0], [-1, 0], [0, 1]]
    together = run(skills, [4, 4, 4])
    alone = [run([skill], [4]).returns[0] for skill in skills]
    np.testing.assert_allclose(together.returns, alone, rtol=1e-5)
    assert together.returns[0] > together.returns[2] > together.returns[1]
    assert together.lengths.tolist() == [20, 20, 20]


def test_a_row_is_the_episode_of_its_seed():
    together = run([[1, 0]] * 3, [4, 5, 4])
    assert together.returns[0] == together.returns[2] != together.returns[1]
    for first, again in zip(together.states[0], together.states[2], strict=True):
        np.testing.assert_array_equal(first, again)


def test_episodes_that_end_early_wait_for_the_others():
    episodes = run([[1, 0], [0.1, 0], [-1, 0]], [4, 4, 4], "gym/toys:Ending-v0")
    assert episodes.lengths[1] == 20
    assert episodes.lengths[[0, 2]].max() < 8
    assert [len(states) for states in episodes.states] == episodes.lengths.tolist()


def test_states_are_those_after_each_step():
    (states,) = run([[1, 0]], [4]).states
    assert states.shape == (20, 3)
    np.testing.assert_allclose(np.diff(states[:, 0]), 0.1, atol=1e-6)
    np.testing.assert_allclose(states[:, 2], np.arange(1, 21) / 20, atol=1e-6)


def test_states_of_long_episodes_are_subsampled():
    episodes = run([[1, 0]], [4], "gym/toys:Long-v0", kwargs={})
    assert episodes.lengths.tolist() == [60]
    assert len(episodes.states[0]) == 60  # below twice SAMPLED_STATES every step is stored
    maze = run([[0, -1]], [4], "maze/square_a")
    assert maze.lengths.tolist() == [SAMPLED_STATES]
    walker = run([[0] * 6], [4], "walker")
    assert len(walker.states[0]) == SAMPLED_STATES


def test_images_are_stored_unchanged():
    (states,) = run([[1, 0]], [4], "gym/toys:Pictured-v0").states
    assert states.dtype == np.uint8
    assert states.shape == (20, 64, 64, 3)


def test_a_runner_can_be_reused():
    runner = EpisodeRunner([host_env("gym/toys:Toy-v0")], SkillAsAction())
    first, again = (runner.run(jnp.ones(()), np.float32([[1, 0]]), [4]) for _ in range(2))
    runner.close()
    assert first.returns == again.returns
