"""The files of a run: validated JSON, atomic writes, refusal of symbolic links, and the lock."""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillscape.errors import Busy, UserError

LARGEST = 16_000_000
"""Maximum size of a JSON file in bytes, twice the configuration of the largest maze."""
DEEPEST = 32
"""Maximum nesting of a JSON file; files of runs have less than ten levels."""
EXPORT_FILE = "export.json"
"""The file that tells an exported run, which has no checkpoints, from any other."""
MOST_DIGITS = 40
"""Maximum digits of an integer; the state of a random generator has 128 bits."""


def read_bytes(path: Path, *, largest: int | None = None) -> bytes:
    """The contents of an ordinary file; links, folders, pipes and files above ``largest`` bytes are refused."""
    try:
        # O_NONBLOCK: opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing.") from error
    except OSError as error:
        reason = "it is a symbolic link" if path.is_symlink() else str(error.strerror)
        raise UserError(f"{path} cannot be read: {reason}.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} cannot be read: it is not an ordinary file.")
    with os.fdopen(descriptor, "rb") as file:
        content: bytes = file.read() if largest is None else file.read(largest + 1)
    if largest is not None and len(content) > largest:
        raise UserError(f"{path} cannot be read: it is larger than {largest / 1e6:,.0f} MB.")
    return content


def read_json(path: Path, *, advice: str, largest: int = LARGEST) -> dict[str, Any]:
    """The object in a JSON file of a run; ``advice``: what to do if it is damaged."""
    content = read_bytes(path, largest=largest)
    try:
        values = json.loads(content.decode(), parse_int=_integer)
        _check_plain(values)
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not text in UTF-8", advice) from error
    except json.JSONDecodeError as error:
        raise damaged(path, "it is not JSON", advice) from error
    except RecursionError as error:
        raise damaged(path, f"it is nested deeper than {DEEPEST} levels", advice) from error
    except ValueError as error:
        raise damaged(path, str(error), advice) from error
    if not isinstance(values, dict):
        raise damaged(path, "it does not hold an object", advice)
    return values


def read_results(folder: Path) -> dict[str, Any] | None:
    """The results of a finished run, or None if it is unfinished."""
    path = folder / "results.json"
    if not path.exists():
        return None
    advice = "delete it and run the same command with --resume, which writes it again"
    results = read_json(path, advice=advice)
    measures = results.get("measures")
    if not isinstance(measures, dict):
        raise damaged(path, "it holds no measures", advice)
    for name, value in measures.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise damaged(path, f"the measure {name} is not a number", advice)
    return results


def damaged(path: Path, reason: str, advice: str) -> UserError:
    """The error of a damaged file."""
    return UserError(f"{path} is damaged: {reason}; {advice}.")


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it holds an integer of {len(digits)} digits")
    return int(digits)


def _check_plain(values: Any) -> None:  # noqa: ANN401  whatever JSON holds
    """Refuse JSON values that are not valid elsewhere: text that is not Unicode, and deep nesting."""
    level = [values]
    for _ in range(DEEPEST):
        inside: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inside += [*value, *value.values()]
            elif isinstance(value, list):
                inside += value
            elif isinstance(value, str) and ("\0" in value or not _is_unicode(value)):
                raise ValueError("it holds invalid characters")
        level = inside
        if not level:
            return
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f"{path.name}.partial")
    # Deleted first: an existing file may be a link.
    temporary.unlink(missing_ok=True)
    with temporary.open("x", encoding="utf-8", newline="") as file:
        file.write(text)
    temporary.replace(path)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write an object as JSON; see ``write_text``."""
    write_text(path, json.dumps(values, indent=1) + "\n")


@contextmanager
def writing_to(folder: Path, advice: str = "choose another --out") -> Iterator[None]:
    """Turn an ``OSError`` into a ``UserError`` that names the folder and the advice."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}; {advice}.") from error


def check_links(folder: Path) -> None:
    """Refuse a folder that contains a symbolic link, which could lead reads and writes anywhere."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                raise link_error(path)


def link_error(path: Path) -> UserError:
    """The error of a symbolic link inside a run."""
    return UserError(f"{path} is a symbolic link, which is not allowed in a run; replace it by its target.")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder against other processes."""
    path = folder / ".lock"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path} is not an ordinary file; delete it and try again.")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"{path} cannot be opened ({error.strerror}); choose another --out.") from error
    with os.fdopen(descriptor, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"{folder} is being trained by another process; wait for it or choose another --out.") from error
        yield
