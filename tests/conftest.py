"""The whole suite runs strictly: shapes and types are checked at every call, and no rank is broadcast silently.

Everything here has to happen before JAX or the library is imported.
"""

import os
from pathlib import Path

from jaxtyping import install_import_hook

# Where arrays are computed. The modules that a user calls check what they are given themselves, in words for the user,
# so nothing may refuse it before them; envs/gym.py also imports JAX late, which hides its types from a checker.
CHECKED = (
    "types",
    "nets",
    "vision",
    "dists",
    "optim",
    "stats",
    "skills",
    "envs.base",
    "envs.frames",
    "envs.layouts",
    "envs.maze_frames",
    "envs.mazes",
    "envs.pixels",
    "objectives",
    "backbones",
    "training",
    "evaluation.rollouts",
)
install_import_hook([f"skillscape.{name}" for name in CHECKED], "strict.checked")

# Compiling takes most of the time of these tests; a second run finds what the first one compiled.
os.environ["JAX_PLATFORMS"] = "cpu"
# Strict promotion of dtypes is not among these: optax.adam itself mixes an int count with floats.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache" / "skillscape-tests"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
