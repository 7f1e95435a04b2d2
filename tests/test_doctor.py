"""The examination of a machine: every check comes back as a result, whatever is broken."""

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from skillscape import doctor
from skillscape.envs.urlb.tasks import TASKS

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def drawing(monkeypatch):
    """Stands in for the processes that draw; what they return can be set, and what they were given looked up."""
    fake = SimpleNamespace(result=subprocess.CompletedProcess([], 0, "", ""), backends=[])

    def run(command, env, **_):
        fake.backends.append(command[-1])
        assert command[0] == sys.executable
        assert not {"MUJOCO_GL", "PYOPENGL_PLATFORM"} & env.keys()
        if isinstance(fake.result, Exception):
            raise fake.result
        return fake.result

    monkeypatch.setattr(doctor.subprocess, "run", run)
    return fake


def test_a_healthy_machine(drawing):
    pytest.importorskip("dm_control")
    checks = {check.name: check for check in doctor.examine()}
    # Few machines that run the tests have the large extra of a GPU.
    assert {check.name for check in checks.values() if not check.ok or check.advice} <= {"playground"}
    assert checks["playground"].ok
    assert {"python", "jax", "jax devices", "maze", "maze-pixels", "dm_control", "mujoco", *TASKS} <= checks.keys()
    assert checks["jaco_reach_top_left"].detail == "55 observations, 9 actions"
    assert drawing.backends == ["egl", "osmesa"]


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (subprocess.CompletedProcess([], 1, "", "Traceback\nImportError: no library"), "ImportError: no library"),
        (subprocess.CompletedProcess([], -11, "", ""), "exit code -11"),
        (subprocess.TimeoutExpired([], 120), "no image after 120 s"),
    ],
)
def test_drawing_is_optional_and_says_what_to_install(drawing, monkeypatch, result, detail):
    pytest.importorskip("dm_control")
    monkeypatch.setattr(doctor, "TASKS", ())
    drawing.result = result
    *_, egl, osmesa = doctor.examine()
    assert egl.ok
    assert osmesa.ok
    assert detail in egl.detail
    assert "libegl1" in egl.advice
    assert "libosmesa6" in osmesa.advice


def test_without_the_extra_there_is_an_advice_and_no_fault(drawing, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in doctor.SUPPORTED_URLB else "0.10.2")
    *_, last = doctor.examine()
    assert (last.name, last.ok) == ("urlb", True)
    assert 'pip install "skillscape[urlb]"' in last.advice
    assert drawing.backends == []


def test_films_are_optional(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda _: None)
    ok, _, advice = doctor._check_video()
    assert ok
    assert 'pip install "skillscape[video]"' in advice
    monkeypatch.setattr(doctor, "_version", lambda _: "17.2")
    assert doctor._check_video()[0] is False


def test_playground_is_optional_and_its_versions_are_pinned(monkeypatch):
    versions = dict.fromkeys(doctor.SUPPORTED_PLAYGROUND)
    monkeypatch.setattr(doctor, "_version", lambda name: versions[name])
    ok, detail, advice = doctor._check_playground()
    assert ok
    assert "playground/NAME needs it" in detail
    assert 'pip install "skillscape[playground]"' in advice
    versions |= {"playground": "0.2.0", "mujoco-mjx": "3.17.0"}
    assert doctor._check_playground() == (True, "playground 0.2.0, mujoco-mjx 3.17.0", "")
    versions["mujoco-mjx"] = "3.18.0"
    ok, detail, advice = doctor._check_playground()
    assert not ok
    assert "mujoco-mjx 3.18.0, but ==3.17.0 is supported" in detail
    assert "skillscape[playground]" in advice


def test_a_version_that_does_not_fit_is_a_fault(drawing, monkeypatch):
    versions = {"jax": "0.11.0", "mujoco": "4.0.0", "dm_control": None}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, "1.2.3"))
    monkeypatch.setattr(doctor, "TASKS", ())
    checks = {check.name: check for check in doctor.examine()}
    assert not checks["jax"].ok
    assert "pip install" in checks["jax"].advice
    assert not checks["mujoco"].ok
    assert "4.0.0" in checks["mujoco"].detail
    assert not checks["dm_control"].ok
    assert "skillscape[urlb]" in checks["dm_control"].advice


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with these devices of JAX, answer of nvidia-smi, device file, packages and choice of platform."""

    def described(platform="cpu", smi=None, device=False, plugin=None, chosen=None):
        file = tmp_path / "nvidia0"
        if device:
            file.touch()
        monkeypatch.setattr(doctor, "NVIDIA_DEVICE", file)
        kind = SimpleNamespace(platform=platform, device_kind="NVIDIA H100" if platform == "gpu" else "cpu")
        monkeypatch.setattr(jax, "devices", lambda: [kind, kind])
        monkeypatch.setattr(doctor.shutil, "which", lambda name: None if smi is None else f"/bin/{name}")
        monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: smi)
        monkeypatch.setattr(doctor, "_version", lambda name: "0.10.2" if name == plugin else None)
        monkeypatch.delenv("JAX_PLATFORMS", raising=False)
        if chosen is not None:
            monkeypatch.setenv("JAX_PLATFORMS", chosen)
        return doctor._check_devices()

    return described


SMI = subprocess.CompletedProcess([], 0, "NVIDIA H100\nNVIDIA H100\n", "")
NO_DRIVER = subprocess.CompletedProcess([], 9, "NVIDIA-SMI has failed", "")


@pytest.mark.parametrize(("settings", "found"), [({"smi": SMI}, "NVIDIA H100"), ({"device": True}, "nvidia0")])
def test_a_gpu_that_jax_does_not_use_is_told_with_the_line_to_install(machine, settings, found):
    ok, detail, advice = machine(**settings)
    assert ok
    assert detail.startswith("2 × cpu (cpu), although there is a GPU (")
    assert found in detail
    assert f'pip install "jax[cuda13]{doctor.SUPPORTED["jax"]}"' in advice
    assert [f"jax[cuda13]{doctor.SUPPORTED['jax']}"] == PROJECT["optional-dependencies"]["cuda"]


def test_a_plugin_that_finds_no_gpu_is_not_installed_again(machine):
    _, _, advice = machine(smi=SMI, plugin="jax-cuda12-plugin")
    assert "jax-cuda12-plugin is installed but finds no GPU" in advice
    assert "pip install" not in advice


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        ({"platform": "gpu", "smi": SMI}, "2 × NVIDIA H100 (gpu)"),
        ({}, "2 × cpu (cpu)"),
        ({"smi": NO_DRIVER}, "2 × cpu (cpu)"),
        ({"smi": SMI, "chosen": "cpu"}, "2 × cpu (cpu), by JAX_PLATFORMS=cpu"),
    ],
)
def test_without_a_gpu_or_with_one_in_use_there_is_no_advice(machine, settings, detail):
    assert machine(**settings) == (True, detail, "")


def test_an_nvidia_smi_that_hangs_is_no_answer(machine, monkeypatch):
    def hang(*_, **__):
        raise subprocess.TimeoutExpired([], 20)

    machine(smi=SMI, device=True)
    monkeypatch.setattr(doctor.subprocess, "run", hang)
    assert "nvidia0" in doctor._check_devices()[1]


def test_nothing_is_raised_whatever_breaks(drawing, monkeypatch):
    pytest.importorskip("dm_control")

    def broken(*_):
        raise OSError("a\n broken   disk")

    for name in vars(doctor):
        if name.startswith("_check_"):
            monkeypatch.setattr(doctor, name, broken)
    checks = list(doctor.examine())
    assert len(checks) > 12
    assert {(check.ok, check.detail) for check in checks} == {(False, "OSError: a broken disk")}


def test_supported_versions_are_those_the_package_asks_for():
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, doctor.SUPPORTED_PYTHON))
    for name, wanted in doctor.SUPPORTED.items():
        assert f"{name}{wanted}" in PROJECT["dependencies"]
    assert PROJECT["optional-dependencies"]["video"] == [f"av{doctor.SUPPORTED_VIDEO}"]
    assert [name + wanted for name, wanted in doctor.SUPPORTED_URLB.items()] == PROJECT["optional-dependencies"]["urlb"]


@pytest.mark.parametrize(
    ("found", "wanted", "fits"),
    [
        ("0.10.2", ">=0.10,<0.11", True),
        ("0.10", ">=0.10.0,<0.11", True),
        ("0.11.0", ">=0.10,<0.11", False),
        ("0.9.9", ">=0.10,<0.11", False),
        ("1.0.50", "==1.0.50", True),
        ("1.0.5", "==1.0.50", False),
        ("0.10.2.dev3+local", ">=0.10,<0.11", True),
    ],
)
def test_versions_are_compared_as_numbers(found, wanted, fits):
    assert doctor._fits(found, wanted) is fits


@pytest.mark.slow
def test_drawing_for_real():
    pytest.importorskip("dm_control")
    for backend in ("egl", "osmesa"):
        ok, detail, advice = doctor._check_rendering(backend)
        assert ok
        assert (detail == "renders") == (advice == "")
