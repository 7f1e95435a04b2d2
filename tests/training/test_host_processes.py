"""Runs on a host environment that are killed or stopped go on to the same bytes, and mistakes cost nothing."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from counting import Telling
from processes import listening

from skillscape.api import pretrain
from skillscape.cli import main
from skillscape.configure import pretraining
from skillscape.training.run import Run

pytestmark = pytest.mark.usefixtures("_quick_compilation")
ENV = "gym/toys:Ending-v0"
STEPS = 3000
COMPARED = ("metrics.csv", "evaluation.csv", "results.json", "config.json")
TESTS = Path(__file__).parents[1]


def environment():
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def command(source, folder, *flags, env=ENV, task=None):
    """A process that pre-trains, or with a source one that fine-tunes it; both save every thousand steps."""
    what = ["pretrain", "diayn", "--env", env, "--preset", "smoke"]
    if source is not None:
        what = ["finetune", str(source), "--task", task or env, "--skill", "random"]
    return [sys.executable, "-m", "skillscape", *what, "--steps", str(STEPS), "--out", str(folder), *flags]


def train(arguments):
    return subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=False)


def start(arguments):
    return subprocess.Popen(
        listening(arguments), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def saved(folder):
    """The newest step that a checkpoint holds."""
    found = [int(path.name) for path in (folder / "checkpoints").glob("[0-9]*")]
    return max(found, default=-1)


def wait_for(process, folder, step, delay):
    """Until a checkpoint of this step stands, and then a while."""
    while process.poll() is None and saved(folder) < step:
        time.sleep(0.002)
    time.sleep(delay)


def signalled(arguments, folder, step, delay, send):
    process = start(arguments)
    wait_for(process, folder, step, delay)
    process.send_signal(send)
    _, errors = process.communicate()
    return process.returncode, errors


def last_of(folder, kind):
    return sorted((folder / kind).glob("[0-9]*"))[-1] / "arrays.safetensors"


def assert_same(folder, reference):
    for name in COMPARED:
        assert (folder / name).read_bytes() == (reference / name).read_bytes(), name
    for kind in ("checkpoints", "snapshots"):
        assert last_of(folder, kind).parent.name == f"{STEPS:012d}"
        assert last_of(folder, kind).read_bytes() == last_of(reference, kind).read_bytes()
    assert not [path for path in folder.rglob("*") if path.suffix in (".partial", ".replaced")]
    assert not (folder / "replay").exists()


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Makes the folder of a run that nothing interrupted, once; both phases."""
    folder = tmp_path_factory.mktemp("whole")

    def make(phase, env=ENV, task=None):
        name = f"{phase}-{env.rpartition(':')[2]}"
        if not (folder / name).exists():
            source = make("pretrain", env) if phase == "finetune" else None
            done = train(command(source, folder / name, env=env, task=task))
            assert done.returncode == 0, done.stderr
        return folder / name

    return make


def test_a_run_killed_then_stopped_by_hand_goes_on_to_the_same_bytes(references, tmp_path):
    folder = tmp_path / "run"
    delay = random.Random(1).uniform(0, 0.1)
    code, _ = signalled(command(None, folder), folder, 1000, delay, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (folder / "results.json").exists()
    process = start(command(None, folder, "--resume"))
    while "2,000/3,000 steps" not in process.stderr.readline():
        assert process.poll() is None
    # While it holds the run, asleep or not, nobody else may.
    process.send_signal(signal.SIGSTOP)
    second = train(command(None, folder, "--resume"))
    assert second.returncode == 2
    assert "is being trained by another process" in second.stderr.splitlines()[-1]
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert (
        errors.splitlines()[-1] == "skillscape: interrupted and saved; run the same command with --resume to continue."
    )
    assert "Traceback" not in errors
    assert 2000 <= saved(folder) < STEPS
    assert train(command(None, folder, "--resume")).returncode == 0
    assert_same(folder, references("pretrain"))


def test_a_fine_tuning_that_is_killed_goes_on_to_the_same_bytes(references, tmp_path):
    folder, source = tmp_path / "run", references("pretrain")
    delay = random.Random(2).uniform(0, 0.5)
    code, _ = signalled(command(source, folder), folder, 1000, delay, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert train(command(source, folder, "--resume")).returncode == 0
    assert_same(folder, references("finetune"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("phase", ["pretrain", "finetune"])
def test_a_run_killed_at_any_moment_goes_on_to_the_same_bytes(references, tmp_path, phase, seed):
    folder = tmp_path / "run"
    source = references("pretrain") if phase == "finetune" else None
    moments = random.Random(seed)
    for _ in range(5):
        process = start(command(source, folder, *(["--resume"] if (folder / "config.json").exists() else [])))
        time.sleep(moments.uniform(2, 12))
        process.kill()
        process.communicate()
    assert train(command(source, folder, "--resume")).returncode == 0
    assert_same(folder, references(phase))


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["pretrain", "finetune"])
def test_a_walker_killed_goes_on_to_the_same_bytes(references, tmp_path, phase):
    pytest.importorskip("dm_control")
    folder, task = tmp_path / "run", "walker_walk"
    source = references("pretrain", "walker") if phase == "finetune" else None
    first = command(source, folder, env="walker", task=task)
    code, _ = signalled(first, folder, 1000, random.Random(3).uniform(0, 1), signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert train([*first, "--resume"]).returncode == 0
    assert_same(folder, references(phase, "walker", task))


# Mistakes on the command line


class Killed(Exception):
    """Ends a run between two checkpoints, as a kill would."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    pretrain("diayn", ENV, out=folder, preset="smoke", steps=1000, progress=False)
    return folder


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """A run of 3,000 steps with a checkpoint of step 1,000 only."""
    folder = tmp_path_factory.mktemp("half") / "run"

    def kill(run, step, pace, row):
        if step == 2000:
            raise Killed

    with pytest.raises(Killed):
        pretrain("diayn", ENV, out=folder, preset="smoke", steps=STEPS, callbacks=[Telling(kill)], progress=False)
    return folder


def stopped(capsys, *arguments):
    """The last line on standard error of a command that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert "Traceback" not in printed.err
    return printed.err.splitlines()


def refused(capsys, *arguments):
    """The one line of a command that is refused before it does anything."""
    (line,) = stopped(capsys, *arguments)
    assert line.startswith("skillscape: ")
    return line


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (["--task", "walker_walk"], "has one task, itself, and walker_walk is another"),
        (["--task", "gym/toys:Toy-v0"], "has one task, itself"),
        (["--task", ENV, "--snapshot", "77"], "has no snapshot of step 77; choose one of 1000"),
        (["--task", ENV, "--skill", "16"], "no skill 16; choose one from 0 to 15"),
        (["--task", ENV, "--skill", "best"], "--skill cannot be 'best'"),
        (["--task", ENV, "--steps", "0"], "--steps must be above zero"),
        (["--task", ENV, "--env", "gym/Pendulum-v1"], f"was trained on {ENV}; give that ID"),
        (["--task", ENV, "--resume", "--force"], "exclude each other"),
    ],
)
def test_a_fine_tuning_that_makes_no_sense_is_one_line_and_costs_nothing(capsys, finished, tmp_path, flags, answer):
    before = files(finished)
    assert answer in refused(capsys, "finetune", finished, "--out", tmp_path / "run", *flags)
    assert files(finished) == before
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["train", "--env", ENV, "--task", ENV, "--preset", "tiny"], "preset"),
        (["train", "--env", "walker", "--task", "walker_wolk"], "did you mean 'walker_walk'"),
        (["train", "--env", "walker", "--task", "quadruped_run"], "not a task of walker"),
        (["train", "--env", "walker_walk", "--task", "walker_walk"], "is a task"),
        (["train", "--env", "gym/toys:Tuy-v0", "--task", "gym/toys:Tuy-v0"], "did you mean Toy-v0"),
        (["finetune", "--task", "walker_walk"], "No run given"),
        (["finetune", "no/such/run", "--task", "walker_walk"], "does not exist"),
    ],
)
def test_a_start_that_makes_no_sense_is_one_line(capsys, tmp_path, arguments, answer):
    assert re.search(answer, refused(capsys, *arguments, "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_an_environment_that_became_another_one_is_refused(capsys, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_SIZE", "4")
    line = refused(capsys, "finetune", finished, "--task", ENV, "--out", tmp_path / "run")
    assert "belongs to another configuration" in line
    assert not (tmp_path / "run").exists()


def resuming(folder, *flags):
    return "pretrain", "diayn", "--env", ENV, "--preset", "smoke", "--steps", STEPS, "--out", folder, *flags


def test_a_folder_in_the_way_is_kept(capsys, half_done):
    before = files(half_done)
    assert "add --resume (resume=True) to continue it" in refused(capsys, *resuming(half_done))
    assert files(half_done) == before


@pytest.mark.parametrize("flags", [("--seed", "1"), ("--backbone.width", "8"), ("--objective.learning-rate", "1e-3")])
def test_other_settings_cannot_go_on_with_a_run(capsys, half_done, flags):
    before = files(half_done)
    assert "in the run, " in refused(capsys, *resuming(half_done, "--resume", *flags))
    assert files(half_done) == before


@pytest.mark.parametrize("name", ["arrays.safetensors", "arrays.json"])
def test_a_damaged_checkpoint_is_refused(capsys, half_done, tmp_path, name):
    folder = shutil.copytree(half_done, tmp_path / "copy")
    path = last_of(folder, "checkpoints").parent / name
    path.write_bytes(path.read_bytes()[:-9])
    before = files(folder)
    line = refused(capsys, *resuming(folder, "--resume"))
    assert "damaged" in line
    assert "--force" in line
    assert files(folder) == before


@pytest.mark.parametrize("damage", ["changed", "short", "gone"])
def test_a_damaged_buffer_is_refused(capsys, half_done, tmp_path, damage):
    folder = shutil.copytree(half_done, tmp_path / "copy")
    path = folder / "replay" / "obs.f32"
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        content[100] ^= 1
        path.write_bytes(content if damage == "changed" else content[:-4])
    before = {name: content for name, content in files(folder).items() if name != path}
    assert "damaged" in stopped(capsys, *resuming(folder, "--resume"))[-1]
    assert {name: content for name, content in files(folder).items() if name != path} == before


def test_a_maze_has_no_task_of_another_environment(capsys, tmp_path):
    Run.create(tmp_path / "maze", pretraining("diayn", "maze/square_a", preset="smoke"))
    line = refused(capsys, "finetune", tmp_path / "maze", "--task", ENV, "--out", tmp_path / "run")
    assert "is not a task of the maze square_a: give reach" in line
