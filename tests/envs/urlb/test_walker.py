"""The walker's rewards, against closed forms computed from joint angles and Jacobians."""

import numpy as np
import pytest

from skillscape.envs.urlb.suite import load_task

mujoco = pytest.importorskip("mujoco")


def state_of(physics):
    """Height, uprightness, speed of the centre of mass, angular momentum: none read from a sensor."""
    model, data = physics.model.ptr, physics.data.ptr
    torso, height, tilt = model.body("torso").id, model.joint("rootz").qposadr[0], model.joint("rooty").qposadr[0]
    com, momentum = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSubtreeCom(model, data, com, torso)
    mujoco.mj_angmomMat(model, data, momentum, torso)
    offset = model.body_pos[torso, 2]
    return offset + data.qpos[height], np.cos(data.qpos[tilt]), (com @ data.qvel)[0], (momentum @ data.qvel)[1]


def expected(task, height, upright, speed, momentum):
    standing = 1.0 if height >= 1.2 else 0.1 ** (((1.2 - height) / 0.6) ** 2)
    stand = (3 * standing + (1 + upright) / 2) / 4
    motion = {"walker_walk": speed, "walker_run": speed / 8, "walker_flip": momentum / 5}
    return stand if task == "walker_stand" else stand * (5 * np.clip(motion[task], 0, 1) + 1) / 6


@pytest.mark.parametrize("task", ["walker_stand", "walker_walk", "walker_run", "walker_flip"])
def test_reward_in_random_states(task):
    env, random, motions = load_task(task), np.random.default_rng(1), []
    physics = env.environment.physics
    for seed in range(60):
        env.reset(seed)
        with physics.reset_context():
            physics.data.qpos[:] = random.uniform(-1, 1, 9) * (1, 1, np.pi, *[0.5] * 6)
            physics.data.qvel[:] = random.normal(size=9) * random.choice([0.1, 0.4, 4.0])
        step = env.step(random.uniform(-1, 1, 6).astype(np.float32))
        assert not step.terminated
        state = state_of(physics)
        assert step.reward == pytest.approx(expected(task, *state), abs=1e-12)
        # A closed form that is only ever met where it is flat would prove little.
        motions.append(expected(task, 2.0, 1.0, *state[2:]))
    assert task == "walker_stand" or len({round(motion, 6) for motion in motions}) > 12


def test_a_forward_flip_is_rewarded():
    env = load_task("walker_flip")
    physics = env.environment.physics
    rewards = {}
    for direction in (1, -1):
        env.reset(0)
        with physics.reset_context():
            physics.named.data.qpos["rootz"] = 2.0
            physics.named.data.qvel["rooty"] = direction
        rewards[direction] = env.step(np.zeros(6, np.float32)).reward
        assert np.sign(physics.named.data.xmat["torso", "xz"]) == direction  # the top tips towards +x
    assert rewards[1] > 0.9
    assert rewards[-1] < 0.2
