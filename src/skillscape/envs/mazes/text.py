"""Mazes drawn in characters: ``#`` solid, ``.`` free, one ``S`` for the start."""

import os
import stat
from pathlib import Path
from typing import NamedTuple

from skillscape.errors import UserError

SOLID, FREE, START = "#", ".", "S"
LARGEST_SIDE = 200
"""Float32 separates a wall from the margin kept to it only while coordinates stay in the hundreds."""
LARGEST_FILE = 1_000_000
"""Bytes; the largest drawing needs a twentieth of that."""


class Drawing(NamedTuple):
    """What a drawing shows, with the start at (0, 0), x to the right and y upwards.

    ``cells``: the line and column, from 1, of each free cell; ``corner``: the place at the upper left.
    """

    cells: dict[tuple[int, int], tuple[int, int]]
    corner: tuple[int, int]


def parse_drawing(text: str, name: str) -> Drawing:
    """The cells of a maze, top line first; blank lines above and below do not count."""
    lines = [line.rstrip() for line in text.split("\n")]
    drawn = [number for number, line in enumerate(lines) if line]
    if not drawn:
        raise UserError(
            f"The maze {name} is empty; draw it with '#' for solid, '.' for free and one 'S' for the start."
        )
    top, bottom = drawn[0], drawn[-1]
    width = len(lines[top])
    if max(width, bottom - top + 1) > LARGEST_SIDE:
        raise UserError(f"The maze {name} is larger than {LARGEST_SIDE} cells on a side; draw a smaller one.")
    free: list[tuple[int, int]] = []
    starts: list[tuple[int, int]] = []
    for number in range(top, bottom + 1):
        for column, character in enumerate(lines[number]):
            if character not in (SOLID, FREE, START):
                where = f"line {number + 1}, column {column + 1}"
                raise UserError(f"The maze {name} has {character!r} at {where}; use only '#', '.' and 'S'.")
            if character != SOLID:
                free.append((number, column))
            if character == START:
                starts.append((number, column))
        if len(lines[number]) != width:
            raise UserError(
                f"Line {number + 1} of the maze {name} has {len(lines[number])} characters; give it {width}, like the "
                "first line."
            )
    if not starts:
        raise UserError(f"The maze {name} has no start; put one 'S' in a free cell.")
    if len(starts) > 1:
        line, column = starts[1]
        raise UserError(
            f"The maze {name} has a second start at line {line + 1}, column {column + 1}; keep a single 'S'."
        )
    row, left = starts[0]
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
    """The whole of a file that is not too large; a pipe, which might be waited for, and the like are refused."""
    # Looked at after it is opened, so that it cannot become something else in between.
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise UserError(f"The maze file {path} cannot be read, since it is not a regular file; give a text file.")
        with os.fdopen(opened, "rb", closefd=False) as file:
            found = file.read(LARGEST_FILE + 1)
    finally:
        os.close(opened)
    if len(found) > LARGEST_FILE:
        raise UserError(f"The maze file {path} has more than {LARGEST_FILE:,} bytes; draw a smaller maze.")
    return found
