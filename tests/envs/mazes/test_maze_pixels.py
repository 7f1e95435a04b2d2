"""Mazes from images against the same ones by position."""

import jax
import numpy as np
import pytest

from skillscape.envs.mazes.layouts import load_layout
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.pixels import MazePixels
from skillscape.envs.mazes.render import render_maze
from skillscape.types import EnvSpec


def actions(env, number, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (number, env.spec.action_dim)).astype(np.float32)


def play(env, seed, steps=20):
    """The images of an episode, then its rewards, terminations and truncations."""
    frames = [env.reset(seed)]
    steps = [env.step(action) for action in actions(env, steps)]
    return np.stack([*frames, *(step.obs for step in steps)]), [step[1:] for step in steps]


def test_positions_and_rewards_are_those_of_the_maze():
    env, maze = MazePixels(load_layout("square_a")), Maze(load_layout("square_a"))
    assert env.spec == EnvSpec((64, 64, 3), 2, maze.spec.horizon)
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


def test_an_episode_repeats_by_its_seed():
    env = MazePixels(load_layout("square_tree"))
    first, _ = play(env, 3)
    np.testing.assert_array_equal(play(env, 3)[0], first)
    np.testing.assert_array_equal(play(MazePixels(load_layout("square_tree")), 3)[0], first)
    assert (play(env, 4)[0] != first).any()


def test_images_and_positions_are_the_callers_to_keep():
    env = MazePixels(load_layout("square_a"))
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
    env = MazePixels(load_layout("square_a"))
    env.reset(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros(2, np.float32))
