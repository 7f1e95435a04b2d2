"""Episodes side by side, each under a skill of its own."""

import jax.numpy as jnp
import numpy as np

from skillscape.envs.host import make_host
from skillscape.evaluation.episodes import Evaluator


class Along:
    """A learner whose action is the skill itself."""

    def initial_carry(self, rows):
        return jnp.zeros(rows)

    def act(self, policy, carry, obs, skill, key, explore):
        return policy * skill, carry


def play(skills, seeds):
    evaluator = Evaluator([make_host("gym/toys:Toy-v0") for _ in seeds], Along())
    try:
        return evaluator.play(jnp.ones(()), np.asarray(skills, np.float32), seeds)
    finally:
        evaluator.close()


def test_every_row_is_played_under_its_own_skill():
    skills = [[1, 0], [-1, 0], [0, 1]]
    together = play(skills, [4, 4, 4])
    alone = [play([skill], [4]).returns[0] for skill in skills]
    np.testing.assert_allclose(together.returns, alone, rtol=1e-5)
    assert together.returns[0] > together.returns[2] > together.returns[1]
    assert together.lengths.tolist() == [20, 20, 20]
