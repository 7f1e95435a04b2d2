"""Movement in the mazes: steps measured on the reference, walls that hold on any numbers, and an independent walk."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.envs.base import JaxEnv
from skillscape.envs.mazes.layouts import builtin_layouts, load_layout, parse_layout
from skillscape.envs.mazes.maze import WALL_MARGIN, Maze, make_maze
from skillscape.errors import UserError
from skillscape.types import EnvSpec

NEAR = 2e-6
OWN = parse_layout("....#\n.#S#.\n.##..\n.....\n", "own")
LAYOUTS = [*(load_layout(name) for name in builtin_layouts()), OWN]
EVERY_MAZE = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)


@cache
def batched_move(maze):
    return jax.jit(jax.vmap(maze.move))


def move_many(maze, positions, displacements, seed=0):
    positions = jnp.asarray(positions, dtype=jnp.float32)
    keys = jax.random.split(jax.random.key(seed), len(positions))
    return np.asarray(batched_move(maze)(positions, jnp.asarray(displacements, dtype=jnp.float32), keys))


@pytest.mark.parametrize(
    ("position", "displacement", "x_range", "y_range"),
    [
        ((0, 0), (0.95, 0), (0.49, 0.5), (0, 0)),
        ((0, 0), (0, -0.95), (0, 0), (-0.95, -0.95)),
        ((0, 0), (0.95, -0.95), (0.49, 0.5), (-0.95, -0.95)),
        ((0, 0), (-0.95, 0.95), (-0.5, -0.49), (0.49, 0.5)),
        ((0.4, -1.9), (0.3, 0.6), (0.7, 0.7), (-1.51, -1.5)),
        ((0.4, -1.4), (0.9, -0.9), (0.49, 0.5), (-2.3, -2.3)),
        ((3.2, -4), (0.9, 0.9), (4.1, 4.1), (-3.1, -3.1)),
        ((0, -2), (0.9, 0), (0.9, 0.9), (-2, -2)),
        ((2, -0.2), (0.3, 0.9), (2.3, 2.3), (0.49, 0.5)),
    ],
)
def test_steps_measured_on_the_reference(position, displacement, x_range, y_range):
    draws = move_many(make_maze("square_a"), [position] * 400, [displacement] * 400)
    for found, (low, high) in zip(draws.T, (x_range, y_range), strict=True):
        assert low - NEAR <= found.min()
        assert found.max() <= high + NEAR
        if low < high:  # a wall: the back-off fills its range
            assert found.min() < low + 0.001
            assert high - 0.001 < found.max()


@pytest.mark.parametrize(
    ("position", "displacement", "expected"),
    [
        ((0, -4), (0.95, 0.95), (0.95, -3.505)),  # both ways round the corner are open, but the diagonal is solid
        ((0, -4), (0.5, 0.5), (0.5, -3.505)),
        ((2, -2), (-0.75, 0.75), (1.25, -1.505)),
        ((4, -4), (-0.75, 0.75), (3.25, -3.505)),
        ((0.25, -1.25), (0.5, -0.5), (0.495, -1.75)),  # past the end of a wall
        ((1.25, -2.25), (-0.75, 0.75), (0.5, -1.505)),  # ends on an open edge and a wall at once
        ((4, 0), (0.95, 0.95), (4.495, 0.495)),
    ],
)
def test_corners_are_closed(position, displacement, expected):
    maze = Maze(load_layout("square_a"), back_off=0.005)
    np.testing.assert_allclose(move_many(maze, [position], [displacement])[0], expected, atol=NEAR)


@pytest.mark.parametrize(("drawing", "expected"), [("#.\nS.\n", (0.75, 0.495)), ("..\nS#\n", (0.495, 0.75))])
def test_the_wall_ahead_wins_a_tie_although_the_way_round_its_end_is_open(drawing, expected):
    maze = Maze(parse_layout(drawing, "own"), back_off=0.005)
    np.testing.assert_allclose(move_many(maze, [(0, 0)], [(0.75, 0.75)])[0], expected, atol=NEAR)


def test_nothing_rests_on_a_corner():
    layout = parse_layout("..\nS.\n", "own")
    (x, y), *_ = move_many(Maze(layout), [(0, 0)], [(0.5, 0.5)])
    assert (x, y) != (0.5, 0.5)
    np.testing.assert_allclose((x, y), 0.5, atol=2 * WALL_MARGIN)


def touching(layout, positions):
    """Indices of the free cells that each position is in or on the edge of, [4, ...]; -1 fills up."""
    shifts = 1e-9 * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    return np.stack([layout.cell_index(np.float64(positions) + shift) for shift in shifts])


def moves_between(layout):
    """Moves between any two cells, from the neighbours alone."""
    moves = np.full((len(layout.cells), len(layout.cells)), 99)
    np.fill_diagonal(moves, 0)
    for cell, others in enumerate(layout.neighbours):
        moves[cell, list(others)] = 1
    for middle in range(len(moves)):
        moves = np.minimum(moves, moves[:, middle, None] + moves[None, middle])
    return moves


def fewest_moves(layout, before, after):
    """Moves between the cells of positions, the fewest where a position lies between cells."""
    moves = np.pad(moves_between(layout), (0, 1), constant_values=99)  # index -1 finds the padding
    return moves[touching(layout, before)[:, None], touching(layout, after)[None]].min(axis=(0, 1))


def distance_to_walls(layout, positions):
    """The distance of each position to the nearest wall, in blocks of positions to save memory."""
    walls = np.sort(np.array(layout.walls), axis=1)
    blocks = []
    for block in np.array_split(np.float64(positions).reshape(-1, 1, 2), 20):
        blocks.append(np.linalg.norm(block - np.clip(block, walls[:, 0], walls[:, 1]), axis=-1).min(axis=-1))
    return np.concatenate(blocks)


def awkward_starts(layout, count, generator):
    """Points of free cells on a half-integer grid, on float32 neighbours of it, and anywhere in between."""
    cells = np.array(layout.cells)[generator.integers(len(layout.cells), size=count)]
    exact = generator.choice([-0.5, 0.0, 0.5], size=(count, 2))
    positions = np.float32(
        cells + np.where(generator.random((count, 2)) < 0.6, exact, generator.random((count, 2)) - 0.5)
    )
    nudged = np.nextafter(positions, np.float32(generator.choice([-99, 99], size=(count, 2))))
    return np.where(generator.random((count, 2)) < 0.3, nudged, positions)


def awkward_displacements(shape, generator):
    """Exact halves, the largest step, nothing at all, next to nothing, and anything."""
    exact = generator.choice([0.0, 0.5, -0.5, 0.95, -0.95, 0.25, -0.25, 1e-7, -1e-7, 1e-30], size=shape)
    return np.float32(np.where(generator.random(shape) < 0.5, exact, generator.uniform(-0.95, 0.95, shape)))


@EVERY_MAZE
@pytest.mark.parametrize("back_off", [None, 0.0, 0.005])
def test_no_walk_ever_leaves_the_maze_or_crosses_a_wall(layout, back_off):
    maze = Maze(layout, back_off)
    generator = np.random.default_rng(0)
    walks, steps = 400, 200
    starts = awkward_starts(layout, walks, generator)
    displacements = awkward_displacements((steps, walks, 2), generator)

    @jax.jit
    def walk(positions, displacements, key):
        def one_step(positions, inputs):
            displacement, key = inputs
            positions = jax.vmap(maze.move)(positions, displacement, jax.random.split(key, walks))
            return positions, positions

        return jax.lax.scan(one_step, positions, (displacements, jax.random.split(key, steps)))[1]

    path = np.asarray(walk(starts, displacements, jax.random.key(0)))
    assert path.dtype == np.float32
    assert (layout.cell_index(path) >= 0).all()
    assert distance_to_walls(layout, path).min() > 0.9 * WALL_MARGIN
    # A step passes at most two open edges. A start on a wall may go on at either side, one beyond it has no cell.
    assert fewest_moves(layout, path[:-1], path[1:]).max() <= 2
    legal = layout.cell_index(starts) >= 0
    assert 0.8 < legal.mean() < 1
    assert fewest_moves(layout, starts[legal], path[0][legal]).max() <= 2
    jumps = np.abs(np.diff(np.concatenate([starts[None], path]), axis=0))[:, legal]
    assert (jumps <= np.abs(displacements[:, legal]) + 0.0101).all()
    assert len(np.unique(layout.cell_index(path))) > 0.6 * len(layout.cells)  # the walks did go somewhere


@EVERY_MAZE
def test_extreme_inputs_stay_in_the_maze(layout):
    generator = np.random.default_rng(1)
    low, high = layout.bounds
    positions = np.float32(generator.uniform(low - 2, high + 2, (2000, 2)))  # solid places and the world outside
    displacements = np.float32(generator.choice([0, 1, -1, 7.3, -7.3, 1e9, -1e9], size=(2000, 2)))
    after = move_many(Maze(layout), positions, displacements)
    assert (layout.cell_index(after) >= 0).all()
    assert distance_to_walls(layout, after).min() > 0.9 * WALL_MARGIN
    legal = layout.cell_index(positions) >= 0
    assert fewest_moves(layout, positions[legal], after[legal]).max() <= 2


def reference_move(walls, position, displacement, back_off):
    """Slide along wall segments in double precision: no cells and no grid, unlike the code under test."""
    position, rest = np.array(position, dtype=float), np.array(displacement, dtype=float)
    for _ in range(4):
        first, hit_axis = 1.0, None
        for low, high in walls:
            axis = 0 if low[0] == high[0] else 1
            if rest[axis] == 0:
                continue
            fraction = (low[axis] - position[axis]) / rest[axis]
            along = position[1 - axis] + fraction * rest[1 - axis]
            if 0 <= fraction <= first and low[1 - axis] <= along <= high[1 - axis]:
                first, hit_axis = fraction, axis
        position = position + first * rest
        if hit_axis is None:
            break
        position[hit_axis] -= back_off * np.sign(rest[hit_axis])
        rest = (1 - first) * rest
        rest[hit_axis] = 0.0
    return position


@EVERY_MAZE
def test_moves_agree_with_a_walk_among_wall_segments(layout):
    generator = np.random.default_rng(2)
    count = 1500
    cells = np.array(layout.cells)[generator.integers(len(layout.cells), size=count)]
    positions = np.float32(cells + generator.uniform(-0.499, 0.499, (count, 2)))
    displacements = np.float32(generator.uniform(-0.95, 0.95, (count, 2)))
    walls = np.sort(np.array(layout.walls), axis=1)
    expected = [reference_move(walls, *pair, 0.005) for pair in zip(positions, displacements, strict=True)]
    found = move_many(Maze(layout, back_off=0.005), positions, displacements)
    np.testing.assert_allclose(found, expected, atol=NEAR)
    blocked = np.abs(found - positions - displacements).max(axis=1) > 1e-4
    assert 0.1 < blocked.mean() < 0.9  # both kinds of step were compared


@EVERY_MAZE
def test_training_starts_fill_the_start_cell_up_to_its_walls(layout):
    starts = np.asarray(jax.vmap(Maze(layout).reset)(jax.random.split(jax.random.key(0), 4000))) - layout.start
    walls = layout.sides[tuple(np.subtract(layout.start, layout.origin))]
    low, high = -0.5 + 0.05 * walls[0], 0.5 - 0.05 * walls[1]
    np.testing.assert_allclose(starts.min(axis=0), low, atol=0.003)
    np.testing.assert_allclose(starts.max(axis=0), high, atol=0.003)
    assert (starts >= low - NEAR).all()
    assert (starts <= high + NEAR).all()
    np.testing.assert_allclose(starts.mean(axis=0), (low + high) / 2, atol=0.02)


def test_the_margin_of_training_starts_in_square_a():
    starts = np.asarray(jax.vmap(make_maze("square_a").reset)(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(starts.min(axis=0), (-0.45, -0.5), atol=0.003)
    np.testing.assert_allclose(starts.max(axis=0), (0.45, 0.45), atol=0.003)


def test_evaluation_always_starts_at_the_same_point():
    for seed in range(2):
        start = make_maze("square_tree").reset_for_evaluation(jax.random.key(seed))
        np.testing.assert_array_equal(start, np.float32([0, -0.5]))


def test_back_off_is_random_unless_given():
    inputs = [(0, 0)], [(0.95, 0.95)]
    assert (
        move_many(make_maze("square_a"), *inputs, seed=0) != move_many(make_maze("square_a"), *inputs, seed=1)
    ).all()
    fixed = Maze(load_layout("square_a"), back_off=0.005)
    np.testing.assert_array_equal(move_many(fixed, *inputs, seed=0), move_many(fixed, *inputs, seed=1))


def test_the_two_axes_back_off_independently():
    draws = 0.5 - move_many(make_maze("square_a"), [(0, 0)] * 2000, [(-0.95, 0.95)] * 2000) * (-1, 1)
    assert draws.min() >= WALL_MARGIN - NEAR
    np.testing.assert_allclose(draws.mean(axis=0), 0.005, atol=0.0003)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.1


def test_a_step_scales_and_clips_the_action_and_gives_no_reward():
    maze = make_maze("square_corridor")
    assert isinstance(maze, JaxEnv)
    assert maze.spec == EnvSpec((2,), 2, 50)
    key = jax.random.key(0)
    for action, distance in ((1.0, 0.95), (0.5, 0.475), (-3.0, -0.95)):
        state, timestep = jax.jit(maze.step)(jnp.zeros(2), jnp.float32([action, 0]), key)
        np.testing.assert_allclose(state, (distance, 0), atol=NEAR)
        np.testing.assert_array_equal(timestep.obs, state)
        np.testing.assert_array_equal(maze.observe(state), state)
        assert (timestep.reward.dtype, timestep.terminated.dtype) == (jnp.float32, jnp.float32)
        assert (timestep.reward, timestep.terminated) == (0, 0)


def test_mazes_are_values_that_compile_once():
    traces = []

    @jax.jit
    def count_traces(position, key):
        traces.append(1)
        return make_maze("square_a").step(position, jnp.ones(2), key)[0]

    for seed in range(3):
        count_traces(jnp.zeros(2), jax.random.key(seed))
    assert len(traces) == 1
    static = jax.jit(lambda maze, key: maze.reset(key), static_argnums=0)
    for _ in range(2):
        static(make_maze("square_a"), jax.random.key(0))
    assert static._cache_size() == 1
    assert make_maze("square_a") == make_maze("square_a") != Maze(load_layout("square_a"), back_off=0.005)


def test_strict_promotion_rules_are_kept():
    maze = make_maze("square_a")
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"), jax.debug_nans(True):
        state = maze.reset(jax.random.key(0))
        state, _ = maze.step(state, jnp.zeros(2, dtype=jnp.float32), jax.random.key(1))
        assert state.dtype == maze.reset_for_evaluation(jax.random.key(0)).dtype == jnp.float32


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("square_a", 12.3, 14.2), ("square_tree", 16, 19.2), ("square_bottleneck", 28.7, 32.7), ("square_large", 25, 30)],
)
def test_cells_that_random_actions_visit(name, low, high):
    """The rules of the reference in double precision give 13.3, 17.6, 30.8 and 27.1 cells in twenty episodes."""
    maze = make_maze(name)
    groups, episodes = 40, 20

    @jax.jit
    @jax.vmap
    def episode(key):
        start_key, walk_key = jax.random.split(key)

        def one_step(position, key):
            action_key, step_key = jax.random.split(key)
            action = jax.random.uniform(action_key, (2,), minval=-1, maxval=1)
            position, timestep = maze.step(position, action, step_key)
            return position, timestep.obs

        return jax.lax.scan(one_step, maze.reset(start_key), jax.random.split(walk_key, maze.spec.horizon))[1]

    path = np.asarray(episode(jax.random.split(jax.random.key(0), groups * episodes)))
    visited = maze.layout.cell_index(path).reshape(groups, -1)
    assert low < np.mean([len(np.unique(group)) for group in visited]) < high


def test_unknown_mazes_are_refused():
    with pytest.raises(UserError, match="did you mean 'square_tree'"):
        make_maze("squaretree")
