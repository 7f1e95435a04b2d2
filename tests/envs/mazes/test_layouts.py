"""Geometry of the built-in mazes, mazes drawn by users, and the lookups that evaluation uses."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from skillscape.envs.mazes.layouts import Layout, builtin_layouts, load_layout, parse_layout
from skillscape.errors import UserError

# cells, passages, moves to the farthest cell, the farthest cells, bounds; counted by hand on drawings of the mazes.
FACTS = {
    "square_a": (17, 16, 12, {(4, 0)}, [[-0.5, -4.5], [4.5, 0.5]]),
    "square_b": (17, 16, 12, {(4, 0)}, [[-0.5, -4.5], [4.5, 0.5]]),
    "square_c": (17, 16, 16, {(4, -4)}, [[-0.5, -4.5], [4.5, 0.5]]),
    "square_d": (22, 21, 9, {(-1, -2), (1, -2)}, [[-3.5, -3.5], [3.5, 0.5]]),
    "square_tree": (31, 30, 12, {(-6, -6), (-2, -6), (2, -6), (6, -6)}, [[-6.5, -6.5], [6.5, 0.5]]),
    "square_corridor": (11, 10, 5, {(-5, 0), (5, 0)}, [[-5.5, -0.5], [5.5, 0.5]]),
    "square_corridor2": (11, 10, 10, {(5, 0)}, [[-5.5, -0.5], [5.5, 0.5]]),
    "square_bottleneck": (100, 159, 23, {(0, 9)}, [[-0.5, -0.5], [9.5, 9.5]]),
    "square_large": (100, 99, 23, {(9, 8)}, [[-0.5, -0.5], [9.5, 9.5]]),
}

DRAWING = """\
##.##
#S..#
##.#.
##...
"""


def test_the_nine_mazes_are_listed_in_order():
    assert builtin_layouts() == tuple(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_geometry_of_the_builtin_mazes(name):
    layout = load_layout(name)
    cells, passages, farthest, farthest_cells, bounds = FACTS[name]
    assert len(layout.cells) == len(set(layout.cells)) == cells
    assert sum(map(len, layout.neighbours)) == 2 * passages
    assert layout.farthest_distance == farthest
    assert {layout.cells[index] for index in np.flatnonzero(layout.distances == farthest)} == farthest_cells
    assert layout.distances.min() == 0
    np.testing.assert_array_equal(layout.bounds, bounds)
    assert (layout.max_step, layout.horizon) == (0.95, 50)
    assert layout.start == ((-5, 0) if name == "square_corridor2" else (0, 0))
    assert layout.cell_index(np.array(layout.evaluation_start)) >= 0
    assert set(layout.goals) <= set(layout.cells)


def test_published_trajectories_start_at_the_lower_edge_of_the_start_cell():
    assert {name: load_layout(name).evaluation_start for name in FACTS if load_layout(name).evaluation_start[1]} == {
        "square_a": (0.0, -0.5),
        "square_tree": (0.0, -0.5),
    }


def test_thin_walls_separate_neighbouring_cells():
    layout = load_layout("square_large")
    column, row = np.array([1, 0]) - layout.origin
    right, up = np.moveaxis(layout.sides[:, :, 1], -1, 0)
    assert up[column, row]  # y = 0.5 from x = 0.5 to 1.5
    assert not right[column - 1, row]
    assert right[2, 0]  # x = 2.5 from y = -0.5 to 0.5
    assert right[-1].all()
    assert up[:, -1].all()


@pytest.mark.parametrize("name", FACTS)
def test_sides_agree_with_each_other_and_with_the_walls(name):
    layout = load_layout(name)
    np.testing.assert_array_equal(layout.sides[1:, :, 0, 0], layout.sides[:-1, :, 1, 0])
    np.testing.assert_array_equal(layout.sides[:, 1:, 0, 1], layout.sides[:, :-1, 1, 1])
    for (x, y), (left, low), (right, up) in (
        ((x, y), *layout.sides[x - layout.origin[0], y - layout.origin[1]]) for x, y in layout.cells
    ):
        sides = (((x - 0.5, y), left), ((x, y - 0.5), low), ((x + 0.5, y), right), ((x, y + 0.5), up))
        for middle, blocked in sides:
            on_a_wall = any(
                min(x1, x2) <= middle[0] <= max(x1, x2) and min(y1, y2) <= middle[1] <= max(y1, y2)
                for (x1, y1), (x2, y2) in layout.walls
            )
            assert on_a_wall == blocked, middle


def test_cell_index_on_a_grid_of_points():
    layout = load_layout("square_a")
    points = {
        (0, 0): (0, 0),
        (0.2, -3.7): (0, -4),
        (4.5, 0): (4, 0),  # on the outer wall
        (4.5, 0.5): (4, 0),
        (-0.5, -4.5): (0, -4),
        (0.5, 0): (0, 0),  # the cell to the right is solid
        (0, -0.5): (0, 0),  # between two free cells: the upper one
        (0.5, -2): (1, -2),
        (0.5, -3.5): (0, -3),  # a corner: (1, -3) is solid
        (0.49999999, -0.5): (0, 0),
    }
    found = layout.cell_index(np.array(list(points)))
    assert [layout.cells[index] for index in found] == list(points.values())
    assert (found >= 0).all()


def test_positions_outside_have_no_cell():
    layout = load_layout("square_a")
    outside = np.array([[1, 0], [4.500001, 0], [-9, 0], [0, 1e30], [np.nan, 0], [np.inf, 0], [3.4, -3.4]])
    np.testing.assert_array_equal(layout.cell_index(outside), -1)
    np.testing.assert_array_equal(layout.quarter_index(outside), -1)
    assert layout.cell_index(outside.reshape(7, 1, 2)).shape == (7, 1)


def test_every_quarter_cell_has_its_own_index():
    layout = load_layout("square_d")
    middles = (np.arange(4) - 1.5) / 4
    points = np.array([[(x + dx, y + dy) for dx in middles for dy in middles] for x, y in layout.cells])
    np.testing.assert_array_equal(layout.quarter_index(points), np.arange(16 * len(layout.cells)).reshape(-1, 16))
    start = layout.cells.index((0, 0))
    assert layout.quarter_index(np.array([0.5, 0.5])) // 16 == layout.cell_index(np.array([0.5, 0.5]))
    assert layout.quarter_index(np.array([-0.49, -0.49])) == 16 * start
    assert layout.quarter_index(np.array([0.01, 0.5])) == 16 * start + 11  # on the upper wall: still the top square


def test_a_drawn_maze():
    layout = parse_layout(DRAWING, "mine")
    assert set(layout.cells) == {(0, 0), (1, 0), (2, 0), (1, 1), (1, -1), (1, -2), (2, -2), (3, -2), (3, -1)}
    assert layout.start == (0, 0)
    assert layout.evaluation_start == (0.0, 0.0)
    assert (layout.name, layout.max_step, layout.horizon) == ("mine", 0.95, 50)
    assert layout.farthest_distance == 6
    assert layout.cells[layout.distances.argmax()] == (3, -1)
    assert sum(map(len, layout.neighbours)) == 2 * 8
    assert ((0.5, 1.5), (1.5, 1.5)) in layout.walls  # the border of the drawing closes the upper cell
    assert ((0.5, -2.5), (3.5, -2.5)) in layout.walls  # one segment along the bottom
    assert ((1.5, -1.5), (1.5, -0.5)) in layout.walls
    lengths = np.abs(np.diff(np.array(layout.walls), axis=1)).sum()
    assert lengths == 4 * len(layout.cells) - 2 * 8


def test_blank_lines_around_a_drawing_and_windows_line_ends_do_not_matter():
    assert parse_layout("\n\n" + DRAWING.replace("\n", " \r\n") + "\n", "mine") == parse_layout(DRAWING, "mine")


def test_a_drawn_maze_is_read_from_a_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\N{BYTE ORDER MARK}" + DRAWING, encoding="utf-8")
    assert load_layout(str(path)) == parse_layout(DRAWING, "mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("S.\n.x\n", "'x' at line 2, column 2"),
        ("S. .\n", "' ' at line 1, column 3"),
        ("S..\n..\n", "Line 2 of the maze mine has 2 characters; give it 3"),
        ("\nS..\n\n...\n", "Line 3 of the maze mine has 0 characters; give it 3"),
        ("...\n", "has no start"),
        ("S..\n..S\n", "second start at line 2, column 3"),
        ("###\n#S#\n#.#\n".replace("#.#", "###"), "at line 2, column 2 is closed in"),
        ("S.#.\n", "No path leads to line 1, column 4"),
        ("S.#\n##.\n", "No path leads to line 2, column 3"),  # corners do not connect
        ("S" + "." * 200 + "\n", "larger than 200"),
        ("S\n" + ".\n" * 200, "larger than 200"),
    ],
)
def test_bad_drawings_are_refused_with_one_sentence(text, message):
    with pytest.raises(UserError) as caught:
        parse_layout(text, "mine")
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "; " in str(caught.value)  # what is wrong; what to do
    assert "\n" not in str(caught.value)


def test_the_largest_drawing_is_accepted():
    assert parse_layout("S" + "." * 199, "mine").farthest_distance == 199


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sqare_a", "did you mean 'square_a'? `skillscape envs` lists them all."),
        ("Square_A", "did you mean 'square_a'?"),
        ("labyrinth of crete", "give a file that ends in .txt"),
        ("", "There is no maze called ''"),
        ("nowhere/mine.txt", "There is no maze file nowhere/mine.txt; check the path."),
    ],
)
def test_unknown_mazes_are_refused(name, message):
    with pytest.raises(UserError) as caught:
        load_layout(name)
    assert message in str(caught.value)


def test_files_that_are_no_text_are_refused(tmp_path):
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(UserError, match="is not text"):
        load_layout(str(binary))
    folder = tmp_path / "folder.txt"
    folder.mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        load_layout(str(folder))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_files_that_would_block_are_refused_at_once(tmp_path, kind):
    path = tmp_path / "mine.txt"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"cannot be read, since it is not a regular file"):
        load_layout(str(path))


def test_a_huge_file_and_a_name_with_a_zero_byte_are_refused(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("." * 1_000_001)
    with pytest.raises(UserError, match=r"has more than 1,000,000 bytes; draw a smaller maze"):
        load_layout(str(path))
    with pytest.raises(UserError, match=r"cannot be called 'a\\x00.txt'"):
        load_layout("a\0.txt")


@pytest.mark.parametrize("layout", [load_layout("square_large"), parse_layout(DRAWING, "mine")])
def test_layouts_survive_a_round_trip_through_json(layout):
    stored = json.dumps(layout.to_json())
    assert Layout.from_json(json.loads(stored)) == layout
    assert hash(Layout.from_json(json.loads(stored))) == hash(layout)
    assert Layout.from_json(json.loads(stored.replace("0.95", "0.5"))) != layout


def test_geometry_does_not_load_jax():
    program = "from skillscape.envs.mazes.layouts import load_layout; load_layout('square_a').distances"
    code = f"import sys; {program}; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# Rows and columns


def test_rows_and_columns_are_those_of_the_drawing():
    layout = parse_layout("\n#####\n##.S#\n##..#\n#####\n", "own")
    assert layout.cell_at(1, 3) == layout.start
    assert layout.cell_at(2, 2) == (-1, -1)
    assert layout.row_and_column((-1, -1)) == (2, 2)
    assert [layout.cell_at(0, 0), layout.cell_at(1, 1)] == [(-3, 1), (-2, 0)]


def test_rows_and_columns_of_a_builtin_maze_begin_at_its_upper_left_cell():
    layout = load_layout("square_tree")
    assert layout.cell_at(0, 6) == layout.start
    assert layout.cell_at(6, 0) == (-6, -6)
    assert all(layout.cell_at(*layout.row_and_column(cell)) == cell for cell in layout.cells)


@pytest.mark.parametrize(
    ("name", "cell"),
    [("square_a", (4, 0)), ("square_c", (4, -4)), ("square_large", (9, 8)), ("square_bottleneck", (0, 9))],
)
def test_the_farthest_cell(name, cell):
    layout = load_layout(name)
    assert layout.farthest_cell == cell
    assert layout.distances[layout.cells.index(cell)] == layout.farthest_distance


def test_a_layout_that_was_stored_without_a_corner_reads_back():
    values = load_layout("square_a").to_json()
    del values["corner"]
    assert Layout.from_json(values) == load_layout("square_a")


# Layouts from files that may be damaged


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("note", None),
        ("cells", None),
        ("cells", []),
        ("cells", "cells"),
        ("cells", [[0, 0], [0, 0], [1, 0]]),
        ("cells", [[0, 0], [1.0, 0]]),
        ("cells", [[0, 0], [True, 0]]),
        ("cells", [[0, 0], [1]]),
        ("cells", [[0, 0], [1, None]]),
        ("cells", [[0, 0], [10**9, 0]]),
        ("cells", [[0, 0], [5, 0]]),
        ("walls", None),
        ("walls", 3),
        ("walls", [[]]),
        ("walls", [[[0, 0], [0, "1"]]]),
        ("walls", [[[0, 0], [1, 1]]]),
        ("walls", [[[0, 0], [0, float("inf")]]]),
        ("walls", [[[0, 0], [0, 1e12]]]),
        ("walls", [[[-0.5, 0.5], [1.5, 0.5]], [[0.5, -0.5], [0.5, 0.5]]]),
        ("start", None),
        ("start", [9, 9]),
        ("start", [-1, "0"]),
        ("evaluation_start", [9.0, 9.0]),
        ("evaluation_start", [0.0]),
        ("evaluation_start", [float("nan"), 0.0]),
        ("goals", [[9, 9]]),
        ("goals", {}),
        ("max_step", 0),
        ("max_step", 1.5),
        ("max_step", None),
        ("max_step", float("nan")),
        ("horizon", 0),
        ("horizon", -1),
        ("horizon", 2.5),
        ("horizon", True),
        ("horizon", 10**9),
        ("corner", [0]),
        ("corner", "top"),
        ("corner", [0.5, 0]),
        ("colour", "red"),
    ],
)
def test_a_damaged_layout_is_one_sentence_about_its_field(field, value):
    values = json.loads(json.dumps(parse_layout("S..", "own").to_json()))
    Layout.from_json(values)
    with pytest.raises(UserError, match="The layout of the maze is damaged") as caught:
        Layout.from_json({**values, field: value})
    assert "\n" not in str(caught.value)
    assert field in str(caught.value) or "walls" in str(caught.value)


def test_a_layout_without_a_field_is_damaged():
    values = parse_layout("S..", "own").to_json()
    del values["start"]
    with pytest.raises(UserError, match="start is missing"):
        Layout.from_json(values)


def test_a_maze_as_long_as_they_get_reads_back():
    layout = parse_layout("S" + "." * 199, "own")
    assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout
