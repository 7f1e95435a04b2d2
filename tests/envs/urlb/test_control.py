"""Importing dm_control without graphics, its errors, and the tolerances of the rewards."""

import os
import subprocess
import sys

import numpy as np
import pytest

from skillscape.envs.urlb.control import gaussian_tolerance, linear_tolerance, load_module
from skillscape.errors import UserError

pytest.importorskip("dm_control")

STEP = """
import os, sys
before = os.environ.get("MUJOCO_GL")
import numpy as np
from skillscape.envs.urlb.suite import load_task
for task in ("walker_walk", "jaco_reach_top_left"):
    env = load_task(task)
    env.reset(0)
    env.step(np.zeros(env.spec.action_dim, np.float32))
graphics = {"OpenGL", "glfw", "mujoco.egl", "mujoco.glfw", "mujoco.osmesa"} & {*sys.modules}
assert not graphics, graphics
libraries = [line for line in open("/proc/self/maps") if "libGL" in line or "libEGL" in line or "libOSMesa" in line]
assert not libraries, libraries
assert os.environ.get("MUJOCO_GL") == before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the libraries of the process from /proc")
@pytest.mark.parametrize("choice", [None, "off"])
def test_stepping_loads_no_graphics_and_leaves_the_environment_as_it_was(choice):
    settings = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    settings |= {"MUJOCO_GL": choice} if choice else {}
    subprocess.run([sys.executable, "-c", STEP], check=True, env=settings)


def test_an_unknown_backend_is_refused():
    program = "from skillscape.envs.urlb.suite import load_task; load_task('walker_walk')"
    settings = os.environ | {"MUJOCO_GL": "crayons"}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode
    assert "UserError: MuJoCo does not start with MUJOCO_GL=crayons" in done.stderr


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite.walker", None)
    with pytest.raises(UserError, match=r'needs dm_control: run `pip install "skillscape\[urlb\]"`'):
        load_module("dm_control.suite.walker")


def test_tolerances_have_the_bits_of_dm_control():
    tolerance = load_module("dm_control.utils.rewards").tolerance
    for value in np.random.default_rng(0).normal(size=500) * 3:
        for target, margin, at_margin in ((1.0, 0.5, 0.5), (8.0, 4.0, 0.5), (5.0, 5.0, 0.0), (1.0, 2.0, 0.0)):
            expected = tolerance(value, (target, np.inf), margin, "linear", at_margin)
            assert linear_tolerance(float(value), target, margin, at_margin) == expected
        assert gaussian_tolerance(abs(float(value))) == tolerance(abs(value), margin=1.0)
