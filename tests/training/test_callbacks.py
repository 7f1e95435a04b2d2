"""Who hears of a run: TensorBoard, Weights & Biases, and callbacks of one's own."""

import struct
import sys
from types import ModuleType

import pytest
from full_disk import fill
from laid_out import configuration
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from skillscape.cli import main
from skillscape.errors import Notice, UserError
from skillscape.training.callbacks import LOGGERS, Callback, TensorBoard, WeightsAndBiases, calling
from skillscape.training.run import Run


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", configuration())


# Callbacks


class Listener(Callback):
    """Keeps what it hears, and may fail when a run begins."""

    def __init__(self, heard, name, fails=False):
        self.heard, self.name, self.fails = heard, name, fails

    def on_start(self, run, step):
        if self.fails:
            raise UserError("no")
        self.heard.append((self.name, "start", step))

    def on_log(self, run, log, step, row):
        self.heard.append((self.name, log, step, row))

    def on_progress(self, run, step, pace, row):
        self.heard.append((self.name, "progress", step, pace, row))

    def on_end(self, run):
        self.heard.append((self.name, "end"))


def test_everyone_hears_everything_in_order(run):
    heard = []
    with calling([Listener(heard, "a"), Listener(heard, "b")], run, 40) as callbacks:
        callbacks.log("metrics", 50, {"loss": 1.0})
        callbacks.progress(50, "fast", {"loss": 1.0})
    assert [entry[:3] for entry in heard if entry[0] == "a"] == [
        ("a", "start", 40),
        ("a", "metrics", 50),
        ("a", "progress", 50),
        ("a", "end"),
    ]
    assert [entry[1:] for entry in heard if entry[0] == "b"] == [entry[1:] for entry in heard if entry[0] == "a"]


def test_a_callback_that_wants_to_hear_nothing_overrides_nothing(run):
    with calling([Callback()], run, 0) as callbacks:
        callbacks.log("evaluation", 0, {})
        callbacks.progress(0, "", {})


def test_those_that_have_begun_hear_of_the_end_whatever_happens(run):
    heard = []
    with pytest.raises(KeyboardInterrupt), calling([Listener(heard, "a")], run, 0):
        raise KeyboardInterrupt
    assert heard == [("a", "start", 0), ("a", "end")]
    heard.clear()
    with pytest.raises(UserError), calling([Listener(heard, "a"), Listener(heard, "b", fails=True)], run, 0):
        pass
    assert heard == [("a", "start", 0), ("a", "end")]


# TensorBoard


def scalars(folder):
    """All (tag, step, value) of the TensorBoard files in a folder."""
    return [(value.tag, event.step, value.simple_value) for event in events(folder) for value in event.summary.value]


def events(folder):
    """The events of the TensorBoard files in a folder, each of which has to be a chain of whole records."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (length, check) = struct.unpack_from("<QI", content, at)
            assert check == masked_crc32c(content[at : at + 8])
            found.append(Event.FromString(content[at + 12 : at + 12 + length]))
            at += length + 16
        assert at == len(content)
    return found


def test_both_logs_of_a_run_are_in_one_folder(run):
    with calling([TensorBoard()], run, 0) as callbacks:
        callbacks.log("metrics", 10, {"loss": 0.5, "steps_per_second": 12.0})
        callbacks.log("evaluation", 10, {"coverage": 0.25})
        callbacks.log("metrics", 20, {"loss": 0.75})
    assert sorted(scalars(run.folder)) == [
        ("evaluation/coverage", 10, 0.25),
        ("metrics/loss", 10, 0.5),
        ("metrics/loss", 20, 0.75),
        ("metrics/steps_per_second", 10, 12.0),
    ]


def test_several_runs_have_folders_of_their_own(tmp_path):
    runs = [Run.create(tmp_path / f"seed_{seed}", configuration(seed=seed)) for seed in range(2)]
    board = TensorBoard()
    with calling([board], runs[0], 0) as first, calling([board], runs[1], 0) as second:
        first.log("metrics", 10, {"loss": 0.5})
        second.log("metrics", 10, {"loss": 0.25})
    assert [scalars(run.folder) for run in runs] == [[("metrics/loss", 10, 0.5)], [("metrics/loss", 10, 0.25)]]


def test_events_of_work_that_was_lost_are_to_be_forgotten(run):
    for begin, steps in ((0, [10, 20]), (10, [20])):
        with calling([TensorBoard()], run, begin) as callbacks:
            for step in steps:
                callbacks.log("metrics", step, {"loss": 0.5})
    marks = [event.step for event in events(run.folder) if event.HasField("session_log")]
    assert marks == [11]
    assert [step for tag, step, _ in scalars(run.folder) if tag == "metrics/loss"] == [10, 20, 20]


def test_a_full_disk_costs_tensorboard_and_nothing_else(run):
    with calling([TensorBoard()], run, 0) as callbacks:
        callbacks.log("metrics", 10, {"loss": 0.5})
        fill("tfevents")
        with pytest.warns(Notice, match=r"No space left on device.*continues without TensorBoard"):
            callbacks.log("metrics", 20, {"loss": 0.75})
        for step in range(30, 200, 10):
            callbacks.log("metrics", step, {"loss": 0.75})
    assert scalars(run.folder) == [("metrics/loss", 10, 0.5)]


def test_a_folder_that_tensorboard_cannot_have_costs_tensorboard_alone(run):
    (run.folder / "tensorboard").write_text("in the way")
    with pytest.warns(Notice, match="continues without TensorBoard"), calling([TensorBoard()], run, 0) as callbacks:
        callbacks.log("metrics", 10, {"loss": 0.5})


# Weights & Biases


class Experiment:
    """A run of theirs."""

    def __init__(self, options):
        self.options, self.rows, self.finished = options, [], False

    def log(self, row):
        assert not self.finished
        self.rows.append(row)

    def finish(self):
        self.finished = True


@pytest.fixture
def wandb(monkeypatch):
    """Stands in for the package; the runs that were begun are in ``wandb.runs``."""
    module = ModuleType("wandb")
    module.runs = []

    def init(**options):
        module.runs.append(Experiment(options))
        return module.runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_rows_and_the_configuration_go_to_weights_and_biases(run, wandb):
    with calling([WeightsAndBiases("thesis")], run, 0) as callbacks:
        callbacks.log("metrics", 10, {"loss": 0.5})
        callbacks.log("evaluation", 10, {"coverage": 0.25})
    (made,) = wandb.runs
    assert made.rows == [{"metrics/loss": 0.5, "step": 10}, {"evaluation/coverage": 0.25, "step": 10}]
    assert made.finished
    assert made.options["project"] == "thesis"
    assert made.options["name"] == "run"
    assert made.options["group"] == "diayn maze/square_a"
    assert made.options["config"] == run.config.to_json()
    assert made.options["resume"] == "allow"


def test_a_run_that_goes_on_goes_on_there_too(run, wandb, tmp_path):
    other = Run.create(tmp_path / "other", configuration())
    for each in (run, run, other):
        with calling([WeightsAndBiases()], each, 0):
            pass
    first, again, another = (made.options["id"] for made in wandb.runs)
    assert first == again != another
    assert len(first) <= 64
    assert "/" not in first


def test_what_they_cannot_begin_is_one_sentence(run, wandb):
    def refuse(**_):
        raise ConnectionError("no\n network")

    wandb.init = refuse
    with pytest.raises(UserError) as caught, calling([WeightsAndBiases()], run, 0):
        pass
    assert str(caught.value) == (
        "--log wandb cannot start a run (ConnectionError: no network); run `wandb login`, or leave it out."
    )


def test_without_the_package_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        UserError, match=r"--log wandb needs the package wandb; run `pip install 'skillscape\[wandb\]'`"
    ):
        WeightsAndBiases()


# The command line


SMOKE = ("pretrain", "diayn", "--preset", "smoke", "--steps", "400", "--out")


@pytest.fixture
def heard(monkeypatch):
    """Which callbacks a command trains with; nothing is trained."""
    found = []
    monkeypatch.setattr(
        "skillscape.launch.train", lambda runs, first, evaluators, callbacks, **_: found.append(callbacks)
    )
    return found


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        ("", ["TensorBoard", "Progress"]),
        ("--log tensorboard", ["TensorBoard", "Progress"]),
        ("--log wandb", ["WeightsAndBiases", "Progress"]),
        ("--log tensorboard wandb", ["TensorBoard", "WeightsAndBiases", "Progress"]),
        ("--log", ["Progress"]),
    ],
)
@pytest.mark.usefixtures("wandb")
def test_the_command_line_says_who_hears_of_a_run(tmp_path, heard, flags, kinds):
    main([*SMOKE, str(tmp_path / "run"), *flags.split()])
    assert [type(callback).__name__ for callback in heard[0]] == kinds


def test_a_logger_that_is_missing_or_unknown_is_one_line_and_no_folder(tmp_path, heard, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)
    for name, answer in (
        ("wandb", "skillscape: --log wandb needs the package wandb; run `pip install 'skillscape[wandb]'`."),
        ("wandbb", "skillscape: There is no logger 'wandbb': did you mean 'wandb'? There are tensorboard, wandb."),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*SMOKE, str(tmp_path / "run"), "--log", name])
        assert stop.value.code == 2
        assert capsys.readouterr().err == f"{answer}\n"
    assert not (tmp_path / "run").exists()
    assert not heard


def test_what_the_command_line_offers_is_listed():
    assert dict(LOGGERS) == {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def test_a_trained_run_tells_weights_and_biases_its_rows(tmp_path, wandb):
    main([*SMOKE, str(tmp_path / "run"), "--log", "wandb"])
    (made,) = wandb.runs
    assert made.finished
    assert [row["step"] for row in made.rows] == [0, 400, 400]
    rows = {name for row in made.rows for name in row}
    assert {"metrics/reward", "metrics/steps_per_second", "evaluation/coverage"} <= rows
    assert not (tmp_path / "run" / "tensorboard").exists()
    # Wall-clock times stay out of the tables: a run that was resumed has those of one that was not.
    assert "steps_per_second" not in Run(tmp_path / "run").metrics()
