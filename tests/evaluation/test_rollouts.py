"""Episodes of methods whose skills cannot be counted, or that have none."""

from functools import partial

import jax
import numpy as np
import pytest

from skillscape.backbones.ppo import PPO
from skillscape.envs.mazes.maze import make_maze
from skillscape.evaluation.rollouts import SHOWN, skill_rollouts
from skillscape.objectives.extrinsic import Extrinsic

MAZE, LEARNER = make_maze("square_a"), PPO(hidden=(8,))
CASES = [("discrete", 3), ("sphere", 2), ("box", 4), ("none", 0)]


@pytest.fixture(scope="module", params=CASES, ids=[kind for kind, _ in CASES])
def case(request):
    kind, width = request.param
    objective = Extrinsic(kind, width)
    agent = LEARNER.init(jax.random.key(0), MAZE.spec, objective)
    return kind, partial(skill_rollouts, MAZE, LEARNER, objective.skills, LEARNER.policy_params(agent), per_skill=2)


def test_a_continuum_shows_some_skills_and_each_plays_as_many_episodes_as_asked(case):
    kind, play = case
    rows = {"discrete": (3, 2), "sphere": (SHOWN, 2), "box": (SHOWN, 2), "none": (1, 2)}[kind]
    assert play().shape == (*rows, MAZE.spec.horizon + 1, 2)


def test_the_same_seed_plays_the_same_episodes(case):
    _, play = case
    np.testing.assert_array_equal(play(seed=1), play(seed=1))
    assert (play(seed=1) != play(seed=2)).any()
