"""Offscreen MuJoCo rendering: 64 × 64 image observations, and video frames of any size.

MuJoCo is given an OpenGL context of our own, so that rendering works although dm_control was imported without its
graphics. The context is created with the first camera: EGL, else OSMesa, or the backend in ``MUJOCO_GL``.
"""

import atexit
import importlib
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import UInt8

from skillscape.envs import IMAGE_SIDE
from skillscape.envs.base import HostEnv, RenderedEnv
from skillscape.envs.urlb.control import BACKENDS, load_module, mujoco_gl
from skillscape.errors import UserError

RenderQuality: TypeAlias = Literal["fast", "reference"]
"""``reference`` is dm_control's rendering; ``fast`` omits shadows, reflections and antialiasing."""

HEADLESS_BACKENDS = ("egl", "osmesa")
"""The backends to try, in this order."""

PACKAGES = {
    "egl": "`apt install libegl1 libgl1` and the driver of the graphics card (or libgl1-mesa-dri for none)",
    "osmesa": "`apt install libosmesa6`",
}
"""Packages of Debian and Ubuntu that a backend needs."""


DEFAULT_WIDTH = 320
"""Width of a video frame in pixels; its aspect ratio is 4:3."""


class CameraPose(NamedTuple):
    """A free camera: the point it looks at, the distance from there in metres, and its angles in degrees."""

    lookat: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float


_MAX_GEOMS = 1000
_cameras: "weakref.WeakSet[Camera]" = weakref.WeakSet()


@final
class Camera:
    """Renders with a camera of the model, by its number, or with a free camera; only in the thread that made it."""

    def __init__(
        self,
        physics: Any,  # noqa: ANN401  (dm_control is untyped)
        camera: int | CameraPose,
        quality: RenderQuality,
        *,
        width: int = IMAGE_SIDE,
        height: int = IMAGE_SIDE,
    ) -> None:
        self._gl: Any = None
        mujoco = self._mujoco = load_module("mujoco")
        self._model, self._data = physics.model.ptr, physics.data.ptr
        # MuJoCo reads these only while it creates the context.
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        if quality == "fast":
            self._model.vis.quality.offsamples = 0
        self._gl, self._context = _open(rendering_backend(), self._model, width, height)
        _cameras.add(self)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(self._model, _MAX_GEOMS)
        if quality == "fast":
            for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                self._scene.flags[flag] = 0
        self._option, self._perturbation = mujoco.MjvOption(), mujoco.MjvPerturb()
        # As in dm_control: rangefinder rays are not part of the scene.
        self._option.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._camera = mujoco.MjvCamera()
        if isinstance(camera, CameraPose):
            self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
            self._camera.lookat[:], self._camera.distance, self._camera.azimuth, self._camera.elevation = camera
        else:
            self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._buffer = np.empty((height, width, 3), np.uint8)

    def frame(self) -> UInt8[np.ndarray, "h w 3"]:
        """A frame of the current state of the physics."""
        mujoco = self._mujoco
        all_geoms = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, self._perturbation, self._camera, all_geoms, self._scene
        )
        # Other cameras, such as those of evaluation environments, have contexts of their own.
        self._gl.make_current()
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(self._buffer, None, self._rectangle, self._context)
        # The rows of OpenGL start at the bottom.
        return self._buffer[::-1].copy()

    def close(self) -> None:
        """Free the context; closing again has no effect."""
        if self._gl is None:
            return
        gl, self._gl = self._gl, None
        # MuJoCo frees its buffers in the current context, which must not be another camera's.
        gl.make_current()
        self._context.free()
        gl.free()

    def __del__(self) -> None:
        self.close()


def filmed(
    env: HostEnv,
    physics: Any,  # noqa: ANN401  (dm_control is untyped)
    camera: int | CameraPose,
    *,
    size: int | None,
    shadows: bool,
    steps_per_second: float,
    task: str | None,
) -> RenderedEnv:
    """An environment with a camera on its physics, see ``EnvFamily.rendered``; closed if there can be no camera.

    ``shadows`` also turns on reflections and antialiasing.
    """
    width = DEFAULT_WIDTH if size is None else size
    try:
        filming = Camera(
            physics, camera, "reference" if shadows else "fast", width=width, height=2 * round(3 * width / 8)
        )
    except BaseException:
        env.close()
        raise

    def close() -> None:
        filming.close()
        env.close()

    return RenderedEnv(env, filming.frame, steps_per_second, task, rendering_backend(), close)


def _close_all() -> None:
    for camera in list(_cameras):
        camera.close()


@cache
def rendering_backend() -> str:
    """The first backend that works here, or the one in ``MUJOCO_GL``; tested once per process."""
    choice = os.environ.get("MUJOCO_GL", "").lower()
    if choice and choice not in BACKENDS:
        raise UserError(
            f"MUJOCO_GL={choice} turns off rendering, which is needed here: unset it, or set it to "
            f"{' or '.join(HEADLESS_BACKENDS)}."
        )
    reasons = []
    for backend in (choice,) if choice else HEADLESS_BACKENDS:
        try:
            try_backend(backend)
        except Exception as error:
            reasons.append(f"{backend} says: {' '.join(str(error).split()) or type(error).__name__}")
        else:
            # MuJoCo has just registered to close the display at exit; cameras, registered later, are closed before it.
            atexit.register(_close_all)
            return backend
    advice = " or ".join(PACKAGES[backend] for backend in ((choice,) if choice in PACKAGES else HEADLESS_BACKENDS))
    raise UserError(f"Rendering is needed, but no backend works here ({'; '.join(reasons)}): run {advice}.")


@contextmanager
def headless() -> Iterator[None]:
    """Let other code that renders with MuJoCo, such as a Gymnasium environment, do so without a screen."""
    if "mujoco" not in sys.modules:
        yield
        return
    try:
        backend = rendering_backend()
    except UserError as no_backend:
        # The code may render without MuJoCo.
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            raise no_backend from error
        return
    with mujoco_gl(backend):
        yield


def try_backend(backend: str) -> None:
    """Create a rendering context and free it again; raises if the backend does not work."""
    before = set(sys.modules)
    try:
        empty = load_module("mujoco").MjModel.from_xml_string("<mujoco/>")
        gl, context = _open(backend, empty, IMAGE_SIDE, IMAGE_SIDE)
        context.free()
        gl.free()
    except Exception:
        # PyOpenGL selects its backend on import, so the next backend needs a fresh import.
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "OpenGL" or name.startswith(f"mujoco.{backend}"):
                del sys.modules[name]
        raise


def _open(backend: str, model: Any, width: int, height: int) -> tuple[Any, Any]:  # noqa: ANN401  (MuJoCo is untyped)
    """An OpenGL context, current in this thread, and MuJoCo's rendering context for a model in it."""
    mujoco = load_module("mujoco")
    with mujoco_gl(backend):
        gl = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        gl.make_current()
        return gl, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
