"""The tasks of a maze: ``reach``, for the cell farthest from the start, and ``reach:ROW,COL``, for any other."""

import re

from skillscape.envs.mazes.layouts import Cell, Layout
from skillscape.errors import UserError

REACH = "reach"

_CELL = re.compile(rf"{REACH}:(\d{{1,4}}),(\d{{1,4}})")


def goal_of(layout: Layout, task: str) -> Cell:
    """The rewarded cell; rows count from the top of the drawing and columns from the left, both from 0."""
    if task == REACH:
        return layout.farthest_cell
    example = f"{REACH}:{','.join(map(str, layout.row_and_column(layout.farthest_cell)))}"
    numbers = _CELL.fullmatch(task)
    if numbers is None:
        raise UserError(
            f"{task!r} is not a task of the maze {layout.name}: give {REACH}, for the cell farthest from the start, or "
            f"{REACH}:ROW,COL, such as {example}."
        )
    row, column = int(numbers[1]), int(numbers[2])
    cell = layout.cell_at(row, column)
    if cell not in layout.cells:
        raise UserError(
            f"The maze {layout.name} has no free cell in row {row}, column {column}: count rows from the top and "
            f"columns from the left, both from 0, such as {example} for the cell farthest from the start."
        )
    return cell
