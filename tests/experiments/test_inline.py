"""Runs in this process: which come first and which together, what fails, and that a stop is passed on."""

import csv
import json

import jax
import pytest

from skillscape.cli import main
from skillscape.cli.execution import Execution
from skillscape.errors import Interrupted, UserError
from skillscape.experiments import inline
from skillscape.experiments.engine import execute
from skillscape.experiments.grid import Grid, distinct, variant
from skillscape.experiments.inline import InlineExecutor
from skillscape.experiments.results import Results, results_folder
from skillscape.training.files import write_json

TOY = "gym/toys:Toy-v0"
MAZE = "maze/square_a"


def plan(*methods, env=TOY, seeds=(0, 1)):
    return distinct(Grid("grid", tuple(map(variant, methods)), (env,), seeds=seeds, preset="smoke").specs)


@pytest.fixture
def trained(monkeypatch):
    """What was asked to be trained together; runs end at once, but those whose method is ``failing``."""
    batches = []

    def train(specs, runs, callbacks, on_start):
        batches.append([spec.folder for spec in specs])
        if any(spec.label == "icm" and spec.config.seed == 1 for spec in specs):
            raise UserError("it broke.")
        for spec in specs:
            (runs / spec.folder).mkdir(parents=True)
            write_json(runs / spec.folder / "results.json", {"measures": {"return": 1.0}})

    monkeypatch.setattr(inline, "train", train)
    return batches


def carry_out(planned, runs):
    return execute("grid", planned, runs, InlineExecutor(runs), lambda _: None)


def test_what_needs_a_run_comes_right_after_it(trained, tmp_path):
    planned = plan("diayn", "ddpg", "rnd")
    carry_out(planned, tmp_path)
    # Seed by seed, as planned; on the host nothing is trained together.
    assert [folder for batch in trained for folder in batch] == [spec.folder for spec in planned]
    assert {len(batch) for batch in trained} == {1}


def test_seeds_of_one_compiled_program_are_trained_together(trained, tmp_path):
    planned = plan("diayn", "ppo", env=MAZE, seeds=(0, 1, 2))
    carry_out(planned, tmp_path)
    assert [{folder.rpartition("/")[0] for folder in batch} for batch in trained] == [
        {"maze-smoke-2000/diayn-square_a"},
        {"maze-smoke-2000-2000/diayn-square_a-reach"},
        {"maze-smoke-2000/ppo-square_a-reach"},
    ]
    assert {len(batch) for batch in trained} == {3}


@pytest.mark.parametrize("env", [TOY, MAZE])
def test_a_seed_that_fails_holds_back_only_what_needs_it(trained, tmp_path, env):
    planned = plan("icm", "diayn", env=env)
    report = carry_out(planned, tmp_path)
    broken = next(spec.folder for spec in planned if spec.label == "icm" and spec.config.seed == 1)
    assert report.failures[broken] == "it broke."
    assert len(report.failures) == 2
    assert len(report.results) == len(planned) - 2


def test_a_stop_is_passed_on_and_the_results_so_far_are_written(trained, tmp_path, monkeypatch):
    planned = plan("diayn", "ddpg")
    finish = inline.train

    def train(specs, *rest):
        if specs[0].folder == planned[2].folder:
            raise Interrupted
        finish(specs, *rest)

    monkeypatch.setattr(inline, "train", train)
    with pytest.raises(Interrupted):
        carry_out(planned, tmp_path)
    table = json.loads((results_folder(tmp_path, "grid") / "results.json").read_text())
    assert [row["folder"] for row in table["runs"]] == [spec.folder for spec in planned[:2]]


def test_a_failed_run_of_reproduce_is_told_and_nothing_is_drawn(trained, tmp_path, capsys):
    folders = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "urlb", "--methods", "icm", "--tasks", "walker_run", "--seeds", "2", *folders])
    assert stop.value.code == 2
    *_, broken, held_back, last = capsys.readouterr().err.splitlines()
    assert broken == "urlb-compact-200000/icm-walker/seed_1 failed: it broke."
    assert held_back.startswith("urlb-compact-200000-100000/icm-walker_run/seed_1 failed: needs")
    assert last.startswith("skillscape: 2 of 4 runs failed; fix the errors above")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--address", "auto"], "--address needs --on ray"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--runs", "/dev/null/runs"], "choose other --runs"),
    ],
)
def test_mistakes_of_reproduce_are_one_line(capsys, arguments, said):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "maze", "--preset", "smoke", *arguments])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_whole_numbers_are_written_as_people_do(trained, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Execution, "train", lambda self, name, specs, *_: asked.append(specs) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["reproduce", "maze", "--steps", "5e3", "--seeds", "1", "--methods", "sd3"])
    ((spec,),) = asked
    assert spec.config.steps == 5_000


@pytest.mark.slow
def test_where_runs_are_trained_changes_no_number(tmp_path, capsys):
    """Threads over one compiled program, and processes with a core each: the same measures, rows and table."""
    jax.clear_caches()
    tables = []
    for place, more in (("inline", []), ("processes", ["--workers", "2"])):
        folders = ["--runs", str(tmp_path / place / "runs"), "--out", str(tmp_path / place / "out")]
        main(["reproduce", "maze", "--preset", "smoke", "--methods", "diayn", "cic", "--seeds", "2", *folders, *more])
        tables.append((tmp_path / place / "out" / "maze-smoke" / "table.md").read_text())
    assert tables[0] == tables[1]
    specs = plan("diayn", env=MAZE)[:1]
    ours, theirs = (Results.read(specs, tmp_path / place / "runs") for place in ("inline", "processes"))
    assert ours.logs == theirs.logs
    with (tmp_path / "inline" / "runs" / specs[0].folder / "evaluation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["coverage"]) for row in rows] == ours.logs[0]["coverage"]
