"""Checks of the installation, with advice where one fails."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skillscape.envs.urlb.camera import PACKAGES
from skillscape.envs.urlb.tasks import TASKS, domain_of

INSTALL = 'run `pip install "skillscape[urlb]"`'
RENDERING_TIMEOUT = 120.0
GPU_TIMEOUT = 20.0

SUPPORTED_PYTHON = (3, 11)
SUPPORTED: dict[str, str] = {
    "jax": ">=0.10,<0.11",
    "equinox": ">=0.13.8,<0.14",
    "optax": ">=0.2.8,<0.3",
    "gymnasium": ">=1.2,<2",
}
"""Versions that the library is tested with, as the package asks for them."""

CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
"""Packages with which JAX finds an NVIDIA GPU."""
NVIDIA_DEVICE = Path("/dev/nvidia0")

SUPPORTED_URLB: dict[str, str] = {"dm_control": "==1.0.50", "mujoco": "==3.17.0"}
"""Tested versions of the extra ``urlb``; the two packages only work in matching versions."""

SUPPORTED_PLAYGROUND: dict[str, str] = {"playground": "==0.2.0", "mujoco-mjx": "==3.17.0"}
"""Tested versions of the extra ``playground``, with the mujoco of ``urlb``."""

SUPPORTED_VIDEO = ">=18,<19"
"""Tested versions of PyAV, which writes videos."""

_DRAW = """
import os, sys
from skillscape.envs.registry import host_env
from skillscape.envs.urlb.camera import try_backend
try_backend(sys.argv[1])
os.environ["MUJOCO_GL"] = sys.argv[1]
pixels = host_env("walker-pixels").reset(0)
sys.exit(None if pixels.shape == (64, 64, 3) and pixels.std() > 0 else "the image is empty")
"""


class Check(NamedTuple):
    """The result of a check: whether it passed, a detail, and an advice (may be empty).

    A missing optional package is ``ok``, with an advice.
    """

    name: str
    ok: bool
    detail: str
    advice: str


def examine() -> Iterator[Check]:
    """Run all checks; a failure is a result, never an exception."""
    yield _guarded("python", _check_python)
    for package, wanted in SUPPORTED.items():
        yield _guarded(package, partial(_check_version, package, wanted))
    yield _guarded("jax devices", _check_devices)
    yield _guarded("maze", _check_maze)
    yield _guarded("maze-pixels", _check_maze_pixels)
    yield _guarded("videos", _check_video)
    yield _guarded("playground", _check_playground)
    if _version("dm_control") is None and _version("mujoco") is None:
        yield Check("urlb", True, "not installed; walker, quadruped and jaco need it", f"{INSTALL} to use them")
        return
    for package, wanted in SUPPORTED_URLB.items():
        yield _guarded(package, partial(_check_version, package, wanted, INSTALL))
    for task in TASKS:
        yield _guarded(task, partial(_check_task, task), INSTALL)
    for backend in PACKAGES:
        yield _guarded(f"rendering with {backend}", partial(_check_rendering, backend))


def _guarded(name: str, check: Callable[[], tuple[bool, str, str]], advice: str = "") -> Check:
    try:
        return Check(name, *check())
    except Exception as error:
        text = " ".join(str(error).split())
        return Check(name, False, f"{type(error).__name__}: {text}" if text else type(error).__name__, advice)


def _check_python() -> tuple[bool, str, str]:
    least = ".".join(map(str, SUPPORTED_PYTHON))
    fine = sys.version_info[:2] >= SUPPORTED_PYTHON
    return fine, platform.python_version(), "" if fine else f"use Python {least} or newer"


def _check_version(package: str, wanted: str, advice: str = "") -> tuple[bool, str, str]:
    advice = advice or f'run `pip install "{package}{wanted}"`'
    installed = _version(package)
    if installed is None:
        return False, f"not installed, needs {wanted}", advice
    fine = _fits(installed, wanted)
    return fine, installed if fine else f"{installed}, but {wanted} is supported", "" if fine else advice


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _fits(installed: str, wanted: str) -> bool:
    """Whether a version meets requirements of the kinds ``>=``, ``<`` and ``==``, joined by commas."""
    return all(
        _numbers(installed) >= _numbers(bound[2:])
        if bound.startswith(">=")
        else _numbers(installed) == _numbers(bound[2:])
        if bound.startswith("==")
        else _numbers(installed) < _numbers(bound[1:])
        for bound in wanted.split(",")
    )


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (0, 10, 2) for "0.10.2" and "0.10.2.dev3"; zeros at the end do not count."""
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _check_devices() -> tuple[bool, str, str]:
    """The devices of JAX; an advice where it uses a CPU although there seems to be an NVIDIA GPU."""
    import jax

    devices = jax.devices()
    kinds = sorted({device.device_kind for device in devices})
    detail = f"{len(devices)} × {', '.join(kinds)} ({devices[0].platform})"
    if devices[0].platform != "cpu":
        return True, detail, ""
    # The user's own choice, so whether there is a GPU does not matter.
    if chosen := os.environ.get("JAX_PLATFORMS"):
        return True, f"{detail}, by JAX_PLATFORMS={chosen}", ""
    gpu = _nvidia_gpu()
    if gpu is None:
        return True, detail, ""
    plugins = [plugin for plugin in CUDA_PLUGINS if _version(plugin) is not None]
    advice = (
        f"{plugins[0]} is installed but finds no GPU: update the NVIDIA driver, or see docs/gpu.md"
        if plugins
        else f'run `pip install "jax[cuda13]{SUPPORTED["jax"]}"` to use the GPU (cuda12 for older drivers)'
    )
    return True, f"{detail}, although there is a GPU ({gpu})", advice


def _nvidia_gpu() -> str | None:
    """The name of the first NVIDIA GPU, or the path of its device; None if there seems to be none."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        command = [program, "--query-gpu=name", "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=GPU_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            done = None
        if done is not None and done.returncode == 0 and done.stdout.strip():
            return str(done.stdout.strip().splitlines()[0])
    return str(NVIDIA_DEVICE) if NVIDIA_DEVICE.exists() else None


def _check_maze() -> tuple[bool, str, str]:
    import jax

    from skillscape.envs.mazes.maze import make_maze

    maze = make_maze("square_a")
    key = jax.random.key(0)
    state, timestep = maze.step(maze.reset(key), jax.numpy.ones(2), key)
    fine = bool(jax.numpy.isfinite(state).all()) and timestep.obs.shape == maze.spec.obs_shape
    return fine, "square_a resets and steps", "" if fine else "please report this"


def _check_maze_pixels() -> tuple[bool, str, str]:
    from skillscape.envs.registry import host_env

    env = host_env("maze-pixels/square_a")
    pixels = env.reset(0), env.step(np.ones(2, np.float32)).obs
    fine = pixels[0].shape == env.spec.obs_shape and bool((pixels[0] != pixels[1]).any())
    return fine, "square_a is rendered, without a GPU", "" if fine else "please report this"


def _check_task(task: str) -> tuple[bool, str, str]:
    from skillscape.envs.urlb.suite import load_task

    domain = domain_of(task)
    env = load_task(task)
    try:
        sizes = (env.reset(0).size, env.spec.action_dim)
        raw = env.environment.action_spec().shape
        rewards = [env.step(np.zeros(env.spec.action_dim, np.float32)).reward for _ in range(5)]
    finally:
        env.close()
    wanted = (domain.obs_size, domain.action_size)
    fine = sizes == wanted and raw == (domain.action_size,) and bool(np.isfinite(rewards).all())
    detail = f"{sizes[0]} observations, {raw[0]} actions"
    return fine, detail if fine else f"{detail}, but {wanted[0]} and {wanted[1]} are expected", "" if fine else INSTALL


def _check_video() -> tuple[bool, str, str]:
    installed = _version("av")
    if installed is None:
        return (
            True,
            "PyAV is not installed; `skillscape video` needs it",
            'run `pip install "skillscape[video]"` to use it',
        )
    fine = _fits(installed, SUPPORTED_VIDEO)
    advice = "" if fine else 'run `pip install "skillscape[video]"`'
    return fine, f"PyAV {installed}" if fine else f"PyAV {installed}, but {SUPPORTED_VIDEO} is supported", advice


def _check_playground() -> tuple[bool, str, str]:
    """The versions alone: to make an environment takes seconds, to compile one minutes."""
    installed = {package: _version(package) for package in SUPPORTED_PLAYGROUND}
    advice = 'run `pip install "skillscape[playground]"`'
    if installed["playground"] is None:
        return True, "MuJoCo Playground is not installed; playground/NAME needs it", f"{advice} to use it"
    for package, wanted in SUPPORTED_PLAYGROUND.items():
        fine, detail, _ = _check_version(package, wanted)
        if not fine:
            return False, f"{package} {detail}", advice
    return True, ", ".join(f"{package} {version}" for package, version in installed.items()), ""


def _check_rendering(backend: str) -> tuple[bool, str, str]:
    """Render an image in a subprocess: a back end is fixed once per process, and a broken one may crash it."""
    advice = f"needed for videos, walker-pixels and quadruped-pixels unless another back end works: {PACKAGES[backend]}"
    settings = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DRAW, backend],
            env=settings,
            capture_output=True,
            text=True,
            timeout=RENDERING_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"does not render: no image after {RENDERING_TIMEOUT:.0f} s", advice
    if done.returncode == 0:
        return True, "renders", ""
    lines = done.stderr.strip().splitlines()
    return True, f"does not render: {lines[-1] if lines else f'exit code {done.returncode}'}", advice
