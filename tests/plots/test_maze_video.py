"""Video frames of a maze: their number, dots at the positions, walls on top of the trails."""

import numpy as np
import pytest

from skillscape.envs.mazes.layouts import builtin_layouts, load_layout
from skillscape.plots.maze_video import FRAMES_PER_STEP, maze_frames

RED = np.array([1.0, 0.0, 0.0, 1.0])


def rollouts(layout, steps=4):
    """Two rollouts through the centres of the first cells."""
    cells = np.asarray(layout.cells[: steps + 1], float)
    return np.stack([cells, cells])


@pytest.mark.parametrize("name", builtin_layouts())
def test_every_maze_fits_its_frames(name):
    layout = load_layout(name)
    first, *others = maze_frames(rollouts(layout, 2), layout, RED, 120)
    assert len(others) == 2 * FRAMES_PER_STEP
    assert first.dtype == np.uint8
    assert max(first.shape[:2]) == 120
    assert all(side % 2 == 0 for side in first.shape[:2])
    assert (first.min(axis=2) < 60).any()  # walls
    assert {frame.shape for frame in others} == {first.shape}


def test_dots_move_and_leave_trails():
    layout = load_layout("square_a")
    positions = rollouts(layout)
    frames = list(maze_frames(positions, layout, RED, 240))
    redness = [frame[..., 0].astype(int) - frame[..., 1] for frame in frames]
    low, high = layout.bounds
    for step in range(positions.shape[1]):
        x, y = (positions[0, step] - low) / (high - low)
        picture = redness[step * FRAMES_PER_STEP]
        # A margin is left around the walls, so this is right to a few pixels.
        row, column = round((1 - y) * 240), round(x * 240)
        near = picture[max(0, row - 6) : row + 7, max(0, column - 6) : column + 7]
        assert near.max() > 200
    areas = [(picture > 40).sum() for picture in redness]
    assert areas[-1] > areas[FRAMES_PER_STEP] > areas[0] > 0


def test_frames_do_not_share_memory():
    layout = load_layout("square_a")
    first, *_, last = maze_frames(rollouts(layout), layout, RED, 100)
    assert not np.array_equal(first, last)
