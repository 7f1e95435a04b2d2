"""Mazes as images: what is shown where, and the same bits from NumPy and from JAX."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillscape.envs.mazes.layouts import builtin_layouts, load_layout, parse_layout
from skillscape.envs.mazes.render import (
    AGENT,
    FREE,
    MAX_CELLS_PER_SIDE,
    SOLID,
    WALL,
    MazeRenderer,
    background,
    render_maze,
)
from skillscape.errors import UserError

EVERY_MAZE = pytest.mark.parametrize("name", builtin_layouts())


def places(layout, number, seed=0):
    """Positions all over the free cells."""
    generator = np.random.default_rng(seed)
    cells = np.array(layout.cells)[generator.integers(len(layout.cells), size=number)]
    return (cells + generator.uniform(-0.5, 0.5, (number, 2))).astype(np.float32)


def pixel(layout, point):
    """Column and row, in pixels and parts of them, that show a point: x to the right, y upwards, 3 pixels of border."""
    low, high = layout.bounds
    scale = 58 / (high - low).max()
    x, y = (np.asarray(point) - (low + high) / 2) * scale
    return 32 + x, 32 - y


@EVERY_MAZE
def test_numpy_and_jax_render_the_same(name):
    layout = load_layout(name)
    positions = places(layout, 100)
    frames = np.asarray(render_maze(layout, positions))
    assert (frames.shape, frames.dtype) == ((100, 64, 64, 3), np.uint8)
    renderer = MazeRenderer(layout)
    np.testing.assert_array_equal(renderer(jax.numpy.asarray(positions)), frames)
    for position, frame in zip(positions, frames, strict=True):
        np.testing.assert_array_equal(renderer.frame(position), frame)


@given(x=st.floats(-8, 8, width=32), y=st.floats(-8, 8, width=32))
@settings(max_examples=100, deadline=None)
def test_they_render_the_same_at_any_point_inside_or_outside(x, y):
    layout = load_layout("square_a")
    position = np.array([x, y], np.float32)
    np.testing.assert_array_equal(
        MazeRenderer(layout).frame(position), np.asarray(render_maze(layout, position[None]))[0]
    )


@EVERY_MAZE
def test_the_agent_is_shown_at_its_position(name):
    layout = load_layout(name)
    empty = background(layout)
    for position in places(layout, 20, seed=1):
        frame = MazeRenderer(layout).frame(position)
        changed = np.abs(frame.astype(int) - empty).sum(axis=-1)
        rows, columns = np.nonzero(changed)
        column, row = pixel(layout, position)
        distance = np.hypot(columns + 0.5 - column, rows + 0.5 - row)
        assert distance.max() < 3.05
        # Nothing of the disc is missing: it covers some 20 pixels wherever it is.
        assert 18 < len(rows) < 34
        inner = distance < 1.95
        assert inner.sum() >= 8
        assert (frame[rows[inner], columns[inner]] == AGENT).all()


def test_the_edge_of_the_disc_has_subpixel_resolution():
    layout = load_layout("square_a")
    here, there = np.asarray(render_maze(layout, np.array([[0, 0], [0.01, 0]], np.float32))).astype(int)
    assert (here != there).any()  # a hundredth of a cell is a tenth of a pixel
    soft = (here != AGENT).any(-1) & (here != FREE).any(-1) & (background(layout) == FREE).all(-1)
    assert soft.sum() > 4


@EVERY_MAZE
def test_cells_are_light_and_walls_are_dark(name):
    layout = load_layout(name)
    empty = background(layout)

    def shown(point):
        column, row = pixel(layout, point)
        return empty[int(row), int(column)]

    for cell in layout.cells:
        np.testing.assert_array_equal(shown(cell), FREE)
    for wall in layout.walls:
        assert shown(np.mean(wall, axis=0)).max() < 130
    width, height = layout.grid_shape
    solid = np.argwhere(layout.cell_grid < 0) + layout.origin
    for cell in solid:
        np.testing.assert_array_equal(shown(cell), SOLID)
    assert len(solid) == width * height - len(layout.cells)
    np.testing.assert_array_equal(empty[0, 0], SOLID)


def test_walls_have_their_colour_somewhere():
    assert (background(load_layout("square_a")) == WALL).all(axis=-1).sum() > 100


def test_up_is_up():
    layout = parse_layout("S..\n#.#", "own")
    high, low = np.asarray(render_maze(layout, np.array([[1, 0], [1, -1]], np.float32)))
    red = [(frame == AGENT).all(axis=-1).nonzero()[0].mean() for frame in (high, low)]
    assert red[0] < 32 < red[1]


def test_batches_inside_a_compiled_loop():
    layout = load_layout("square_c")
    positions = places(layout, 6).reshape(2, 3, 2)
    frames = jax.jit(jax.vmap(lambda batch: render_maze(layout, batch)))(positions)
    np.testing.assert_array_equal(frames[1], render_maze(layout, positions[1]))


def test_the_background_is_made_once():
    assert background(load_layout("square_b")) is background(load_layout("square_b"))


def test_a_maze_that_64_pixels_cannot_show_is_refused():
    fits = parse_layout("S" + "." * (MAX_CELLS_PER_SIDE - 1), "corridor")
    assert len(np.unique(background(fits).reshape(-1, 3), axis=0)) > 2
    with pytest.raises(UserError, match=r"long has 21 × 1 cells.*at most 20 on a side"):
        MazeRenderer(parse_layout("S" + "." * MAX_CELLS_PER_SIDE, "long"))
