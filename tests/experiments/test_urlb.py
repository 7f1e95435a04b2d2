"""The URLB benchmark: what it runs in which order, and what it writes; the runs themselves are stood in for."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from skillscape import cli
from skillscape.errors import UserError
from skillscape.evaluation.scoreboard import scoreboard
from skillscape.evaluation.scores import expert_scores
from skillscape.experiments import urlb
from skillscape.experiments.urlb import (
    BENCHMARKS,
    NOISY,
    Benchmark,
    Part,
    Score,
    Variant,
    methods_compared,
    noise_compared,
    parts,
    run_benchmark,
    score_table,
    skills_compared,
    tasks_in,
    write_benchmark,
)

BENCHMARK = Benchmark(
    name="urlb-walker",
    variants=methods_compared(("ddpg", "diayn")),
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


def test_some_tasks_are_enough():
    every = list(parts(replace(BENCHMARK, tasks=("walker_run",))))
    assert len(every) == 2 * (1 + 1 + 1)
    assert {part.task for part in every} == {None, "walker_run"}


def test_a_fine_tuning_comes_after_its_pre_training():
    every = list(parts(BENCHMARK))
    assert len(every) == len(set(every)) == 2 * (4 + 1 + 4)
    for index, part in enumerate(every):
        if part.variant.method != "ddpg" and part.task is not None:
            assert part._replace(task=None) in every[:index]


def test_training_from_scratch_needs_no_pre_training():
    assert Part(Variant("ddpg", "ddpg"), "walker", None, 0) not in parts(BENCHMARK)


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
    assert f"0/{left:,} steps" in announced[0]
    # Later parts tell how long the rest will take, from the pace so far.
    assert announced[-1].endswith(" left in all")
    assert "– left" not in announced[-1]
    assert len(scores) == 16


def test_the_table_has_means_and_standard_errors():
    lines = score_table(BENCHMARK, some_scores()).splitlines()
    assert "100,000 steps without reward, then 50,000 with; 2 seeds" in lines[0]
    assert lines[2] == "| | ddpg | diayn |"
    # The standard error of (10, 14) is 2.
    assert lines[4:8] == [f"| {task} | 12 ± 2 | 30 ± 0 |" for task in TASKS]


def test_the_table_ends_with_shares_of_the_expert():
    lines = score_table(BENCHMARK, some_scores()).splitlines()
    ours = [(score.method, score.task, score.seed, score.score) for score in some_scores()]
    iqm = scoreboard(ours).aggregates["diayn", "IQM"]
    (row,) = [line for line in lines[9:] if line.startswith("| diayn |")]
    assert f"{iqm.value:.3f} [{iqm.low:.3f}, {iqm.high:.3f}]" in row


def test_the_benchmarks_of_the_paper():
    assert len(BENCHMARKS["urlb"].methods) == 14
    assert sum(len(tasks_in(domain)) for domain in BENCHMARKS["urlb"].domains) == 12
    assert sum(len(tasks_in(domain)) for domain in BENCHMARKS["pixels"].domains) == 8


def test_the_raw_numbers_say_how_they_were_made(tmp_path):
    runs = tmp_path / "runs"
    for part, commit in zip(parts(BENCHMARK), itertools.cycle("ab"), strict=False):
        part.folder(runs).mkdir(parents=True)
        (part.folder(runs) / "versions.json").write_text(json.dumps({"git": commit}))
    written = write_benchmark(BENCHMARK, some_scores(), runs, tmp_path)
    assert all(path.stat().st_size > 0 for path in written)
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert (raw["command"], raw["preset"], raw["seeds"]) == ("skillscape reproduce urlb", "compact", 2)
    assert (raw["pretraining_steps"], raw["finetuning_steps"]) == (100_000, 50_000)
    assert [row["score"] for row in raw["scores"]] == [score.score for score in some_scores()]
    assert raw["versions"] == {"git": ["a", "b"]}, "the commits of the runs, not that of the drawing"
    assert np.isfinite([row["returns"][-1] for row in raw["scores"]]).all()


def test_variants_that_differ_in_fine_tuning_share_their_pre_training(tmp_path):
    every = list(parts(replace(BENCHMARK, variants=skills_compared(("sd3",)), seeds=1)))
    assert [part.task for part in every].count(None) == 1
    # SD3 fine-tunes a random skill anyway: that run is the one of the other experiments.
    assert [part.variant.skill for part in every[1:]] == [*[None] * 4, *["regress"] * 4, *["controller"] * 4]
    assert [part.variant.label for part in every[1::4]] == ["sd3, random", "sd3, regress", "sd3, controller"]
    assert len({part.folder(tmp_path) for part in every}) == len(every)


def test_noise_is_a_pre_training_of_its_own(tmp_path):
    every = list(parts(replace(BENCHMARK, variants=noise_compared(("cic",)), seeds=1)))
    sources = [part for part in every if part.task is None]
    assert [part.variant.noise for part in sources] == [0.0, 0.1]
    assert len({part.folder(tmp_path) for part in every}) == len(every) == 10


def returns(values, seeds):
    """Long rows of a method → task → score, the same for all seeds."""
    return [
        Score(label, task, seed, score, [0], [score])
        for task in TASKS
        for label, by_task in values.items()
        for seed in seeds
        for score in [by_task[task]]
    ]


def test_the_robustness_table_has_what_is_left_after_noise():
    benchmark = replace(BENCHMARK, name="robustness-walker", variants=noise_compared(("sd3",)))
    normal = dict.fromkeys(TASKS, 100.0)
    noisy = {**dict.fromkeys(TASKS, 80.0), TASKS[0]: 200.0}
    lines = score_table(benchmark, returns({"sd3": normal, f"sd3{NOISY}": noisy}, (0, 1))).splitlines()
    assert f"| {TASKS[0]} | 200% |" in lines
    assert f"| {TASKS[1]} | 80% |" in lines
    assert "| mean of these | 110% |" in lines
    experts = expert_scores()
    shares = [sum(by_task[task] / experts[task] for task in TASKS) for by_task in (noisy, normal)]
    assert lines[-1] == f"| of the mean share of the expert's score | {shares[0] / shares[1]:.0%} |"


def test_one_seed_has_no_interval():
    values = {"sd3": dict.fromkeys(TASKS, 100.0)}
    assert "[" not in score_table(BENCHMARK, returns(values, (0,)))
    assert "with 95 % stratified-bootstrap intervals" in score_table(BENCHMARK, returns(values, (0, 1)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variants": methods_compared(("dian",))}, "did you mean 'diayn'"),
        ({"domains": ("wlker",)}, "did you mean 'walker'"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"tasks": ("walker_stnd",)}, "did you mean 'walker_stand'"),
        ({"tasks": ("quadruped_run",)}, "quadruped_run is not a task of walker"),
        ({"tasks": ("walker_run",), "domains": ("walker", "jaco")}, "one of jaco"),
        ({"seeds": 0}, "at least one"),
        ({"variants": ()}, "at least one"),
    ],
)
def test_what_does_not_exist_is_refused(change, said):
    with pytest.raises(UserError, match=said):
        replace(BENCHMARK, **change).check()


@pytest.mark.parametrize(
    ("arguments", "domains", "folder"),
    [
        (["--tasks", "walker_stand"], ("walker-pixels",), "pixels-walker_stand"),
        (
            ["--tasks", "quadruped_run", "walker_run"],
            ("walker-pixels", "quadruped-pixels"),
            "pixels-quadruped_run-walker_run",
        ),
        (["--domains", "quadruped-pixels"], ("quadruped-pixels",), "pixels-quadruped-pixels"),
        ([], ("walker-pixels", "quadruped-pixels"), "pixels"),
    ],
)
def test_tasks_choose_their_domains(monkeypatch, tmp_path, arguments, domains, folder):
    asked = []

    def stop(benchmark, runs, *_):
        asked.append((benchmark, runs))
        raise UserError("far enough")

    monkeypatch.setattr(urlb, "run_benchmark", stop)
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "pixels", *arguments, "--runs", str(tmp_path)])
    (benchmark, _), *_ = asked
    assert benchmark.domains == domains
    assert benchmark.name == folder


@pytest.mark.slow
def test_the_command_runs_and_goes_on(tmp_path, capsys):
    arguments = ["reproduce", "urlb", "--preset", "smoke", "--domains", "walker", "--methods", "ddpg", "diayn"]
    arguments += ["--seeds", "1", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    cli.main(arguments)
    first = (tmp_path / "out" / "urlb-walker-smoke" / "table.md").read_text()
    cli.main(arguments)
    assert (tmp_path / "out" / "urlb-walker-smoke" / "table.md").read_text() == first
    assert "run 1 of" not in capsys.readouterr().err.split("is complete")[1]
