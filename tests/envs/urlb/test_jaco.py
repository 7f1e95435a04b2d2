"""The arm's reward against its closed form, and where an episode puts the brick and the hand."""

import logging

import numpy as np
import pytest

from skillscape.envs.urlb.suite import load_task

pytest.importorskip("dm_control")

PINCH, BRICK = "jaco_arm/jaco_hand/pinchsite", "duplo2x4/"
CORNERS = {
    "jaco_reach_top_left": (-0.09, 0.09),
    "jaco_reach_top_right": (0.09, 0.09),
    "jaco_reach_bottom_left": (-0.09, -0.09),
    "jaco_reach_bottom_right": (0.09, -0.09),
}


@pytest.mark.parametrize("task", CORNERS)
def test_reward_in_random_states(task):
    env, random, distances = load_task(task), np.random.default_rng(3), []
    physics = env.environment.physics
    for trial in range(32):
        if trial % 4 == 0:
            env.reset(trial)
        offset = random.normal(size=3)
        offset *= random.uniform(0, 0.15) / np.linalg.norm(offset)
        physics.named.data.qpos[BRICK][:3] = physics.named.data.site_xpos[PINCH] + offset
        physics.named.data.qvel[BRICK] = 0
        physics.forward()
        step = env.step(random.uniform(-1, 1, 9).astype(np.float32))
        assert not step.terminated
        distance = np.linalg.norm(physics.named.data.site_xpos[PINCH] - physics.named.data.xpos[BRICK])
        assert step.reward == pytest.approx(0.1 ** ((max(distance - 0.05, 0) / 0.05) ** 2), abs=1e-12)
        distances.append(distance)
    assert min(distances) < 0.05
    assert sum(0.05 < distance < 0.12 for distance in distances) > 4


@pytest.mark.parametrize(("task", "corner"), CORNERS.items())
def test_the_brick_lies_in_its_corner_and_the_hand_hangs_above(task, corner):
    env = load_task(task)
    data, turns = env.environment.physics.named.data, []
    for seed in range(4):
        obs = env.reset(seed)
        np.testing.assert_allclose(data.xpos[BRICK][:2], corner, atol=2e-3)
        # The observed place is the middle of the brick; the reward is about the origin of its frame, in its bottom.
        np.testing.assert_allclose(obs[-3:] - data.xpos[BRICK], (0, 0, 0.0119), atol=1e-4)
        x, y, z = data.site_xpos[PINCH]
        assert abs(x) <= 0.11
        assert abs(y) <= 0.11
        assert 0.19 <= z <= 0.41
        turns.append(float(obs[-4]))
    assert len(set(turns)) == 4


def test_a_retry_of_the_inverse_kinematics_is_not_logged(caplog):
    load_task("jaco_reach_top_left")
    logging.getLogger("absl").warning("Failed to converge after %i steps: err_norm=%3g", 99, 0.3)
    logging.getLogger("absl").warning("Failed to settle physics")
    assert [record.getMessage() for record in caplog.records] == ["Failed to settle physics"]
