"""Every file of a run, damaged in many ways: a run then works or says in one sentence why not, and nothing else."""

import json
import random
import shutil
from contextlib import contextmanager

import jax
import pytest

from skillscape.api import evaluate, finetune, load, pretrain
from skillscape.backbones.ppo import PPO
from skillscape.cli import main
from skillscape.errors import Notice, UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.training.callbacks import Callback
from skillscape.training.log import CsvLog
from skillscape.training.policy import Policy
from skillscape.training.versions import versions_of

HOST = "gym/toys:Ending-v0"
MAZE = "maze/square_a"
QUICK, MANY = 5, 150

pytestmark = pytest.mark.filterwarnings(f"ignore::{Notice.__module__}.{Notice.__name__}")


class Killed(Exception):
    """Ends a run between two checkpoints."""


class Kill(Callback):
    """Kills a run when it tells that it is at a step."""

    def __init__(self, step):
        self.step = step

    def on_progress(self, run, step, pace, row):
        if step == self.step:
            raise Killed


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def train(kind, folder, steps, **options):
    """A tiny run in a maze or on the host."""
    if kind == "maze":
        backbone = PPO(episodes=8, minibatches=2, hidden=(8,))
        pretrain(DIAYN(4, hidden=(8,)), MAZE, out=folder, preset="smoke", steps=steps, backbone=backbone, **options)
    else:
        pretrain("diayn", HOST, out=folder, preset="smoke", steps=steps, **options)


STEPS = {"maze": 1600, "host": 1000}
HALF = {"maze": (2000, 1200), "host": (3000, 2000)}
"""Steps of a run that is killed, and the step at which it is."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished run of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    for kind, steps in STEPS.items():
        train(kind, folder / kind, steps)
    return lambda kind: folder / kind


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """The folder of a run of each kind that was killed after its first checkpoint."""
    folder = tmp_path_factory.mktemp("half")
    for kind, (steps, killed) in HALF.items():
        with pytest.raises(Killed):
            train(kind, folder / kind, steps, callbacks=[Kill(killed)])
    return lambda kind: folder / kind


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A fine-tuning that has inferred its skill with a model of its own."""
    folder = tmp_path_factory.mktemp("tuned")
    source = pretrain("aps", HOST, out=folder / "source", preset="smoke", steps=1000)
    return finetune(source, out=folder / "run", steps=1000).folder


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
    # A smaller budget in config.json is one that is raised now: results are then deleted, and written by training.
    before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    try:
        yield damage(path, dice, elsewhere)
    finally:
        for file, content in before.items():
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink(missing_ok=True)
            file.write_bytes(content)


def newest(folder, part="checkpoints"):
    return sorted((folder / part).glob("[0-9]*"))[-1]


def file_of(folder, name):
    """A file of a run; of a folder of steps, the newest."""
    part, _, rest = name.partition("/")
    return newest(folder, part) / rest if part in ("checkpoints", "snapshots") else folder / name


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
        run = load(folder)
        _ = run.results, run.parameters, run.timing
        run.snapshot()
        run.trained_policy()
        run.metrics()
        run.evaluation()
        versions_of([folder])
        Policy.load(folder)

    return read


def resuming(kind, folder, steps):
    def resume():
        train(kind, folder, steps, resume=True, callbacks=[], progress=False)

    return resume


@pytest.fixture
def _no_steps(monkeypatch):
    """Going on with a run prepares all, opens its logs, and takes no step."""

    def only_open_logs(loop, stop, *, fresh, stack):
        for log in ("metrics", "evaluation"):
            with CsvLog(loop._run.folder / f"{log}.csv", -1 if fresh else loop._collector.step):
                pass

    monkeypatch.setattr("skillscape.training.trainer._Loop.to_the_end", only_open_logs)
    monkeypatch.setattr("skillscape.training.trainer.compiled_iteration", lambda *_: lambda *_: None)
    monkeypatch.setattr("skillscape.training.trainer._share", lambda _: None)
    monkeypatch.setattr("skillscape.launch._write_results", lambda _: None)


TOP = ("config.json", "results.json", "timing.json", "versions.json", "metrics.csv", "evaluation.csv")
TREES = [f"{folder}/{name}" for folder in ("skills", "snapshots") for name in ("arrays.json", "arrays.safetensors")]
NUMBERS = pytest.mark.parametrize("number", [QUICK, pytest.param(MANY, marks=pytest.mark.slow)])
KINDS = pytest.mark.parametrize("kind", ["maze", "host"])


def test_every_file_of_a_run_is_damaged_here(whole, half):
    known = {*TOP, *TREES, "checkpoints/arrays.json", "checkpoints/arrays.safetensors"}
    # Pictures and logs for others, which no command reads; what replay does with its files is tested with it.
    others = {"rollouts", "tensorboard", ".lock", "replay"}
    for folder in (whole("maze"), whole("host"), half("maze"), half("host")):
        for path in folder.rglob("*"):
            parts = path.relative_to(folder).parts
            name = f"{parts[0]}/{parts[-1]}" if len(parts) > 1 else parts[0]
            assert path.is_dir() or name in known or parts[0] in others, path


@NUMBERS
@KINDS
@pytest.mark.parametrize("name", [*TOP, *TREES])
@pytest.mark.usefixtures("_no_steps")
def test_a_finished_run_with_a_damaged_file_is_opened_or_refused(whole, tmp_path, kind, name, number):
    folder = whole(kind)
    uses = [opening(folder), resuming(kind, folder, STEPS[kind])]
    survived, refused = check(file_of(folder, name), tmp_path, number, uses)
    assert refused > 0
    assert survived + refused == 2 * number


@NUMBERS
@KINDS
@pytest.mark.parametrize("name", ["arrays.json", "arrays.safetensors"])
@pytest.mark.usefixtures("_no_steps")
def test_a_finished_run_with_a_damaged_checkpoint_goes_on_or_is_refused(whole, tmp_path, kind, name, number):
    folder = whole(kind)
    _, refused = check(newest(folder) / name, tmp_path, number, [resuming(kind, folder, STEPS[kind])])
    assert refused > number / 2


@NUMBERS
@KINDS
@pytest.mark.parametrize(
    "name",
    ["checkpoints/arrays.json", "checkpoints/arrays.safetensors", "config.json", "metrics.csv", "evaluation.csv"],
)
@pytest.mark.usefixtures("_no_steps")
def test_a_run_under_way_with_a_damaged_file_goes_on_or_is_refused(half, tmp_path, kind, name, number):
    folder = half(kind)
    _, refused = check(file_of(folder, name), tmp_path, number, [resuming(kind, folder, HALF[kind][0])])
    assert refused > 0


@NUMBERS
@pytest.mark.parametrize("name", ["model/arrays.json", "model/arrays.safetensors"])
def test_the_model_of_a_fine_tuning_that_is_damaged_is_read_or_refused(tuned, tmp_path, name, number):
    def modelling():
        load(tuned).model()

    _, refused = check(tuned / name, tmp_path, number, [modelling])
    assert refused > number / 2


@KINDS
def test_every_changed_note_of_a_checkpoint_is_damage(half, kind):
    path = newest(half(kind)) / "arrays.json"
    before = path.read_bytes()
    dice = random.Random(0)
    try:
        for _ in range(40):
            values = json.loads(before)
            replace_a_value(values["metadata"], dice)
            if json.dumps(values) == json.dumps(json.loads(before)):
                continue
            path.write_text(json.dumps(values))
            with pytest.raises(UserError, match="damaged"):
                load(half(kind)).newest()
    finally:
        path.write_bytes(before)


# The commands themselves


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("name", [*TOP, *TREES])
def test_commands_with_a_damaged_file(whole, tmp_path, kind, name):
    folder = whole(kind)

    def measuring():
        evaluate(folder)

    def plotting():
        command("plot", folder, "--out", tmp_path / "plots")

    def tuning():
        shutil.rmtree(tmp_path / "tuned", ignore_errors=True)
        finetune(folder, out=tmp_path / "tuned", steps=400 if kind == "maze" else 20, progress=False)

    check(file_of(folder, name), tmp_path, 15, [measuring, plotting, tuning])


def command(*arguments):
    """Run a command in this process; it may end well or be refused."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        if stop.code == 2:
            raise UserError("refused") from stop
        raise


# What follows advice


@KINDS
def test_results_that_were_deleted_are_written_again(whole, kind):
    folder = whole(kind)
    resume = resuming(kind, folder, STEPS[kind])
    before = (folder / "results.json").read_bytes()
    (folder / "results.json").write_text("{")
    with pytest.raises(UserError, match=r"results\.json is damaged: .*delete it and .*--resume"):
        resume()
    (folder / "results.json").unlink()
    resume()
    assert (folder / "results.json").read_bytes() == before


@KINDS
def test_skills_that_were_deleted_are_written_again_with_the_results(whole, tmp_path, kind):
    folder = shutil.copytree(whole(kind), tmp_path / "copy")
    (folder / "results.json").unlink()
    shutil.rmtree(folder / "skills")
    resuming(kind, folder, STEPS[kind])()
    for name in ("arrays.json", "arrays.safetensors"):
        assert (folder / "skills" / name).read_bytes() == (whole(kind) / "skills" / name).read_bytes()


@KINDS
def test_a_log_without_its_last_row_gives_no_results(whole, tmp_path, kind):
    folder = shutil.copytree(whole(kind), tmp_path / "copy")
    (folder / "results.json").unlink()
    rows = (folder / "evaluation.csv").read_bytes().splitlines(keepends=True)
    (folder / "evaluation.csv").write_bytes(b"".join([*rows[:-1], b"x" + rows[-1]]))
    with pytest.raises(UserError, match="has no row of the last step"):
        resuming(kind, folder, STEPS[kind])()
    assert not (folder / "results.json").exists()


def test_plot_says_what_it_leaves_out(whole, tmp_path, capsys):
    folder = shutil.copytree(whole("host"), tmp_path / "copy")
    with (folder / "evaluation.csv").open("ab") as file:
        file.write(b"2000,\xff\r\n")
    main(["plot", str(folder)])
    printed = capsys.readouterr()
    assert str(folder / "plots" / "evaluation.png") in printed.out.splitlines()
    assert printed.err == f"skillscape: {folder}/evaluation.csv is damaged: 1 unreadable row(s) are skipped.\n"
