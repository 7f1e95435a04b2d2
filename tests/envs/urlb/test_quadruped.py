"""The quadruped's rewards, against closed forms computed from its pose and its masses."""

import numpy as np
import pytest

from skillscape.envs.urlb.suite import load_task

mujoco = pytest.importorskip("mujoco")


def state_of(physics):
    """Cosine to the vertical, forward speed in the torso's frame, height of the centre of mass: without sensors."""
    model, data = physics.model.ptr, physics.data.ptr
    _, x, y, _ = data.qpos[3:7] / np.linalg.norm(data.qpos[3:7])
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, model.site("torso").id, velocity, 1)
    height = model.body_mass[1:] @ data.xipos[1:, 2] / model.body_mass[1:].sum()
    return 1 - 2 * (x**2 + y**2), velocity[3], height


def expected(task, upright, speed, height):
    factors = {
        "quadruped_stand": 1.0,
        "quadruped_walk": np.clip(0.5 + speed, 0, 1),
        "quadruped_run": np.clip(0.5 + speed / 10, 0, 1),
        "quadruped_jump": np.clip(0.5 + height / 2, 0, 1),
    }
    return (1 + upright) / 2 * factors[task]


@pytest.mark.parametrize("task", ["quadruped_stand", "quadruped_walk", "quadruped_run", "quadruped_jump"])
def test_reward_in_random_states(task):
    env, random, factors = load_task(task), np.random.default_rng(2), set()
    physics = env.environment.physics
    for seed in range(40):
        env.reset(seed)
        with physics.reset_context():
            physics.data.qpos[:3] = 0, 0, random.uniform(0.7, 1.4)
            physics.data.qpos[3:7] = random.normal(size=4)
            physics.data.qvel[:6] = random.normal(size=6) * random.choice([0.3, 3.0])
        step = env.step(random.uniform(-1, 1, 12).astype(np.float32))
        assert not step.terminated
        state = state_of(physics)
        assert step.reward == pytest.approx(expected(task, *state), abs=1e-9)
        factors.add(round(expected(task, 1.0, *state[1:]), 6))
    assert task == "quadruped_stand" or len(factors) > 10
