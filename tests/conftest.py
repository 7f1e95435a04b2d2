"""The whole suite runs strictly: shapes and types are checked at every call, and no rank is broadcast silently.

Everything here has to happen before JAX or the library is imported.
"""

import gc
import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Where arrays are computed. The modules that a user calls check what they are given themselves, in words for the user,
# so nothing may refuse it before them; gymnasium_export.py also imports JAX late, which hides its types from a checker.
CHECKED = (
    "types",
    "nets",
    "conv",
    "dists",
    "optim",
    "stats",
    "skills",
    "envs.base",
    "envs.host_adapter",
    "envs.mazes",
    "envs.playground",
    "envs.resize",
    "envs.urlb.pixels",
    "objectives",
    "backbones",
    "training.checkpoint",
    "training.jit_collector",
    "training.unroll",
    "training.host_collector",
    "training.state",
    "training.trainer",
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

MOST_MAPS = 25_000
"""Memory maps of a process after which compiled programs are given up: Linux ends one that has 65,530 of them."""


@pytest.fixture(autouse=True, scope="module")
def _room_for_programs():
    """Keep a worker of the suite, which compiles thousands of programs, below what the kernel allows."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        import jax

        jax.clear_caches()
        gc.collect()
