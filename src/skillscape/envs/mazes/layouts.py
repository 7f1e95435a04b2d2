"""Maze geometry: unit cells on the integer grid, thin walls between them, and the files that describe both.

Cell ``(i, j)`` is the unit square around the integer point ``(i, j)``, so walls lie on half-integers; x grows to the
right and y upwards. The nine ``square_*`` mazes are those of Campos et al. (2020), "Explore, Discover and Learn" (EDL).
This module does not import JAX, so that figures, the command line and the Gymnasium registry start fast.
"""

import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from skillscape.envs.mazes.parser import MAX_SIDE, parse_drawing, read_drawing
from skillscape.errors import UserError, nearest

Cell: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float]
WallSegment: TypeAlias = tuple[Point, Point]

DEFAULT_MAX_STEP = 0.95
DEFAULT_HORIZON = 50
MAX_COORDINATE = MAX_SIDE + 1
"""Largest absolute coordinate, relative to the start and including the walls around the last cell."""
MAX_HORIZON = 10_000


@dataclass(frozen=True)
class Layout:
    """One maze. Fields are plain tuples, so that layouts compare, hash and serialise by value; the rest is derived.

    ``cells``: free cells; ``walls``: maximal straight segments ``((x1, y1), (x2, y2))``; ``start``: the cell where
    training episodes start; ``evaluation_start``: the point where evaluation episodes start; ``goals``: the goal cells
    of EDL, unused in skill discovery; ``max_step``: largest displacement per axis and step, at most 1; ``horizon``:
    steps per episode; ``corner``: the upper left grid cell of the drawing, if it reaches beyond the free cells.
    """

    name: str
    note: str
    cells: tuple[Cell, ...]
    walls: tuple[WallSegment, ...]
    start: Cell
    evaluation_start: Point
    goals: tuple[Cell, ...]
    max_step: float
    horizon: int
    corner: Cell | None = None

    def to_json(self) -> dict[str, Any]:
        """The layout as plain values for ``from_json``; a run stores its maze this way."""
        return asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Layout":
        """The layout of ``to_json``, also after a round trip through a JSON file; anything else is refused."""
        frozen = {field: _freeze(value) for field, value in values.items()}
        _check_values(frozen)
        layout = Layout(**frozen)
        if layout.cell_index(np.asarray(layout.evaluation_start)) < 0:
            raise _damaged("evaluation_start", "must lie in a free cell")
        if layout.farthest_distance == 0 or layout.distances.min() < 0:
            raise _damaged("walls", "must leave a path from the start to every cell, and there must be at least two")
        return layout

    @cached_property
    def origin(self) -> Int[np.ndarray, "2"]:
        """The smallest cell coordinates; the grids below are indexed by ``cell - origin``."""
        origin: Int[np.ndarray, "2"] = np.asarray(self.cells).min(axis=0)
        return origin

    @cached_property
    def grid_shape(self) -> tuple[int, int]:
        """Width and height of the maze's bounding rectangle, in cells."""
        width, height = np.asarray(self.cells).max(axis=0) - self.origin + 1
        return int(width), int(height)

    @cached_property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """Corners ``[[x_low, y_low], [x_high, y_high]]`` of the bounding rectangle."""
        return np.stack([self.origin - 0.5, self.origin + self.grid_shape - 0.5])

    @cached_property
    def cell_grid(self) -> Int[np.ndarray, "w h"]:
        """The index into ``cells`` of every grid cell of the bounding rectangle, -1 where it is solid."""
        grid = np.full(self.grid_shape, -1)
        columns, rows = (np.asarray(self.cells) - self.origin).T
        grid[columns, rows] = np.arange(len(self.cells))
        return grid

    @cached_property
    def sides(self) -> Bool[np.ndarray, "w h 2 2"]:
        """Which sides of each grid cell are closed, by a wall or by solid, as ``[..., low or high, x or y]``."""
        free, walls = set(self.cells), set(_edge_centres(self.walls))
        right, up = np.ones((2, *self.grid_shape), dtype=bool)
        for x, y in self.cells:
            index = x - self.origin[0], y - self.origin[1]
            right[index] = (x + 0.5, y) in walls or (x + 1, y) not in free
            up[index] = (x, y + 0.5) in walls or (x, y + 1) not in free
        left = np.pad(right, ((1, 0), (0, 0)), constant_values=True)[:-1]
        low = np.pad(up, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
        return np.stack([np.stack([left, low], axis=-1), np.stack([right, up], axis=-1)], axis=-2)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """For each cell, the indices of the adjacent cells without a wall in between."""
        result = []
        for column, row in np.asarray(self.cells) - self.origin:
            (left, low), (right, up) = self.sides[column, row]
            steps = ((left, -1, 0), (low, 0, -1), (right, 1, 0), (up, 0, 1))
            result.append(tuple(int(self.cell_grid[column + x, row + y]) for wall, x, y in steps if not wall))
        return tuple(result)

    @cached_property
    def distances(self) -> Int[np.ndarray, " c"]:
        """Shortest path from the start cell to each cell, in moves between neighbours; -1 where there is none."""
        distances = np.full(len(self.cells), -1)
        start = self.cells.index(self.start)
        distances[start] = 0
        queue = deque([start])
        while queue:
            cell = queue.popleft()
            for other in self.neighbours[cell]:
                if distances[other] < 0:
                    distances[other] = distances[cell] + 1
                    queue.append(other)
        return distances

    @property
    def farthest_distance(self) -> int:
        """Moves from the start cell to the farthest cell."""
        return int(self.distances.max())

    @property
    def farthest_cell(self) -> Cell:
        """The cell farthest from the start along the maze; the first in ``cells`` among equals."""
        return self.cells[int(self.distances.argmax())]

    def cell_at(self, row: int, column: int) -> Cell:
        """The grid cell in a row, counted from the top of the drawing, and a column, from the left, both from 0."""
        x, y = self.corner or (int(self.origin[0]), int(self.origin[1]) + self.grid_shape[1] - 1)
        return x + column, y - row

    def row_and_column(self, cell: Cell) -> tuple[int, int]:
        """The inverse of ``cell_at``."""
        x, y = self.cell_at(0, 0)
        return y - cell[1], cell[0] - x

    @cached_property
    def owners(self) -> Int[np.ndarray, "columns rows"]:
        """The cell that each interior, edge and corner of the grid belongs to, -1 where all around it is solid.

        Shape [2 w + 1, 2 h + 1]: odd indices are interiors and even ones the lines between them. A point on a line
        belongs to the cell above or to the right of it, as in rounding half up, or else to any free cell there.
        """
        padded = np.pad(self.cell_grid, 1, constant_values=-1)
        column, row = np.ogrid[: 2 * self.grid_shape[0] + 1, : 2 * self.grid_shape[1] + 1]
        right, left, upper, lower = column // 2 + 1, (column + 1) // 2, row // 2 + 1, (row + 1) // 2
        owners: Int[np.ndarray, "columns rows"] = padded[left, lower]
        for candidate in (padded[right, lower], padded[left, upper], padded[right, upper]):
            owners = np.where(candidate >= 0, candidate, owners)
        return owners

    def cell_index(self, positions: Float[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
        """The index into ``cells`` of the cell that contains each position, -1 outside the maze."""
        positions = np.asarray(positions, dtype=np.float64)
        nearest = np.rint(positions)
        with np.errstate(invalid="ignore"):  # infinite coordinates are outside too
            # Half-integers land on even slots whichever way they were rounded; doubling and subtracting are exact.
            slot = 2 * (nearest - self.origin) + 1 + np.trunc(2 * (positions - nearest))
        inside = ((slot >= 0) & (slot < self.owners.shape)).all(axis=-1)
        column, row = np.moveaxis(np.where(inside[..., None], slot, 0).astype(int), -1, 0)
        return np.where(inside, self.owners[column, row], -1)

    def quarter_index(self, positions: Float[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
        """The index in [0, 16 c) of the quarter-cell that contains each position, -1 outside the maze.

        Every cell is divided into 4 × 4 squares of side 1/4; the squares of cell ``i`` are ``16 i`` to ``16 i + 15``.
        """
        positions = np.asarray(positions, dtype=np.float64)
        cell = self.cell_index(positions)
        corner = np.asarray(self.cells)[cell] - 0.5
        within = np.where((cell >= 0)[..., None], positions - corner, 0)
        # A point on the far edge of its cell belongs to the last square.
        column, row = np.moveaxis(np.clip(np.floor(4 * within), 0, 3).astype(int), -1, 0)
        return np.where(cell >= 0, 16 * cell + 4 * column + row, -1)


def builtin_layouts() -> tuple[str, ...]:
    """Names of the built-in mazes."""
    return tuple(_builtin())


def load_layout(name: str) -> Layout:
    """The built-in maze of a name, or the maze drawn in a text file if the name ends in ``.txt``."""
    if name.endswith(".txt"):
        path = Path(name)
        return parse_layout(read_drawing(path), path.stem)
    layouts = _builtin()
    if name not in layouts:
        near = nearest(name, layouts, cutoff=0.6)
        guess = f"did you mean {near!r}?" if near else "give a file that ends in .txt to use a maze of your own."
        raise UserError(f"There is no maze called {name!r}; {guess} `skillscape envs` lists them all.")
    return layouts[name]


def parse_layout(text: str, name: str) -> Layout:
    """A maze drawn in characters, see ``parse_drawing``; the start is at (0, 0).

    Adjacent free cells are connected, and the border of the drawing is a wall. Unreachable cells are refused, because
    coverage would be undefined.
    """
    drawing = parse_drawing(text, name)
    cells = tuple(sorted(drawing.cells))
    layout = Layout(
        name=name,
        note="A maze of your own.",
        cells=cells,
        walls=_walls_around(cells),
        start=(0, 0),
        evaluation_start=(0.0, 0.0),
        goals=(),
        max_step=DEFAULT_MAX_STEP,
        horizon=DEFAULT_HORIZON,
        corner=drawing.corner,
    )
    if layout.farthest_distance == 0:
        line, column = drawing.cells[0, 0]
        raise UserError(
            f"The start of the maze {name} at line {line}, column {column} is closed in; put a free cell '.' beside "
            "the 'S'."
        )
    for cell, distance in zip(cells, layout.distances, strict=True):
        if distance < 0:
            line, column = drawing.cells[cell]
            raise UserError(
                f"No path leads to line {line}, column {column} of the maze {name}; open one or put a '#' there."
            )
    return layout


@cache
def _builtin() -> dict[str, Layout]:
    text = (Path(__file__).parents[1] / "data" / "mazes.json").read_text(encoding="utf-8")
    layouts = [Layout.from_json(values) for values in json.loads(text)]
    return {layout.name: layout for layout in layouts}


def _walls_around(cells: tuple[Cell, ...]) -> tuple[WallSegment, ...]:
    """The boundary of the free cells, as maximal straight segments."""
    free = set(cells)
    vertical = {(x + d, y) for x, y in cells for d in (0, 1) if (x + 2 * d - 1, y) not in free}
    horizontal = {(y + d, x) for x, y in cells for d in (0, 1) if (x, y + 2 * d - 1) not in free}
    walls: list[WallSegment] = []
    for edges, swapped in ((horizontal, True), (vertical, False)):
        for line, begin in sorted(edges):
            if (line, begin - 1) not in edges:
                end = begin
                while (line, end) in edges:
                    end += 1
                ends = ((line - 0.5, begin - 0.5), (line - 0.5, end - 0.5))
                walls.append((ends[0][::-1], ends[1][::-1]) if swapped else ends)
    return tuple(walls)


def _edge_centres(walls: tuple[WallSegment, ...]) -> Iterator[Point]:
    """The centre of every unit edge that the walls consist of."""
    for ends in walls:
        (x, y), (x_end, y_end) = sorted(ends)
        yield from ((x + k + 0.5, y) for k in range(round(x_end - x)))
        yield from ((x, y + k + 0.5) for k in range(round(y_end - y)))


def _check_values(values: dict[str, Any]) -> None:
    """Refuse values of a file, of whatever types, that do not describe a maze."""
    fields = {field.name for field in dataclass_fields(Layout)}
    if wrong := sorted((fields ^ set(values)) - {"corner"}):
        raise _damaged(wrong[0], "is missing or not known")
    cells, max_step, horizon = values["cells"], values["max_step"], values["horizon"]
    corner = values.get("corner")
    free = set(cells) if _all(_is_cell, cells) else set()
    rules = (
        ("name", isinstance(values["name"], str), "must be text"),
        ("note", isinstance(values["note"], str), "must be text"),
        ("cells", free and len(free) == len(cells), f"must be distinct pairs of integers of at most {MAX_COORDINATE}"),
        ("walls", _all(_is_segment, values["walls"]), "must be pairs of points, horizontal or vertical"),
        ("start", _is_cell(values["start"]) and values["start"] in free, "must be a free cell"),
        ("corner", corner is None or _is_cell(corner), f"must be a pair of integers of at most {MAX_COORDINATE}"),
        ("evaluation_start", _is_point(values["evaluation_start"]), "must be a point"),
        ("goals", _all(lambda goal: _is_cell(goal) and goal in free, values["goals"]), "must be free cells"),
        ("max_step", _is_number(max_step) and 0 < max_step <= 1, "must be above 0 and at most 1"),
        ("horizon", type(horizon) is int and 1 <= horizon <= MAX_HORIZON, f"must be an integer in 1 to {MAX_HORIZON}"),
    )
    for field, holds, rule in rules:
        if not holds:
            raise _damaged(field, rule)


def _damaged(field: str, rule: str) -> UserError:
    return UserError(
        f"The layout of the maze is damaged: {field} {rule}; restore the file or train again with --force."
    )


def _all(test: Callable[[Any], bool], values: Any) -> bool:  # noqa: ANN401  (anything that JSON can hold)
    return isinstance(values, tuple) and all(map(test, values))


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_point(value: Any) -> bool:  # noqa: ANN401
    return _all(lambda x: _is_number(x) and abs(x) <= MAX_COORDINATE, value) and len(value) == 2


def _is_cell(value: Any) -> bool:  # noqa: ANN401
    return _is_point(value) and all(isinstance(x, int) for x in value)


def _is_segment(value: Any) -> bool:  # noqa: ANN401
    return _all(_is_point, value) and len(value) == 2 and (value[0][0] == value[1][0] or value[0][1] == value[1][1])


def _freeze(value: Any) -> Any:  # noqa: ANN401
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
