"""Tasks of the mazes: which cell is rewarded, and that nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.envs.mazes.layouts import builtin_layouts, load_layout, parse_layout
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.pixels import MazePixels
from skillscape.envs.mazes.tasks import goal_of
from skillscape.errors import UserError

SQUARE = load_layout("square_a")


@pytest.mark.parametrize(
    ("task", "cell"), [("reach", (4, 0)), ("reach:0,4", (4, 0)), ("reach:0,0", (0, 0)), ("reach:4,2", (2, -4))]
)
def test_the_cell_of_a_task(task, cell):
    assert goal_of(SQUARE, task) == cell


def test_rows_are_the_lines_of_a_drawing():
    assert goal_of(parse_layout("####\n#S.#\n##.#\n####", "own"), "reach:2,2") == (1, -1)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("reach:0,1", "The maze square_a has no free cell in row 0, column 1: .* such as reach:0,4"),
        ("reach:9,0", "no free cell in row 9, column 0"),
        ("reach:0,5", "no free cell in row 0, column 5"),
        ("reach:-1,0", "'reach:-1,0' is not a task of the maze square_a: give reach"),
        ("reach:", "not a task"),
        ("reach:1", "not a task"),
        ("reach:a,b", "not a task"),
        ("reach:1,2,3", "not a task"),
        ("reach:0,99999999", "not a task"),
        ("walker_walk", "'walker_walk' is not a task of the maze square_a"),
        ("", "'' is not a task"),
    ],
)
def test_other_tasks_are_refused(task, message):
    with pytest.raises(UserError, match=message) as caught:
        goal_of(SQUARE, task)
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


def steps(maze, positions, actions):
    keys = jax.random.split(jax.random.key(0), len(positions))
    return jax.jit(jax.vmap(maze.step))(jnp.asarray(positions), jnp.asarray(actions), keys)


@pytest.mark.parametrize("name", builtin_layouts())
def test_a_step_is_rewarded_if_and_only_if_it_ends_in_the_cell(name):
    layout = load_layout(name)
    goal = layout.farthest_cell
    generator = np.random.default_rng(0)
    near = [cell for cell in layout.cells if np.abs(np.subtract(cell, goal)).max() <= 2]
    cells = np.asarray(near)[generator.integers(len(near), size=4000)]
    positions = (cells + generator.uniform(-0.49, 0.49, cells.shape)).astype(np.float32)
    actions = generator.uniform(-1, 1, cells.shape).astype(np.float32)
    state, step = steps(Maze(layout, goal=goal), positions, actions)
    inside = layout.cell_index(np.asarray(state)) == layout.cells.index(goal)
    np.testing.assert_array_equal(step.reward, inside.astype(np.float32))
    assert 0 < inside.mean() < 1
    assert not step.terminated.any()
    # The task is all that is new.
    plain, unrewarded = steps(Maze(layout), positions, actions)
    np.testing.assert_array_equal(plain, state)
    np.testing.assert_array_equal(unrewarded.obs, step.obs)
    assert not unrewarded.reward.any()


def test_edges_belong_to_the_cell_of_the_layout():
    layout = parse_layout("..\nS.", "own")
    edges = np.array([[0.5, 0], [0, 0.5], [0.5, 0.5]], np.float32)
    for goal in layout.cells:
        maze = Maze(layout, goal=goal)
        state, step = steps(maze, edges, np.zeros_like(edges))
        np.testing.assert_array_equal(step.reward, layout.cell_index(np.asarray(state)) == layout.cells.index(goal))


def test_the_start_can_be_the_goal_and_is_rewarded_at_every_step():
    env = MazePixels(SQUARE, goal_of(SQUARE, "reach:0,0"))
    env.reset(0)
    rewards = [env.step(np.array([-1, 0], np.float32)).reward for _ in range(50)]
    assert rewards == [1.0] * 50


def test_images_do_not_show_the_goal():
    plain, rewarded = MazePixels(SQUARE), MazePixels(SQUARE, (0, -1))
    np.testing.assert_array_equal(plain.reset(3), rewarded.reset(3))
    down = np.array([0, -1], np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(plain.step(down).obs, rewarded.step(down).obs)
