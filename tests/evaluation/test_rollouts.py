"""Rollouts of methods with discrete, continuous and no skills."""

from functools import partial

import jax
import numpy as np
import pytest

from skillscape.backbones.ppo import PPO
from skillscape.envs.mazes.maze import make_maze
from skillscape.evaluation.rollouts import SAMPLED_SKILLS, skill_rollouts
from skillscape.objectives.extrinsic import Extrinsic

MAZE, BACKBONE = make_maze("square_a"), PPO(hidden=(8,))
CASES = [("discrete", 3), ("sphere", 2), ("box", 4), ("none", 0)]


@pytest.fixture(scope="module", params=CASES, ids=[kind for kind, _ in CASES])
def case(request):
    kind, width = request.param
    objective = Extrinsic(kind, width)
    agent = BACKBONE.init(jax.random.key(0), MAZE.spec, objective)
    return kind, partial(skill_rollouts, MAZE, BACKBONE, objective.skills, BACKBONE.policy_params(agent), per_skill=2)


def test_every_skill_or_a_sample_of_a_continuum_has_the_requested_number_of_episodes(case):
    kind, run = case
    rows = {"discrete": (3, 2), "sphere": (SAMPLED_SKILLS, 2), "box": (SAMPLED_SKILLS, 2), "none": (1, 2)}[kind]
    obs, action = run()
    assert obs.shape == (*rows, MAZE.spec.horizon + 1, 2)
    assert action.shape == (*rows, MAZE.spec.horizon, 2)


def test_the_same_seed_gives_the_same_episodes(case):
    _, run = case
    jax.tree.map(np.testing.assert_array_equal, run(seed=1), run(seed=1))
    assert (run(seed=1).obs != run(seed=2).obs).any()
