"""Rendering backends: which one is used, and the error where none works."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from skillscape.envs.urlb import camera
from skillscape.errors import UserError

find = camera.rendering_backend.__wrapped__


@pytest.fixture
def backends(monkeypatch):
    """Replaces MuJoCo's backends; the ``working`` ones load, the others raise."""
    fake = SimpleNamespace(working=(), tried=[])

    def load(backend):
        fake.tried.append(backend)
        if backend not in fake.working:
            raise ImportError(f"no\n lib{backend}")

    monkeypatch.setattr(camera, "try_backend", load)
    monkeypatch.setattr(camera.atexit, "register", lambda _: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    return fake


@pytest.mark.parametrize(
    ("working", "tried"), [(("egl", "osmesa"), ["egl"]), (("osmesa",), ["egl", "osmesa"]), (("egl",), ["egl"])]
)
def test_egl_is_taken_then_osmesa(backends, working, tried):
    backends.working = working
    assert find() == tried[-1]
    assert backends.tried == tried


def test_where_nothing_works_the_error_gives_reasons_and_packages(backends):
    with pytest.raises(UserError, match="no backend works here") as caught:
        find()
    message = str(caught.value)
    for part in ("egl says: no libegl", "osmesa says: no libosmesa", "libgl1-mesa-dri", "apt install libosmesa6"):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize("backend", ["egl", "osmesa", "glfw"])
def test_only_the_backend_that_the_user_chose_is_tried(backends, monkeypatch, backend):
    backends.working = ("egl", "osmesa", "glfw")
    monkeypatch.setenv("MUJOCO_GL", backend.upper())
    assert find() == backend
    backends.working = ()
    with pytest.raises(UserError, match=f"{backend} says"):
        find()
    assert backends.tried == [backend, backend]


@pytest.mark.parametrize("choice", ["disable", "off", "vulkan"])
def test_rendering_that_is_turned_off_is_refused(backends, monkeypatch, choice):
    monkeypatch.setenv("MUJOCO_GL", choice)
    with pytest.raises(UserError, match=f"MUJOCO_GL={choice} turns off rendering.*: unset it"):
        find()
    assert backends.tried == []


def test_other_code_renders_headless_for_that_moment(backends, monkeypatch):
    backends.working = ("osmesa",)
    monkeypatch.setattr(camera, "rendering_backend", find)
    monkeypatch.setitem(sys.modules, "mujoco", SimpleNamespace())
    with camera.headless():
        assert os.environ["MUJOCO_GL"] == "osmesa"
    assert "MUJOCO_GL" not in os.environ


def test_other_code_that_cannot_render_names_the_packages(backends, monkeypatch):
    monkeypatch.setattr(camera, "rendering_backend", find)
    monkeypatch.setitem(sys.modules, "mujoco", SimpleNamespace())
    with camera.headless():
        pass  # pygame, say, which needs none of it
    with pytest.raises(UserError, match="no backend works here"), camera.headless():
        raise RuntimeError("no OpenGL")
    monkeypatch.delitem(sys.modules, "mujoco")
    with pytest.raises(RuntimeError, match="no OpenGL"), camera.headless():
        raise RuntimeError("no OpenGL")


_SECOND_TRY = """
import os
from skillscape.envs.registry import make_env
from skillscape.envs.urlb import camera
os.environ["MUJOCO_EGL_DEVICE_ID"] = "99"
try:
    camera.try_backend("egl")
except RuntimeError as error:
    assert "MUJOCO_EGL_DEVICE_ID" in str(error)
else:
    raise SystemExit("a card that is not there has drawn")
del os.environ["MUJOCO_EGL_DEVICE_ID"]
make_env("walker")
env = make_env("walker-pixels")
assert env.reset(0).std() > 0
assert "PYOPENGL_PLATFORM" not in os.environ and "MUJOCO_GL" not in os.environ
"""


def test_a_failure_leaves_room_for_another_try_and_nothing_in_the_environment():
    pytest.importorskip("dm_control")
    if os.environ.get("MUJOCO_GL", "egl") != "egl":
        pytest.skip("another backend is set")
    try:
        camera.try_backend("egl")
    except Exception as error:
        pytest.skip(f"EGL does not render here: {error}")
    clean = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    done = subprocess.run([sys.executable, "-c", _SECOND_TRY], env=clean, capture_output=True, text=True, check=False)
    # Not even at the end of the process, with the environment left open.
    assert (done.returncode, done.stderr) == (0, "")
