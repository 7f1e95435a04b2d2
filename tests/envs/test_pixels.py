"""Environments that are seen, against the same ones that tell their state."""

import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from skillscape.envs.host import make_host
from skillscape.envs.layouts import load_layout
from skillscape.envs.maze_frames import render_maze
from skillscape.envs.mazes import Maze
from skillscape.envs.pixels import ACTION_REPEAT, CAMERAS, make_maze_pixels
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.envs.urlb.suite import load_task
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import UserError


def actions(env, number, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (number, env.spec.action_dim)).astype(np.float32)


def play(env, seed, steps=20):
    """All that an episode shows: its images, then rewards and ends."""
    frames = [env.reset(seed)]
    steps = [env.step(action) for action in actions(env, steps)]
    return np.stack([*frames, *(step.obs for step in steps)]), [step[1:] for step in steps]


# Mazes


def test_a_seen_maze_is_the_maze():
    env, maze = make_maze_pixels("square_a"), Maze(load_layout("square_a"))
    assert env.spec == ((64, 64, 3), 2, maze.spec.horizon)
    frames, positions = [env.reset(11)], [env.position]
    key = jax.random.key(11)
    state = maze.reset(key)
    np.testing.assert_array_equal(positions[0], state)
    for count, action in enumerate(actions(env, 50), 1):
        step = env.step(action)
        assert (step.reward, step.terminated, step.truncated) == (0.0, False, count == 50)
        state, _ = maze.step(state, jax.numpy.asarray(action), jax.random.fold_in(key, count))
        np.testing.assert_allclose(env.position, state, atol=1e-6)
        frames.append(step.obs)
        positions.append(env.position)
    np.testing.assert_array_equal(np.stack(frames), render_maze(env.layout, np.stack(positions)))
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))


def test_a_seen_maze_repeats_by_its_seed():
    env = make_maze_pixels("square_tree")
    first, _ = play(env, 3)
    np.testing.assert_array_equal(play(env, 3)[0], first)
    np.testing.assert_array_equal(play(make_maze_pixels("square_tree"), 3)[0], first)
    assert (play(env, 4)[0] != first).any()


def test_evaluation_begins_at_the_fixed_point():
    env = make_maze_pixels("square_a")
    frames = [env.reset_for_evaluation(seed) for seed in (0, 1)]
    np.testing.assert_array_equal(frames[0], frames[1])
    np.testing.assert_array_equal(env.position, np.float32(env.layout.evaluation_start))
    env.step(np.array([0, -1], np.float32))
    assert env.position[1] == pytest.approx(env.layout.evaluation_start[1] - env.layout.max_step)


def test_images_and_positions_are_the_callers_to_keep():
    env = make_maze_pixels("square_a")
    frame, position = env.reset(0), env.position
    kept = frame.copy(), position.copy()
    for action in actions(env, 5):
        step = env.step(action)
        step.obs[:] = 0
    np.testing.assert_array_equal(frame, kept[0])
    np.testing.assert_array_equal(position, kept[1])
    frame[:], position[:] = 0, 9
    np.testing.assert_array_equal(env.reset(0), kept[0])


def test_a_closed_maze_has_to_be_reset():
    env = make_maze_pixels("square_a")
    env.reset(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))


# Walker and quadruped


@pytest.fixture(scope="module")
def drawing():
    pytest.importorskip("dm_control")
    try:
        rendering_backend()
    except UserError as error:
        pytest.skip(str(error))


SEEN = pytest.mark.parametrize("domain", CAMERAS)


@SEEN
@pytest.mark.usefixtures("drawing")
def test_a_seen_task_is_the_task_with_every_action_held_twice(domain):
    task = DOMAINS[domain].tasks[-1]
    env, plain = make_host(f"{domain}-pixels", task), load_task(task)
    assert env.spec == ((64, 64, 3), plain.spec.action_dim, 500)
    _, steps = play(env, 5, 6)
    plain.reset(5)
    held = [[plain.step(action).reward for _ in range(ACTION_REPEAT)] for action in actions(env, 6)]
    assert [reward for reward, _, _ in steps] == [sum(rewards) for rewards in held]
    np.testing.assert_array_equal(
        env._inner.environment.physics.data.qpos, plain.environment.physics.data.qpos, strict=True
    )
    env.close()


@SEEN
@pytest.mark.usefixtures("drawing")
def test_frames_show_the_body_and_follow_it(domain):
    env = make_host(f"{domain}-pixels")
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
def test_a_seen_episode_repeats_by_its_seed_beside_other_environments():
    env, other = make_host("walker-pixels"), make_host("quadruped-pixels")
    first, rewards = play(env, 2, 5)
    other.reset(0)
    again = make_host("walker-pixels")
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
        env = make_host("walker-pixels", task)
        frames.append(env.reset(6))
        env.close()
    np.testing.assert_array_equal(frames[0], frames[1])


@pytest.mark.usefixtures("drawing")
def test_an_episode_is_cut_after_five_hundred_actions():
    env = make_host("walker-pixels")
    env.reset(0)
    env._inner._left = 3  # an odd number left: the last action is held once
    still = np.zeros(6, np.float32)
    assert env.step(still)[2:] == (False, False)
    last = env.step(still)
    assert last[2:] == (False, True)
    assert 0 < last.reward <= 1
    with pytest.raises(RuntimeError, match="reset"):
        env.step(still)
    env.close()


@pytest.mark.usefixtures("drawing")
def test_physics_that_diverge_show_what_was_seen_last(caplog):
    env = make_host("walker-pixels")
    seen = env.reset(0)
    env._inner.environment.physics.data.qvel[:] = 1e12
    step = env.step(np.ones(6, np.float32))
    assert (step.reward, step.terminated, step.truncated) == (0.0, True, False)
    np.testing.assert_array_equal(step.obs, seen)
    assert "diverged" in caplog.text
    env.close()


_LOOKS = """
import numpy as np
from dm_control.mujoco import engine
from skillscape.envs.host import make_host
for domain, camera in (("walker", 0), ("quadruped", 2)):
    frames = {}
    for look in ("", "/reference"):
        env = make_host(f"{domain}-pixels{look}")
        env.reset(4)
        for _ in range(3):
            frames[look] = env.step(np.full(env.spec.action_dim, 0.5, np.float32)).obs
    plain = make_host(domain)
    plain.reset(4)
    for _ in range(6):
        plain.step(np.full(env.spec.action_dim, 0.5, np.float32))
    truth = plain.environment.physics.render(64, 64, camera_id=camera)
    assert (frames["/reference"] == truth).all(), "not what dm_control draws"
    difference = np.abs(frames[""].astype(int) - truth).mean()
    assert 1 < difference < 15, difference
"""


@pytest.mark.usefixtures("drawing")
def test_the_reference_look_is_what_dm_control_draws_and_the_fast_one_is_near_it():
    # In a process of its own, where dm_control has its graphics from the beginning.
    backend = rendering_backend()
    subprocess.run([sys.executable, "-c", _LOOKS], env={**os.environ, "MUJOCO_GL": backend}, check=True)
