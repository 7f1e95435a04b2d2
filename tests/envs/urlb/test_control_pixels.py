"""The tasks of dm_control from images against the same ones from states."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from skillscape.envs.registry import make_env
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.envs.urlb.pixels import ACTION_REPEAT, CAMERAS
from skillscape.envs.urlb.suite import load_task
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import UserError
from skillscape.types import EnvSpec


def actions(env, number, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (number, env.spec.action_dim)).astype(np.float32)


def play(env, seed, steps=20):
    """The images of an episode, then its rewards, terminations and truncations."""
    frames = [env.reset(seed)]
    steps = [env.step(action) for action in actions(env, steps)]
    return np.stack([*frames, *(step.obs for step in steps)]), [step[1:] for step in steps]


@pytest.fixture(scope="module")
def drawing():
    pytest.importorskip("dm_control")
    try:
        rendering_backend()
    except UserError as error:
        pytest.skip(str(error))


EVERY_DOMAIN = pytest.mark.parametrize("domain", CAMERAS)


@EVERY_DOMAIN
@pytest.mark.usefixtures("drawing")
def test_rewards_and_states_are_those_of_the_task_with_every_action_repeated(domain):
    task = DOMAINS[domain].tasks[-1]
    env, plain = make_env(f"{domain}-pixels", task), load_task(task)
    assert env.spec == EnvSpec((64, 64, 3), plain.spec.action_dim, 500)
    _, steps = play(env, 5, 6)
    plain.reset(5)
    held = [[plain.step(action).reward for _ in range(ACTION_REPEAT)] for action in actions(env, 6)]
    assert [reward for reward, _, _ in steps] == [sum(rewards) for rewards in held]
    np.testing.assert_array_equal(
        env.inner.environment.physics.data.qpos, plain.environment.physics.data.qpos, strict=True
    )
    env.close()


@EVERY_DOMAIN
@pytest.mark.usefixtures("drawing")
def test_frames_show_the_body_and_follow_it(domain):
    env = make_env(f"{domain}-pixels")
    frames, _ = play(env, 1, 12)
    assert frames.dtype == np.uint8
    assert all(len(np.unique(frame.reshape(-1, 3), axis=0)) > 50 for frame in frames)
    # The body is orange in a blue world, in the middle and not at the edges.
    orange = frames[..., 0].astype(int) > frames[..., 2].astype(int) + 40
    assert (orange.sum(axis=(1, 2)) > 60).all()
    assert not orange[:, :4].any()
    assert all((one != other).any() for one, other in itertools.pairwise(frames))
    env.close()


@pytest.mark.usefixtures("drawing")
def test_an_episode_repeats_by_its_seed_beside_other_environments():
    env, other = make_env("walker-pixels"), make_env("quadruped-pixels")
    first, rewards = play(env, 2, 5)
    other.reset(0)
    again = make_env("walker-pixels")
    play(again, 3, 2)
    np.testing.assert_array_equal(play(again, 2, 5)[0], first)
    again.close()
    frames, steps = play(env, 2, 5)
    np.testing.assert_array_equal(frames, first)
    assert steps == rewards
    env.close()
    other.close()


@pytest.mark.usefixtures("drawing")
def test_tasks_of_a_domain_look_the_same_at_the_start():
    frames = []
    for task in ("walker_stand", "walker_flip"):
        env = make_env("walker-pixels", task)
        frames.append(env.reset(6))
        env.close()
    np.testing.assert_array_equal(frames[0], frames[1])


@pytest.mark.usefixtures("drawing")
def test_an_episode_is_truncated_after_five_hundred_actions():
    env = make_env("walker-pixels")
    env.reset(0)
    env.inner._steps_left = 3  # an odd number left: the last action is held once
    still = np.zeros(6, np.float32)
    assert env.step(still)[2:] == (False, False)
    last = env.step(still)
    assert last[2:] == (False, True)
    assert 0 < last.reward <= 1
    with pytest.raises(RuntimeError, match="reset"):
        env.step(still)
    env.close()


@pytest.mark.usefixtures("drawing")
def test_diverged_physics_show_the_last_frame(caplog):
    env = make_env("walker-pixels")
    seen = env.reset(0)
    env.inner.environment.physics.data.qvel[:] = 1e12
    step = env.step(np.ones(6, np.float32))
    assert (step.reward, step.terminated, step.truncated) == (0.0, True, False)
    np.testing.assert_array_equal(step.obs, seen)
    assert "diverged" in caplog.text
    env.close()


_QUALITIES = """
import numpy as np
from dm_control.mujoco import engine
from skillscape.envs.registry import make_env
for domain, camera in (("walker", 0), ("quadruped", 2)):
    frames = {}
    for quality in ("", "/reference"):
        env = make_env(f"{domain}-pixels{quality}")
        env.reset(4)
        for _ in range(3):
            frames[quality] = env.step(np.full(env.spec.action_dim, 0.5, np.float32)).obs
    plain = make_env(domain)
    plain.reset(4)
    for _ in range(6):
        plain.step(np.full(env.spec.action_dim, 0.5, np.float32))
    truth = plain.environment.physics.render(64, 64, camera_id=camera)
    assert (frames["/reference"] == truth).all(), "not what dm_control renders"
    difference = np.abs(frames[""].astype(int) - truth).mean()
    assert 1 < difference < 15, difference
"""


@pytest.mark.usefixtures("drawing")
def test_the_reference_quality_is_that_of_dm_control_and_the_fast_one_is_near_it():
    # In a process of its own, where dm_control has its graphics from the beginning.
    backend = rendering_backend()
    subprocess.run([sys.executable, "-c", _QUALITIES], env={**os.environ, "MUJOCO_GL": backend}, check=True)
