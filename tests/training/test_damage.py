"""Every file of a run, damaged in many ways: a run then works or says in one sentence why not, and nothing else."""

import json
import random
import shutil
from contextlib import contextmanager

import jax
import pytest

from skillscape.api import (
    evaluate,
    finetune,
    is_job,
    load,
    load_jobs,
    pretrain,
    skill_returns,
)
from skillscape.backbones.ppo import PPO
from skillscape.cli import main
from skillscape.errors import Notice, UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.training import hosted
from skillscape.training.log import read_metrics
from skillscape.training.runs import versions_of

HOST = "gym/toys:Ending-v0"
MAZE_SETTINGS = {"objective": DIAYN(4, (8,)), "backbone": PPO(episodes=8, minibatches=2, hidden=(8,))}
QUICK, MANY = 5, 150

pytestmark = pytest.mark.filterwarnings(f"ignore::{Notice.__module__}.{Notice.__name__}")


class Killed(Exception):
    """Ends a run between two checkpoints."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maze") / "run"
    train_maze(folder)
    return folder


def train_maze(folder, **options):
    pretrain("diayn", out=folder, preset="smoke", steps=1600, **MAZE_SETTINGS, **options)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host") / "run"
    train_host(folder)
    return folder


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A run on the host that was killed after its first checkpoint."""
    folder = tmp_path_factory.mktemp("half") / "run"

    def kill(run, step, pace, metrics):
        if step == 2000:
            raise Killed

    with pytest.raises(Killed):
        train_host(folder, steps=3000, on_progress=kill)
    return folder


def train_host(folder, steps=1000, **options):
    pretrain("diayn", HOST, out=folder, preset="smoke", steps=steps, **options)


# Ways to damage a file


VALUES = (
    *(None, True, 0, -1, -(10**9), 10**9, 10**25, 10**45, 0.5, -2.5, 1e300, float("nan"), float("inf")),
    *("", "text", "7", "\ud800", "a\0b", "../../..", [], {}, [[[]]], {"a": {"a": None}}, [0] * 1000),
)


def replace_a_value(values, dice):
    """Walk down from the top and put something else at the end of the way."""
    at = values
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = dice.choice(keys)
        below = at[key]
        if isinstance(below, dict | list) and below and dice.random() < 0.85:
            at = below
            continue
        if dice.random() < 0.1:
            del at[key]
        else:
            at[key] = dice.choice(VALUES)
        return values


def damage(path, dice, elsewhere):
    """Change the file; ``elsewhere`` is a folder outside of the run."""
    content = bytearray(path.read_bytes())
    ways = ["cut", "flip", "insert", "empty", "double", "nest", "delete", "link", "folder"]
    content = content or bytearray(b"step,loss\r\n")
    way = "value" if path.suffix == ".json" and dice.random() < 0.6 else dice.choice([*ways[:3] * 3, *ways[3:]])
    place = dice.randrange(len(content) + 1)
    if way == "value":
        content = json.dumps(replace_a_value(json.loads(content), dice)).encode()
    elif way == "cut":
        content = content[:place]
    elif way == "flip":
        for _ in range(dice.choice([1, 1, 5])):
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    elif way == "insert":
        content[place:place] = dice.choice(
            [b"\0", b"\xff\xfe", b",", b'"', b"\n", b"9" * 5000, b"[" * 50, b"-", b"1e999"]
        )
    elif way == "empty":
        content = b""
    elif way == "double":
        content = content * 2
    elif way == "nest":
        content = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    path.unlink()
    if way == "link":
        target = elsewhere / "target"
        target.write_bytes(content)
        path.symlink_to(target)
    elif way == "folder":
        path.mkdir()
    elif way != "delete":
        path.write_bytes(content)
    return way


@contextmanager
def damaged(path, dice, elsewhere):
    before = path.read_bytes()
    try:
        yield damage(path, dice, elsewhere)
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(before)


def newest(folder, part="checkpoints"):
    return sorted((folder / part).glob("[0-9]*"))[-1]


def check(path, tmp_path, number, uses):
    """Damage a file in so many ways and use the run each time; tells how many ways were survived and refused."""
    survived = refused = 0
    for seed in range(number):
        with damaged(path, random.Random(f"{path.name} {seed}"), tmp_path) as way:
            for use in uses:
                try:
                    use()
                    survived += 1
                except UserError as error:
                    refused += 1 if "\n" not in str(error) else 0
                except Exception as error:
                    raise AssertionError(f"{path.name}, seed {seed}, {way}: {use.__name__} raised {error!r}") from error
    return survived, refused


def opening(folder):
    """What the commands read of a finished run."""

    def read():
        runs = load_jobs(folder) if is_job(folder) else load(folder)
        for run in runs:
            _ = run.results
            _ = run.snapshot() if is_job(folder) else run.agent()
        versions_of([folder])
        for log in ("metrics", "evaluation"):
            read_metrics(folder / f"{log}.csv")

    return read


def resuming_maze(folder):
    def resume():
        train_maze(folder, resume=True)

    return resume


def resuming_host(folder, steps):
    def resume():
        train_host(folder, steps, resume=True)

    return resume


@pytest.fixture
def _no_steps(monkeypatch):
    """Going on with a run prepares all and takes no step."""
    monkeypatch.setattr(hosted._Loop, "to_the_end", lambda *_: None)
    monkeypatch.setattr("skillscape.api.train_all", lambda *_arguments, **_options: None)
    monkeypatch.setattr("skillscape.api._write_job_results", lambda _run: None)
    monkeypatch.setattr("skillscape.api._write_results", lambda _run: None)


TOP = ("config.json", "results.json", "versions.json", "metrics.csv", "evaluation.csv")
NUMBERS = pytest.mark.parametrize("number", [QUICK, pytest.param(MANY, marks=pytest.mark.slow)])


@NUMBERS
@pytest.mark.parametrize("name", [*TOP, "skills/arrays.json", "skills/arrays.safetensors"])
@pytest.mark.usefixtures("_no_steps")
def test_a_maze_run_with_a_damaged_file_is_opened_or_refused(maze, tmp_path, name, number):
    survived, refused = check(maze / name, tmp_path, number, [opening(maze), resuming_maze(maze)])
    assert refused > 0
    assert survived + refused == 2 * number


@NUMBERS
@pytest.mark.parametrize("name", ["arrays.json", "arrays.safetensors"])
@pytest.mark.usefixtures("_no_steps")
def test_a_maze_run_with_a_damaged_checkpoint_goes_on_or_is_refused(maze, tmp_path, name, number):
    _, refused = check(newest(maze) / name, tmp_path, number, [resuming_maze(maze)])
    assert refused > number / 2


@NUMBERS
@pytest.mark.parametrize("name", [*TOP, "snapshots"])
@pytest.mark.usefixtures("_no_steps")
def test_a_host_run_with_a_damaged_file_is_opened_or_refused(host, tmp_path, name, number):
    path = newest(host, name) / "arrays.json" if name == "snapshots" else host / name
    survived, refused = check(path, tmp_path, number, [opening(host), resuming_host(host, 1000)])
    assert refused > 0
    assert survived + refused == 2 * number


@NUMBERS
@pytest.mark.parametrize("name", ["arrays.json", "config.json", "metrics.csv", "evaluation.csv"])
@pytest.mark.usefixtures("_no_steps")
def test_a_host_run_with_a_damaged_file_goes_on_or_is_refused(half, tmp_path, name, number):
    path = newest(half) / name if name == "arrays.json" else half / name
    _, refused = check(path, tmp_path, number, [resuming_host(half, 3000)])
    assert refused > 0


def test_every_changed_note_of_a_checkpoint_is_damage(half):
    path = newest(half) / "arrays.json"
    before = path.read_bytes()
    dice = random.Random(0)
    try:
        for _ in range(40):
            values = json.loads(before)
            replace_a_value(values["notes"], dice)
            if json.dumps(values) == json.dumps(json.loads(before)):
                continue
            path.write_text(json.dumps(values))
            with pytest.raises(UserError, match="damaged"):
                load_jobs(half)[0].newest()
    finally:
        path.write_bytes(before)


# The commands themselves


@pytest.mark.slow
@pytest.mark.parametrize("name", TOP)
def test_commands_of_a_maze_run_with_a_damaged_file(maze, tmp_path, name):
    def measuring():
        evaluate(load(maze)[0])

    def plotting():
        command("plot", maze, "--out", tmp_path / "plots")

    check(maze / name, tmp_path, 20, [measuring, plotting])


@pytest.mark.slow
@pytest.mark.parametrize("name", TOP)
def test_commands_of_a_host_run_with_a_damaged_file(host, tmp_path, name):
    def measuring():
        skill_returns(host)

    def plotting():
        command("plot", host, "--out", tmp_path / "plots")

    def tuning():
        shutil.rmtree(tmp_path / "tuned", ignore_errors=True)
        finetune(host, HOST, out=tmp_path / "tuned", steps=20)

    check(host / name, tmp_path, 15, [measuring, plotting, tuning])


def command(*arguments):
    """Run a command in this process; it may end well or be refused."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        if stop.code == 2:
            raise UserError("refused") from stop
        raise


# What follows advice


def test_results_that_were_deleted_are_written_again(maze, host):
    for folder, resume in ((maze, resuming_maze(maze)), (host, resuming_host(host, 1000))):
        before = (folder / "results.json").read_bytes()
        (folder / "results.json").write_text("{")
        with pytest.raises(UserError, match=r"results\.json is damaged: .*delete it and .*--resume"):
            resume()
        (folder / "results.json").unlink()
        resume()
        assert (folder / "results.json").read_bytes() == before


def test_a_log_without_its_last_row_gives_no_results(host, tmp_path):
    folder = shutil.copytree(host, tmp_path / "copy")
    (folder / "results.json").unlink()
    rows = (folder / "evaluation.csv").read_bytes().splitlines(keepends=True)
    (folder / "evaluation.csv").write_bytes(b"".join([*rows[:-1], b"x" + rows[-1]]))
    with pytest.raises(UserError, match="has no row of the last step"):
        train_host(folder, resume=True)
    assert not (folder / "results.json").exists()


def test_plot_says_what_it_leaves_out(host, tmp_path, capsys):
    folder = shutil.copytree(host, tmp_path / "copy")
    with (folder / "evaluation.csv").open("ab") as file:
        file.write(b"2000,\xff\r\n")
    main(["plot", str(folder)])
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [str(folder / "plots" / "evaluation.png")]
    assert (
        printed.err == f"skillscape: {folder}/evaluation.csv is damaged: 1 row(s) that cannot be read are left out.\n"
    )
