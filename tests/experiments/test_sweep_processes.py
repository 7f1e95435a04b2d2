"""A sweep as real processes: one is killed, the driver is stopped and killed, and a run fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import listening

from skillscape.experiments.spec import read_sweep
from skillscape.experiments.worker import bookkeeping, trained_steps

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]
COMPARED = ("metrics.csv", "evaluation.csv", "results.json", "config.json")
GRID = """
methods = ["diayn", "ddpg"]
envs = ["gym/toys:Toy-v0"]
preset = "smoke"
steps = 4000
finetuning_steps = 4000
"""


def start(path, runs):
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-m", "skillscape", "sweep", str(path), "--runs", str(runs), "--workers", "2"]
    pipe = subprocess.PIPE
    return subprocess.Popen(listening(command), env=environment, stdout=pipe, stderr=pipe, text=True)


def half_done(process, runs, folder):
    """Wait until a run has a checkpoint, and give the process that holds it."""
    while not trained_steps(runs, folder):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    return int(bookkeeping(runs, "locks", f"{folder}.lock").read_text().split()[0])


def gone(process):
    while Path(f"/proc/{process}").exists():
        time.sleep(0.05)


def test_whatever_is_killed_the_results_are_the_same(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    source, tuned, scratch = read_sweep(path).grid.specs
    runs, whole = tmp_path / "runs", tmp_path / "whole"
    # A worker is killed and goes on; then Ctrl-C, while the same or another run is half done.
    process = start(path, runs)
    os.kill(half_done(process, runs, source.folder), signal.SIGKILL)
    worker = half_done(process, runs, scratch.folder)
    assert b"glibc.malloc.hugetlb=1" in Path(f"/proc/{worker}/environ").read_bytes()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "skillscape: interrupted and saved; run the same command to continue."
    assert "Traceback" not in errors
    assert not Path(f"/proc/{worker}").exists()
    # The driver is killed: its workers notice and end.
    process = start(path, runs)
    worker = half_done(process, runs, tuned.folder)
    process.kill()
    process.communicate()
    gone(worker)
    assert not (runs / tuned.folder / "results.json").exists()
    process = start(path, runs)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith("3 of 3 runs are finished.")

    process = start(path, whole)
    process.communicate()
    for run in (source, tuned, scratch):
        for name in COMPARED:
            assert (runs / run.folder / name).read_bytes() == (whole / run.folder / name).read_bytes(), name
    assert (runs / "sweeps/grid/results.csv").read_text() == (whole / "sweeps/grid/results.csv").read_text()


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    path, runs = tmp_path / "grid.toml", tmp_path / "runs"
    path.write_text(GRID.replace('Toy-v0"', 'Toy-v0", "gym/toys:Breaking-v0"').replace("4000", "1000"))
    process = start(path, runs)
    output, errors = process.communicate()
    assert process.returncode == 2
    assert output.startswith("3 of 6 runs are finished.")
    lines = errors.splitlines()
    assert lines[-1].startswith("skillscape: 3 of 6 runs failed")
    reasons = [line for line in lines[-4:-1] if "not finite at step 500" in line]
    assert len(reasons) == 2
    assert all(Path(line.rpartition("; see ")[2]).exists() for line in reasons)
    assert "Traceback" not in errors
