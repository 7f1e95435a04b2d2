"""The geometry of the mazes: unit cells on the integer grid, thin walls between them, and files that describe both.

Cell ``(i, j)`` is the unit square around the integer point ``(i, j)``, so walls lie on half-integers; x grows to the
right and y upwards. The nine ``square_*`` mazes are those of Campos et al. (2020), "Explore, Discover and Learn" (EDL).
Nothing here needs JAX: figures, the command line and the Gymnasium registry read geometry without paying for it.
"""

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from skillscape.envs.mazes.text import LARGEST_SIDE, parse_drawing, read_drawing
from skillscape.errors import UserError, nearest

Cell: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float]
Segment: TypeAlias = tuple[Point, Point]

OWN_MAX_STEP = 0.95
OWN_HORIZON = 50
FARTHEST = LARGEST_SIDE + 1
"""Of any coordinate from the start, walls around the last cell included."""
LONGEST_EPISODE = 10_000


@dataclass(frozen=True)
class Layout:
    """One maze. Fields are plain tuples, so that layouts compare, hash and store by value; the rest is derived.

    ``cells``: free cells; ``walls``: maximal straight segments ``((x1, y1), (x2, y2))``; ``start``: the cell training
    episodes begin in; ``evaluation_start``: the point evaluation episodes begin at; ``goals``: the goal cells of EDL,
    which skill discovery ignores; ``max_step``: largest displacement per axis and step, at most 1; ``horizon``: steps
    per episode; ``corner``: the upper left place of the drawing, if it reaches beyond the free cells.
    """

    name: str
    note: str
    cells: tuple[Cell, ...]
    walls: tuple[Segment, ...]
    start: Cell
    evaluation_start: Point
    goals: tuple[Cell, ...]
    max_step: float
    horizon: int
    corner: Cell | None = None

    def to_json(self) -> dict[str, Any]:
        """The layout as plain values that ``from_json`` reads back; a run stores its maze this way."""
        return asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Layout":
        """The layout that ``to_json`` described, also after a trip through a JSON file; no other is accepted."""
        frozen = {field: _freeze(value) for field, value in values.items()}
        _check_values(frozen)
        layout = Layout(**frozen)
        if layout.cell_index(np.asarray(layout.evaluation_start)) < 0:
            raise _damaged("evaluation_start", "must lie in a free cell")
        if layout.farthest_distance == 0 or layout.distances.min() < 0:
            raise _damaged("walls", "must leave a path from the start to every cell, and the start is not all")
        return layout

    @cached_property
    def origin(self) -> Int[np.ndarray, "2"]:
        """The lowest cell coordinates; grids below are indexed by ``cell - origin``."""
        origin: Int[np.ndarray, "2"] = np.asarray(self.cells).min(axis=0)
        return origin

    @cached_property
    def grid_shape(self) -> tuple[int, int]:
        """Cells along x and along y of the smallest rectangle around the maze."""
        width, height = np.asarray(self.cells).max(axis=0) - self.origin + 1
        return int(width), int(height)

    @cached_property
    def bounds(self) -> Float[np.ndarray, "2 2"]:
        """The corners ``[[x_low, y_low], [x_high, y_high]]`` of that rectangle."""
        return np.stack([self.origin - 0.5, self.origin + self.grid_shape - 0.5])

    @cached_property
    def cell_grid(self) -> Int[np.ndarray, "w h"]:
        """The index into ``cells`` of every place of the rectangle, -1 where it is solid."""
        grid = np.full(self.grid_shape, -1)
        columns, rows = (np.asarray(self.cells) - self.origin).T
        grid[columns, rows] = np.arange(len(self.cells))
        return grid

    @cached_property
    def blocked_right(self) -> Bool[np.ndarray, "w h"]:
        """Whether the right edge of each place cannot be crossed: a wall, or solid on either side of it."""
        return self._blocked(right=1, up=0)

    @cached_property
    def blocked_up(self) -> Bool[np.ndarray, "w h"]:
        """Whether the upper edge of each place cannot be crossed."""
        return self._blocked(right=0, up=1)

    @cached_property
    def sides(self) -> Bool[np.ndarray, "w h 2 2"]:
        """Which sides of each place are blocked, as ``[..., low or high, x or y]``: left, lower, right, upper."""
        right, up = self.blocked_right, self.blocked_up
        left = np.pad(right, ((1, 0), (0, 0)), constant_values=True)[:-1]
        low = np.pad(up, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
        return np.stack([np.stack([left, low], axis=-1), np.stack([right, up], axis=-1)], axis=-2)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """For each cell, the indices of the cells one can walk to without passing a third."""
        result = []
        for column, row in np.asarray(self.cells) - self.origin:
            (left, low), (right, up) = self.sides[column, row]
            steps = ((left, -1, 0), (low, 0, -1), (right, 1, 0), (up, 0, 1))
            result.append(tuple(int(self.cell_grid[column + x, row + y]) for wall, x, y in steps if not wall))
        return tuple(result)

    @cached_property
    def passages(self) -> tuple[tuple[int, int], ...]:
        """Each pair of connected cells once, the smaller index first."""
        return tuple((cell, other) for cell, others in enumerate(self.neighbours) for other in others if cell < other)

    @cached_property
    def distances(self) -> Int[np.ndarray, " c"]:
        """Moves between connected cells from the start cell to each cell, -1 where none lead there."""
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
        """Moves from the start cell to the cell that is hardest to reach."""
        return int(self.distances.max())

    @property
    def farthest_cell(self) -> Cell:
        """The cell that is hardest to reach from the start; the first of several in the order of ``cells``."""
        return self.cells[int(self.distances.argmax())]

    def cell_at(self, row: int, column: int) -> Cell:
        """The place in a row, counted from the top of the drawing, and a column, from the left, both from 0."""
        x, y = self.corner or (int(self.origin[0]), int(self.origin[1]) + self.grid_shape[1] - 1)
        return x + column, y - row

    def row_and_column(self, cell: Cell) -> tuple[int, int]:
        """The inverse of ``cell_at``."""
        x, y = self.cell_at(0, 0)
        return y - cell[1], cell[0] - x

    @cached_property
    def owners(self) -> Int[np.ndarray, "columns rows"]:
        """The cell that each interior, edge and corner of the grid counts to, -1 where all around it is solid.

        Shape [2 w + 1, 2 h + 1]: odd indices are interiors and even ones the lines between them. A point on a line
        counts to the cell above or to the right of it, as rounding half up would have it, or else to any cell there.
        """
        padded = np.pad(self.cell_grid, 1, constant_values=-1)
        column, row = np.ogrid[: 2 * self.grid_shape[0] + 1, : 2 * self.grid_shape[1] + 1]
        right, left, upper, lower = column // 2 + 1, (column + 1) // 2, row // 2 + 1, (row + 1) // 2
        owners: Int[np.ndarray, "columns rows"] = padded[left, lower]
        for candidate in (padded[right, lower], padded[left, upper], padded[right, upper]):
            owners = np.where(candidate >= 0, candidate, owners)
        return owners

    def cell_index(self, positions: Float[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
        """The index into ``cells`` of the cell each position is in, -1 for positions outside of the maze."""
        positions = np.asarray(positions, dtype=np.float64)
        nearest = np.rint(positions)
        with np.errstate(invalid="ignore"):  # infinite coordinates are as far outside as any
            # Half-integers land on even slots whichever way they were rounded; doubling and subtracting are exact.
            slot = 2 * (nearest - self.origin) + 1 + np.trunc(2 * (positions - nearest))
        inside = ((slot >= 0) & (slot < self.owners.shape)).all(axis=-1)
        column, row = np.moveaxis(np.where(inside[..., None], slot, 0).astype(int), -1, 0)
        return np.where(inside, self.owners[column, row], -1)

    def quarter_index(self, positions: Float[np.ndarray, "*n 2"]) -> Int[np.ndarray, "*n"]:
        """The quarter-cell each position is in, in [0, 16 c); -1 outside of the maze.

        Every cell is cut into 4 × 4 squares of side 1/4; the squares of cell ``i`` are ``16 i`` to ``16 i + 15``.
        """
        positions = np.asarray(positions, dtype=np.float64)
        cell = self.cell_index(positions)
        corner = np.asarray(self.cells)[cell] - 0.5
        within = np.where((cell >= 0)[..., None], positions - corner, 0)
        # A point on the far edge of its cell counts to the last square.
        column, row = np.moveaxis(np.clip(np.floor(4 * within), 0, 3).astype(int), -1, 0)
        return np.where(cell >= 0, 16 * cell + 4 * column + row, -1)

    def _blocked(self, right: int, up: int) -> Bool[np.ndarray, "w h"]:
        """Whether the way from each place to the one ``right`` and ``up`` of it is closed."""
        free, walls = set(self.cells), set(_middles(self.walls))
        blocked = np.ones(self.grid_shape, dtype=bool)
        for x, y in self.cells:
            wall = (x + 0.5 * right, y + 0.5 * up) in walls
            blocked[x - self.origin[0], y - self.origin[1]] = wall or (x + right, y + up) not in free
        return blocked


def builtin_layouts() -> tuple[str, ...]:
    """Names of the mazes that come with the package."""
    return tuple(_builtin())


def load_layout(name: str) -> Layout:
    """The built-in maze of that name, or the maze drawn in a text file if the name ends in ``.txt``."""
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

    Free cells that touch are connected, and the border of the drawing is a wall. A maze with cells that no path leads
    to is refused, because a share of cells reached would mean nothing there.
    """
    drawing = parse_drawing(text, name)
    cells = tuple(sorted(drawing.cells))
    layout = Layout(
        name=name,
        note="A maze of your own.",
        cells=cells,
        walls=_outline(cells),
        start=(0, 0),
        evaluation_start=(0.0, 0.0),
        goals=(),
        max_step=OWN_MAX_STEP,
        horizon=OWN_HORIZON,
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


def _outline(cells: tuple[Cell, ...]) -> tuple[Segment, ...]:
    """The longest straight walls around cells that are open to all their neighbours."""
    free = set(cells)
    upright = {(x + d, y) for x, y in cells for d in (0, 1) if (x + 2 * d - 1, y) not in free}
    level = {(y + d, x) for x, y in cells for d in (0, 1) if (x, y + 2 * d - 1) not in free}
    walls: list[Segment] = []
    for edges, turned in ((level, True), (upright, False)):
        for line, begin in sorted(edges):
            if (line, begin - 1) not in edges:
                end = begin
                while (line, end) in edges:
                    end += 1
                ends = ((line - 0.5, begin - 0.5), (line - 0.5, end - 0.5))
                walls.append((ends[0][::-1], ends[1][::-1]) if turned else ends)
    return tuple(walls)


def _middles(walls: tuple[Segment, ...]) -> Iterator[Point]:
    """The middle of every unit edge that the walls consist of."""
    for ends in walls:
        (x, y), (x_end, y_end) = sorted(ends)
        yield from ((x + k + 0.5, y) for k in range(round(x_end - x)))
        yield from ((x, y + k + 0.5) for k in range(round(y_end - y)))


def _check_values(values: dict[str, Any]) -> None:
    """Refuse fields from a file that are no maze, whatever their types."""
    fields = {field.name for field in dataclass_fields(Layout)}
    if wrong := sorted((fields ^ set(values)) - {"corner"}):
        raise _damaged(wrong[0], "is missing or not known")
    cells, walls, goals, horizon = (values[field] for field in ("cells", "walls", "goals", "horizon"))
    for field in ("name", "note"):
        if not isinstance(values[field], str):
            raise _damaged(field, "must be text")
    if not (isinstance(cells, tuple) and cells and all(map(_is_cell, cells))):
        raise _damaged("cells", f"must be pairs of integers of at most {FARTHEST}")
    free = set(cells)
    if len(free) < len(cells):
        raise _damaged("cells", "must not repeat")
    if not (isinstance(walls, tuple) and all(map(_is_segment, walls))):
        raise _damaged("walls", "must be pairs of points, level or upright")
    if not (_is_cell(values["start"]) and values["start"] in free):
        raise _damaged("start", "must be a free cell")
    if not (values.get("corner") is None or _is_cell(values["corner"])):
        raise _damaged("corner", f"must be a pair of integers of at most {FARTHEST}")
    if not _is_point(values["evaluation_start"]):
        raise _damaged("evaluation_start", "must be a point")
    if not (isinstance(goals, tuple) and all(_is_cell(goal) and goal in free for goal in goals)):
        raise _damaged("goals", "must be free cells")
    if not (_is_number(values["max_step"]) and 0 < values["max_step"] <= 1):
        raise _damaged("max_step", "must be above 0 and at most 1")
    if isinstance(horizon, bool) or not isinstance(horizon, int) or not 1 <= horizon <= LONGEST_EPISODE:
        raise _damaged("horizon", f"must be an integer from 1 to {LONGEST_EPISODE}")


def _damaged(field: str, rule: str) -> UserError:
    return UserError(
        f"The layout of the maze is damaged: {field} {rule}; restore the file or train again with --force."
    )


def _is_number(value: Any) -> bool:  # noqa: ANN401  (whatever JSON holds)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_point(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, tuple) and len(value) == 2 and all(_is_number(x) and abs(x) <= FARTHEST for x in value)


def _is_cell(value: Any) -> bool:  # noqa: ANN401
    return _is_point(value) and all(isinstance(x, int) for x in value)


def _is_segment(value: Any) -> bool:  # noqa: ANN401
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(map(_is_point, value))
        and (value[0][0] == value[1][0] or value[0][1] == value[1][1])
    )


def _freeze(value: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
