"""Runs that are killed, stopped, or short of disk go on to the same numbers, bit for bit. All in real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import listening

from skillscape.training.checkpoint import load_metadata

SMALL_SD3 = "--objective.width 16 --objective.modules 2 --objective.module-width 8 --objective.history 900"
METHODS = {
    "diayn": ("diayn", "--objective.hidden", "16", "--backbone.hidden", "16", "--objective.number-of-skills", "4"),
    "sd3": ("sd3", *SMALL_SD3.split(), "--backbone.hidden", "16", "--objective.number-of-skills", "4"),
}
STEPS = 8_000
ROWS = STEPS // 400
COMPARED = ("metrics.csv", "evaluation.csv", "results.json", "config.json")


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


def command(method, folder, *flags, steps=STEPS):
    """A training process of 400 steps per iteration that saves every 800."""
    options = ["--preset", "smoke", "--steps", str(steps), "--out", str(folder), *flags]
    return [sys.executable, "-m", "skillscape", "pretrain", *METHODS[method], *options]


def environment(method):
    """The slow tests run what users run; the others compile in a hurry."""
    return {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0" if method == "sd3" else "1"}


def train(method, folder, *flags, steps=STEPS, largest_file=None):
    arguments = command(method, folder, *flags, steps=steps)
    if largest_file is not None:
        arguments = [sys.executable, "-c", LIMITED, str(largest_file), *arguments]
    return subprocess.run(arguments, env=environment(method), capture_output=True, text=True, check=False)


def train_until(method, folder, rows, send, *flags, log="metrics.csv"):
    """Start training, send a signal once the log has so many rows, and wait for the end."""
    process = subprocess.Popen(
        listening(command(method, folder, *flags)),
        env=environment(method),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and rows_of(folder, log) < rows:
        time.sleep(0.002)
    process.send_signal(send)
    _, errors = process.communicate()
    return process.returncode, errors


def rows_of(folder, log="metrics.csv"):
    path = folder / log
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def steps_told(errors):
    """The steps of the progress lines."""
    return [int(line.split("/")[0].replace(",", "")) for line in errors.splitlines() if f"/{STEPS:,} steps" in line]


def newest_arrays(folder):
    return sorted((folder / "checkpoints").glob("[0-9]*"))[-1] / "arrays.safetensors"


def assert_same(folder, reference):
    """The same numbers in every file, the same bits in the last checkpoint and the skills, and nothing left over."""
    for name in COMPARED:
        assert (folder / name).read_bytes() == (reference / name).read_bytes(), name
    assert newest_arrays(folder).parent.name == newest_arrays(reference).parent.name == f"{STEPS:012d}"
    assert newest_arrays(folder).read_bytes() == newest_arrays(reference).read_bytes()
    skills = Path("skills") / "arrays.safetensors"
    assert (folder / skills).read_bytes() == (reference / skills).read_bytes()
    assert not [path for path in folder.rglob("*") if path.suffix in (".partial", ".replaced")]
    # Times differ, but every finished run has them.
    assert json.loads((folder / "timing.json").read_text())["steps"] == STEPS


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Makes the folder of a run of a method that nothing interrupted, once."""
    made = {}

    def make(method):
        if method not in made:
            made[method] = tmp_path_factory.mktemp("whole") / method
            done = train(method, made[method])
            assert done.returncode == 0, done.stderr
            assert rows_of(made[method]) == ROWS
        return made[method]

    return make


@pytest.mark.parametrize("method", ["diayn", pytest.param("sd3", marks=pytest.mark.slow)])
def test_a_run_killed_twice_goes_on_to_the_same_numbers(references, tmp_path, method):
    folder = tmp_path / "killed"
    for rows, flags in ((1, ()), (ROWS // 2, ("--resume",))):
        code, _ = train_until(method, folder, rows, signal.SIGKILL, *flags)
        assert code == -signal.SIGKILL
        assert rows_of(folder) < ROWS
        assert not (folder / "results.json").exists()
    saved = int(newest_arrays(folder).parent.name)
    until_then = load_metadata(newest_arrays(folder).parent)["seconds"]
    resumed = train(method, folder, "--resume")
    assert resumed.returncode == 0
    assert json.loads((folder / "timing.json").read_text())["seconds"] > until_then > 0
    assert steps_told(resumed.stderr)[0] == saved + 800
    assert_same(folder, references(method))


def test_a_run_stopped_by_hand_saves_and_says_how_to_go_on(references, tmp_path):
    folder = tmp_path / "stopped"
    code, errors = train_until("diayn", folder, 5, signal.SIGINT)
    assert code == 130
    assert (
        errors.splitlines()[-1] == "skillscape: interrupted and saved; run the same command with --resume to continue."
    )
    assert "Traceback" not in errors
    saved = int(newest_arrays(folder).parent.name)
    assert saved == 400 * rows_of(folder)
    assert train("diayn", folder, "--resume").returncode == 0
    assert_same(folder, references("diayn"))


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_once_there_is_room(references, tmp_path):
    folder = tmp_path / "full"
    largest = newest_arrays(references("diayn")).stat().st_size
    limited = train("diayn", folder, largest_file=largest - 1)
    assert limited.returncode == 2
    assert "Traceback" not in limited.stderr
    # Whichever file of an evaluation is the first that is too large.
    told = limited.stderr.splitlines()[-1]
    assert "earlier checkpoints are intact" in told or ("so training stopped; " in told and "--resume" in told)
    assert train("diayn", folder, "--resume").returncode == 0
    assert_same(folder, references("diayn"))


def test_a_seed_learns_the_same_in_company_and_alone(references, tmp_path):
    together = train("diayn", tmp_path / "company", "--seeds", "3", "--workers", "2", steps=1600)
    alone = train("diayn", tmp_path / "alone", "--seed", "2", steps=1600)
    assert (together.returncode, alone.returncode) == (0, 0)
    seeds = [tmp_path / "company" / f"seed_{seed}" for seed in range(3)]
    metrics = [(folder / "metrics.csv").read_bytes() for folder in seeds]
    assert len(set(metrics)) == 3
    assert (references("diayn") / "metrics.csv").read_bytes().startswith(metrics[0])
    for name in COMPARED:
        assert (seeds[2] / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


@pytest.mark.slow
def test_several_seeds_killed_go_on_to_the_same_numbers(references, tmp_path):
    folder = tmp_path / "seeds"
    code, _ = train_until("diayn", folder, 4, signal.SIGKILL, "--seeds", "2", log="seed_1/metrics.csv")
    assert code == -signal.SIGKILL
    assert train("diayn", folder, "--seeds", "2", "--resume").returncode == 0
    assert_same(folder / "seed_0", references("diayn"))
