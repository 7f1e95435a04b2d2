"""A disk that is full, for single files of this process."""

import os
from pathlib import Path


def fill(part: str) -> None:
    """From now on, every file that is open and has ``part`` in its path answers as a full disk does."""
    full = os.open("/dev/full", os.O_WRONLY)
    for link in list(Path("/proc/self/fd").iterdir()):
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # the listing's own
            continue
        if part in target:
            os.dup2(full, int(link.name))
    os.close(full)
