"""Pictures of a simulation, for learning in 64 × 64 and for films in any size, drawn by MuJoCo without a screen.

MuJoCo is given an OpenGL context of our own, so it does not matter whether dm_control was imported with its graphics,
as training from states never does. The context is made when the first picture is asked for: EGL, else OSMesa, or
whatever ``MUJOCO_GL`` says.
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
from skillscape.envs.urlb.control import BACKENDS, load_module
from skillscape.errors import UserError

Look: TypeAlias = Literal["fast", "reference"]
"""``reference`` is what dm_control draws; ``fast`` leaves out shadows, reflections and the smoothing of edges."""

LOOKS: tuple[Look, ...] = ("fast", "reference")

HEADLESS = ("egl", "osmesa")
"""What is tried, in this order."""

PACKAGES = {
    "egl": "`apt install libegl1 libgl1` and the driver of the graphics card (or libgl1-mesa-dri for none)",
    "osmesa": "`apt install libosmesa6`",
}
"""What to install where a back end does not draw, by the names of Debian and Ubuntu."""


class View(NamedTuple):
    """A camera that the model does not have: the point it looks at, from how far, and its angles in degrees."""

    point: tuple[float, float, float]
    distance: float
    azimuth: float
    elevation: float


_MOST_GEOMETRIES = 1000
_cameras: "weakref.WeakSet[Camera]" = weakref.WeakSet()


@final
class Camera:
    """One camera of a model, by its number there, or a view of its own. Draws in the thread that it was made in."""

    def __init__(
        self,
        physics: Any,  # noqa: ANN401  (dm_control is untyped)
        camera: int | View,
        look: Look,
        *,
        width: int = IMAGE_SIDE,
        height: int = IMAGE_SIDE,
    ) -> None:
        self._gl: Any = None
        mujoco = self._mujoco = load_module("mujoco")
        self._model, self._data = physics.model.ptr, physics.data.ptr
        # Read when the context is made, and only then.
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        if look == "fast":
            self._model.vis.quality.offsamples = 0
        self._gl, self._context = _open(rendering_backend(), self._model, width, height)
        _cameras.add(self)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(self._model, _MOST_GEOMETRIES)
        if look == "fast":
            for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                self._scene.flags[flag] = 0
        self._option, self._perturbation = mujoco.MjvOption(), mujoco.MjvPerturb()
        # As in dm_control: range finders are not part of the scene.
        self._option.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._camera = mujoco.MjvCamera()
        if isinstance(camera, View):
            self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
            self._camera.lookat[:], self._camera.distance, self._camera.azimuth, self._camera.elevation = camera
        else:
            self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._buffer = np.empty((height, width, 3), np.uint8)

    def frame(self) -> UInt8[np.ndarray, "h w 3"]:
        """The present state of the physics."""
        mujoco = self._mujoco
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model, self._data, self._option, self._perturbation, self._camera, everything, self._scene
        )
        # Other cameras, of environments for evaluation, have contexts of their own.
        self._gl.make_current()
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(self._buffer, None, self._rectangle, self._context)
        # OpenGL counts rows from below.
        return self._buffer[::-1].copy()

    def close(self) -> None:
        """Free the context; a second time does nothing."""
        if self._gl is None:
            return
        gl, self._gl = self._gl, None
        # MuJoCo frees its buffers in whichever context is current, which must not be another camera's.
        gl.make_current()
        self._context.free()
        gl.free()

    def __del__(self) -> None:
        self.close()


def _close_all() -> None:
    for camera in list(_cameras):
        camera.close()


@cache
def rendering_backend() -> str:
    """The first back end that works here; found out once in a process."""
    wish = os.environ.get("MUJOCO_GL", "").lower()
    if wish and wish not in BACKENDS:
        raise UserError(
            f"Pictures are needed, which MUJOCO_GL={wish} turns off: unset it, or set it to {' or '.join(HEADLESS)}."
        )
    reasons = []
    for backend in (wish,) if wish else HEADLESS:
        try:
            try_backend(backend)
        except Exception as error:
            reasons.append(f"{backend} says: {' '.join(str(error).split()) or type(error).__name__}")
        else:
            # MuJoCo has just asked to close the display at the end of the process; cameras, asked later, go first.
            atexit.register(_close_all)
            return backend
    advice = " or ".join(PACKAGES[backend] for backend in ((wish,) if wish in PACKAGES else HEADLESS))
    raise UserError(f"Pictures are needed, but none can be drawn here ({'; '.join(reasons)}): run {advice}.")


@contextmanager
def without_screen() -> Iterator[None]:
    """Whatever draws with MuJoCo in here, for instance an environment of Gymnasium, needs no screen."""
    if "mujoco" not in sys.modules:
        yield
        return
    try:
        backend = rendering_backend()
    except UserError as none_works:
        # What is drawn in here may have nothing to do with MuJoCo.
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            raise none_works from error
        return
    with _environment(backend):
        yield


def try_backend(backend: str) -> None:
    """Make what drawing needs and free it again; whatever goes wrong is raised."""
    before = set(sys.modules)
    try:
        empty = load_module("mujoco").MjModel.from_xml_string("<mujoco/>")
        gl, context = _open(backend, empty, IMAGE_SIDE, IMAGE_SIDE)
        context.free()
        gl.free()
    except Exception:
        # PyOpenGL settles on a back end when it is imported; the next one needs it fresh.
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "OpenGL" or name.startswith(f"mujoco.{backend}"):
                del sys.modules[name]
        raise


def _open(backend: str, model: Any, width: int, height: int) -> tuple[Any, Any]:  # noqa: ANN401  (MuJoCo is untyped)
    """A context of OpenGL, current in this thread, and MuJoCo's own for a model in it."""
    mujoco = load_module("mujoco")
    with _environment(backend):
        gl = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        gl.make_current()
        return gl, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)


@contextmanager
def _environment(backend: str) -> Iterator[None]:
    """What MuJoCo reads, and writes, while a context is made; processes started later find what the user left there."""
    names = ("MUJOCO_GL", "PYOPENGL_PLATFORM")
    before = {name: os.environ.get(name) for name in names}
    os.environ["MUJOCO_GL"] = backend
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
