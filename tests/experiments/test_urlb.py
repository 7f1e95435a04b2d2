"""The URLB benchmark: what it runs in which order, and what it writes; the runs themselves are stood in for."""

import json
from dataclasses import replace

import numpy as np
import pytest

from skillscape import cli
from skillscape.errors import UserError
from skillscape.experiments import urlb
from skillscape.experiments.urlb import Benchmark, Part, Score, parts, run_benchmark, score_table, write_benchmark

BENCHMARK = Benchmark(
    name="urlb-walker",
    methods=("ddpg", "diayn"),
    domains=("walker",),
    seeds=2,
    preset="compact",
    steps=100_000,
    finetuning_steps=50_000,
    command="skillscape reproduce urlb",
)
TASKS = ["walker_stand", "walker_walk", "walker_run", "walker_flip"]


def some_scores():
    values = {("ddpg", 0): 10.0, ("ddpg", 1): 14.0, ("diayn", 0): 30.0, ("diayn", 1): 30.0}
    return [
        Score(method, task, seed, value, [0, 10_000], [1.0, value])
        for task in TASKS
        for (method, seed), value in values.items()
    ]


def test_a_fine_tuning_comes_after_its_pre_training():
    every = list(parts(BENCHMARK))
    assert len(every) == len(set(every)) == 2 * (4 + 1 + 4)
    for index, part in enumerate(every):
        if part.method != "ddpg" and part.task is not None:
            assert part._replace(task=None) in every[:index]


def test_training_from_scratch_needs_no_pre_training():
    assert Part("ddpg", "walker", None, 0) not in parts(BENCHMARK)


def test_every_run_has_a_folder_of_its_own(tmp_path):
    folders = [part.folder(tmp_path) for part in parts(BENCHMARK)]
    assert len(set(folders)) == len(folders)


def test_finished_runs_are_skipped_and_the_rest_is_counted(tmp_path, monkeypatch):
    every = list(parts(BENCHMARK))
    done = every[:5]
    for part in done:
        part.folder(tmp_path).mkdir(parents=True)
        (part.folder(tmp_path) / "results.json").write_text("{}")
    announced = []
    monkeypatch.setattr(urlb, "_train", lambda *_: None)
    monkeypatch.setattr(urlb, "_score", lambda method, task, _: Score(method, task, 0, 0.0, [0], [0.0]))
    scores = run_benchmark(BENCHMARK, tmp_path, lambda *_: None, announced.append)
    assert len(announced) == len(every) - len(done)
    assert announced[0].startswith(f"run 6 of {len(every)}: {every[5].label}")
    left = sum(100_000 if part.task is None else 50_000 for part in every[5:])
    assert f"({left:,} environment steps left in all)" in announced[0]
    assert len(scores) == 16


def test_the_table_has_means_and_standard_errors():
    lines = score_table(BENCHMARK, some_scores()).splitlines()
    assert "100,000 steps without reward, then 50,000 with; 2 seeds" in lines[0]
    assert lines[2] == "| | ddpg | diayn |"
    # The standard error of (10, 14) is 2.
    assert lines[4:] == [f"| {task} | 12 ± 2 | 30 ± 0 |" for task in TASKS]


def test_the_raw_numbers_say_how_they_were_made(tmp_path):
    written = write_benchmark(BENCHMARK, some_scores(), tmp_path)
    assert all(path.stat().st_size > 0 for path in written)
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert (raw["command"], raw["preset"], raw["seeds"]) == ("skillscape reproduce urlb", "compact", 2)
    assert (raw["pretraining_steps"], raw["finetuning_steps"]) == (100_000, 50_000)
    assert [row["score"] for row in raw["scores"]] == [score.score for score in some_scores()]
    assert np.isfinite([row["returns"][-1] for row in raw["scores"]]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ("dian",)}, "did you mean 'diayn'"),
        ({"domains": ("wlker",)}, "did you mean 'walker'"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"seeds": 0}, "at least one"),
        ({"methods": ()}, "at least one"),
    ],
)
def test_what_does_not_exist_is_refused(change, said):
    with pytest.raises(UserError, match=said):
        replace(BENCHMARK, **change).check()


@pytest.mark.slow
def test_the_command_runs_and_goes_on(tmp_path, capsys):
    arguments = ["reproduce", "urlb", "--preset", "smoke", "--domains", "walker", "--methods", "ddpg", "diayn"]
    arguments += ["--seeds", "1", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    cli.main(arguments)
    first = (tmp_path / "out" / "urlb-walker" / "table.md").read_text()
    cli.main(arguments)
    assert (tmp_path / "out" / "urlb-walker" / "table.md").read_text() == first
    assert "run 1 of" not in capsys.readouterr().err.split("is complete")[1]
