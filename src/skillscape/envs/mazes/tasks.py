"""The tasks of a maze: ``reach``, the cell farthest from the start, and ``reach:ROW,COL``, any other."""

import re

from skillscape.envs.mazes.layouts import Cell, Layout
from skillscape.errors import UserError

REACH = "reach"

_CELL = re.compile(rf"{REACH}:(\d{{1,4}}),(\d{{1,4}})")


def goal_of(layout: Layout, task: str) -> Cell:
    """The cell that pays; rows are counted from the top of the drawing and columns from the left, both from 0."""
    if task == REACH:
        return layout.farthest_cell
    row, column = layout.row_and_column(layout.farthest_cell)
    numbers = _CELL.fullmatch(task)
    if numbers is None:
        raise UserError(
            f"{task!r} is not a task of the maze {layout.name}: give {REACH}, for the cell farthest from the start, or "
            f"{REACH}:ROW,COL, such as {REACH}:{row},{column}."
        )
    wanted = int(numbers[1]), int(numbers[2])
    cell = layout.cell_at(*wanted)
    if cell not in layout.cells:
        raise UserError(
            f"The maze {layout.name} has no free cell in row {wanted[0]}, column {wanted[1]}: count rows from the top "
            f"and columns from the left, both from 0, such as {REACH}:{row},{column} for the cell farthest from the "
            "start."
        )
    return cell
