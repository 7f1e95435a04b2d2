"""Mazes drawn in characters: ``#`` solid, ``.`` free, one ``S`` for the start."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from skillscape.errors import UserError

SOLID, FREE, START = "#", ".", "S"
MAX_SIDE = 200
"""Largest width and height, in cells: float32 resolves the margin to a wall only for coordinates in the hundreds."""
MAX_FILE_BYTES = 1_000_000
"""Largest file; the largest drawing needs a twentieth of that."""


class Drawing(NamedTuple):
    """A parsed drawing, with the start at (0, 0), x to the right and y upwards.

    ``cells``: the line and column in the file, from 1, of each free cell; ``corner``: the upper left grid cell.
    """

    cells: dict[tuple[int, int], tuple[int, int]]
    corner: tuple[int, int]


def parse_drawing(text: str, name: str) -> Drawing:
    """The cells of a drawn maze; blank lines above and below are ignored."""
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [number for number, line in enumerate(lines) if line]
    if not filled:
        raise UserError(
            f"The maze {name} is empty; draw it with '#' for solid, '.' for free and one 'S' for the start."
        )
    top, bottom = filled[0], filled[-1]
    width = len(lines[top])
    if max(width, bottom - top + 1) > MAX_SIDE:
        raise UserError(f"The maze {name} is larger than {MAX_SIDE} cells on a side; draw a smaller one.")
    grid: dict[tuple[int, int], str] = {}
    for number, line in enumerate(lines[top : bottom + 1], top):
        grid |= {(number, column): character for column, character in enumerate(line)}
        if len(line) != width:
            raise UserError(
                f"Line {number + 1} of the maze {name} has {len(line)} characters; give it {width} like the first one."
            )
    for (number, column), character in grid.items():
        if character not in (SOLID, FREE, START):
            where = f"line {number + 1}, column {column + 1}"
            raise UserError(f"The maze {name} has {character!r} at {where}; use only '#', '.' and 'S'.")
    starts = [place for place, character in grid.items() if character == START]
    if not starts:
        raise UserError(f"The maze {name} has no start; put one 'S' in a free cell.")
    if len(starts) > 1:
        number, column = starts[1]
        raise UserError(
            f"The maze {name} has a second start at line {number + 1}, column {column + 1}; keep a single 'S'."
        )
    row, left = starts[0]
    free = (place for place, character in grid.items() if character != SOLID)
    cells = {(column - left, row - number): (number + 1, column + 1) for number, column in free}
    return Drawing(cells, (-left, row - top))


def read_drawing(path: Path) -> str:
    """The text of a maze file."""
    if "\0" in str(path):
        raise UserError(f"A maze file cannot be called {str(path)!r}; check the path.")
    try:
        text = _read_regular(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"There is no maze file {path}; check the path.") from None
    except UnicodeDecodeError:
        raise UserError(f"The maze file {path} is not text; draw it with '#', '.' and one 'S' for the start.") from None
    except OSError as error:
        raise UserError(
            f"The maze file {path} cannot be read ({error.strerror}); check that it is a file you may open."
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_regular(path: Path) -> bytes:
    """The content of a regular file of limited size; others, such as a pipe that would block, are refused."""
    # Checked after opening, so that the path cannot be replaced in between.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UserError(f"The maze file {path} cannot be read, since it is not a regular file; give a text file.")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"The maze file {path} has more than {MAX_FILE_BYTES:,} bytes; draw a smaller maze.")
    return content
