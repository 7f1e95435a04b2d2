"""Experiments on tasks: what they run, and what they write; the runs themselves are stood in for."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skillscape import cli
from skillscape.errors import UserError
from skillscape.evaluation.scoreboard import scoreboard
from skillscape.evaluation.scores import expert_scores
from skillscape.experiments.benchmark import Score, scores_of, table
from skillscape.experiments.grid import distinct
from skillscape.experiments.paper.ablation_adaptation import AblationAdaptation
from skillscape.experiments.paper.pixels import Pixels
from skillscape.experiments.paper.robustness import NOISY, Robustness
from skillscape.experiments.paper.urlb import Urlb
from skillscape.experiments.results import Results
from skillscape.training.cost import write_timing
from skillscape.training.files import write_json

TASKS = ["walker_stand", "walker_walk", "walker_run", "walker_flip"]
URLB = Urlb(methods=("ddpg", "diayn"), domains=("walker",), seeds=2, steps=100_000, finetuning_steps=50_000)


def specs(experiment):
    return distinct(experiment.grids()[0].specs)


def results(experiment, values, folder):
    """What the runs of an experiment measured, given scores by label and seed, or by label and task."""
    (grid,) = experiment.grids()
    logs = []
    for spec in grid.specs:
        config = spec.config
        score = values.get((spec.label, config.seed), values.get((spec.label, config.task), 0.0))
        logs.append({"step": [0.0, 10_000.0], "return": [1.0, score], "length": [5.0, 5.0]})
    return grid, Results(grid.specs, folder, tuple(logs))


def analysed(experiment, values, folder):
    grid, found = results(experiment, values, folder / "runs")
    written = experiment.analyse(grid, found, folder / "out", "skillscape reproduce urlb")
    assert all(path.stat().st_size > 0 for path in written)
    return (folder / "out" / "table.md").read_text().splitlines()


SCORES = {("ddpg", 0): 10.0, ("ddpg", 1): 14.0, ("diayn", 0): 30.0, ("diayn", 1): 30.0}


def test_some_tasks_are_enough():
    every = specs(replace(URLB, tasks=("walker_run",)))
    assert len(every) == 2 * (1 + 1 + 1)
    assert {spec.config.task for spec in every} == {None, "walker_run"}


def test_a_fine_tuning_comes_after_its_pre_training():
    every = specs(URLB)
    assert len({spec.folder for spec in every}) == len(every) == 2 * (4 + 1 + 4)
    for index, spec in enumerate(every):
        if spec.needs is not None:
            assert spec.needs in [earlier.folder for earlier in every[:index]]


def test_training_from_scratch_needs_no_pre_training():
    assert {spec.config.phase for spec in specs(URLB) if spec.label == "ddpg"} == {"train"}


def test_the_table_has_means_and_standard_errors(tmp_path):
    lines = analysed(URLB, SCORES, tmp_path)
    assert lines[0].startswith("Return of the last evaluation, mean ± standard error. preset compact: 100,000 steps")
    assert "100,000 steps without reward, then 50,000 with; 2 seeds" in lines[0]
    assert lines[2] == "| | ddpg | diayn |"
    # The standard error of (10, 14) is 2.
    assert lines[4:8] == [f"| {task} | 12 ± 2 | 30 ± 0 |" for task in TASKS]


def test_the_table_ends_with_shares_of_the_expert(tmp_path):
    lines = analysed(URLB, SCORES, tmp_path)
    ours = [(method, task, seed, score) for task in TASKS for (method, seed), score in SCORES.items()]
    iqm = scoreboard(ours).aggregates["diayn", "IQM"]
    (row,) = [line for line in lines[9:] if line.startswith("| diayn |")]
    assert f"{iqm.value:.3f} [{iqm.low:.3f}, {iqm.high:.3f}]" in row


def test_the_costs_of_pre_training_and_of_tasks_are_a_table_where_runs_recorded_them(tmp_path):
    assert not any("seconds" in line for line in analysed(URLB, SCORES, tmp_path / "old"))
    for spec in specs(URLB):
        folder = tmp_path / "runs" / spec.folder
        folder.mkdir(parents=True)
        if spec.label == "diayn":
            parameters = {"backbone": 500, "objective": 0 if spec.config.task else 1_500}
            write_json(folder / "results.json", {"measures": {}, "parameters": parameters})
        write_timing(folder, 2_000.0 if spec.config.task is None else 40.0 + spec.config.seed, 100)
    lines = analysed(URLB, SCORES, tmp_path)
    place = lines.index("| | parameters | seconds per run, pre-training | seconds per run, task |")
    assert lines[place + 2 :] == ["| ddpg | – | – | 40.5 |", "| diayn | 1,500 | 2,000 | 40.5 |"]
    costs = json.loads((tmp_path / "out" / "raw.json").read_text())["costs"]
    assert costs["diayn"]["pre-training"]["parameters"] == {"backbone": 500, "objective": 1_500}
    assert len(costs["ddpg"]["task"]["seconds"]["per_seed"]) == 8


def test_the_benchmarks_of_the_paper():
    (states,), (images,) = Urlb(seeds=1).grids(), Pixels(seeds=1).grids()
    assert len(states.variants) == 14
    assert sum(len(states.tasks_of(domain)) for domain in states.envs) == 12
    assert sum(len(images.tasks_of(domain)) for domain in images.envs) == 8


def test_the_raw_numbers_say_how_they_were_made(tmp_path):
    for spec, commit in zip(specs(URLB), itertools.cycle("ab"), strict=False):
        (tmp_path / "runs" / spec.folder).mkdir(parents=True)
        (tmp_path / "runs" / spec.folder / "versions.json").write_text(json.dumps({"git": commit}))
    analysed(URLB, SCORES, tmp_path)
    raw = json.loads((tmp_path / "out" / "raw.json").read_text())
    assert (raw["command"], raw["preset"], raw["seeds"]) == ("skillscape reproduce urlb", "compact", 2)
    assert (raw["experiment"], raw["pretraining_steps"], raw["finetuning_steps"]) == ("urlb-walker", 100_000, 50_000)
    assert {(row["method"], row["seed"]): row["score"] for row in raw["scores"]} == SCORES
    assert len(raw["scores"]) == 16
    assert raw["versions"] == {"git": ["a", "b"]}, "the commits of the runs, not that of the drawing"
    assert np.isfinite([row["returns"][-1] for row in raw["scores"]]).all()
    assert raw["scores"][0]["steps"] == [0, 10_000]


def test_scores_are_the_last_returns_of_runs_that_learned_a_task(tmp_path):
    _, found = results(URLB, SCORES, tmp_path)
    scores = scores_of(found)
    assert len(scores) == 16
    assert scores[0] == Score("ddpg", "walker_stand", 0, 10.0, [0, 10_000], [1.0, 10.0])


def test_variants_that_differ_in_fine_tuning_share_their_pre_training():
    every = specs(AblationAdaptation(domains=("walker",), seeds=1))
    assert [spec.config.task for spec in every].count(None) == 1
    assert [spec.config.skill for spec in every[1:]] == [*["random"] * 4, *["regress"] * 4, *["controller"] * 4]
    # SD3 fine-tunes a random skill anyway: that run is the one of the other experiments.
    assert {spec.folder for spec in every[:5]} == {
        spec.folder for spec in specs(Urlb(methods=("sd3",), domains=("walker",), seeds=1))
    }
    assert [spec.label for spec in every[1::4]] == ["sd3, random", "sd3, regress", "sd3, controller"]
    assert len({spec.folder for spec in every}) == len(every)


def test_noise_is_a_pre_training_of_its_own():
    every = specs(Robustness(methods=("cic", "ddpg"), domains=("walker",), seeds=1))
    sources = [spec for spec in every if spec.config.phase == "pretrain"]
    assert [spec.config.noise for spec in sources] == [0.0, 0.1]
    assert len({spec.folder for spec in every}) == len(every) == 10 + 4


def test_the_robustness_table_has_what_is_left_after_noise(tmp_path):
    normal = dict.fromkeys(TASKS, 100.0)
    noisy = {**dict.fromkeys(TASKS, 80.0), TASKS[0]: 200.0}
    values = {("sd3", task): normal[task] for task in TASKS} | {(f"sd3{NOISY}", task): noisy[task] for task in TASKS}
    lines = analysed(Robustness(methods=("sd3",), domains=("walker",), seeds=2), values, tmp_path)
    assert "| noisy / normal | sd3 |" in lines
    assert f"| {TASKS[0]} | 200% |" in lines
    assert f"| {TASKS[1]} | 80% |" in lines
    assert "| mean of these | 110% |" in lines
    experts = expert_scores()
    shares = [sum(by_task[task] / experts[task] for task in TASKS) for by_task in (noisy, normal)]
    assert lines[-1] == f"| of the mean share of the expert's score | {shares[0] / shares[1]:.0%} |"


def test_one_seed_has_no_interval(tmp_path):
    assert "[" not in "\n".join(analysed(replace(URLB, seeds=1), SCORES, tmp_path / "one"))
    assert "with 95 % stratified-bootstrap intervals" in "\n".join(analysed(URLB, SCORES, tmp_path / "two"))


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("urlb-walker", replace(URLB, methods=("ddpg", "sd3", "diayn"))),
        (
            "robustness-walker",
            Robustness(("sd3", "diayn"), ("walker",), seeds=1, steps=100_000, finetuning_steps=50_000),
        ),
        ("pixels-walker_stand", Pixels(("dreamer", "sd3"), tasks=("walker_stand",), seeds=1)),
    ],
)
def test_committed_tables_follow_from_their_raw_numbers(name, experiment):
    folder = Path(__file__).parents[2] / "results" / name
    scores = json.loads((folder / "raw.json").read_text())["scores"]
    board = scoreboard((row["method"], row["task"], row["seed"], row["score"]) for row in scores)
    (grid,) = experiment.grids()
    assert grid.name == name
    assert [*table(grid, board), *experiment.more(board)] == (folder / "table.md").read_text().splitlines()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ("dian",)}, "did you mean 'diayn'"),
        ({"domains": ("wlker",)}, "did you mean 'walker'"),
        ({"domains": ("walker", "walker-pixels")}, "State and image domains cannot be compared"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"tasks": ("walker_stnd",)}, "did you mean 'walker_stand'"),
        ({"tasks": ("quadruped_run",)}, "quadruped_run is not a task of walker"),
        ({"tasks": ("walker_run",), "domains": ("walker", "jaco")}, "belongs to the domain jaco"),
        ({"seeds": 0}, "at least one"),
    ],
)
def test_what_does_not_exist_is_refused(change, said):
    with pytest.raises(UserError, match=said):
        replace(URLB, **change).grids()


@pytest.mark.parametrize(
    ("options", "domains", "folder"),
    [
        ({"tasks": ("walker_stand",)}, ("walker-pixels",), "pixels-walker_stand"),
        (
            {"tasks": ("quadruped_run", "walker_run")},
            ("walker-pixels", "quadruped-pixels"),
            "pixels-quadruped_run-walker_run",
        ),
        ({"domains": ("quadruped-pixels",)}, ("quadruped-pixels",), "pixels-quadruped-pixels"),
        ({}, ("walker-pixels", "quadruped-pixels"), "pixels"),
        ({"preset": "smoke"}, ("walker-pixels", "quadruped-pixels"), "pixels-smoke"),
    ],
)
def test_tasks_choose_their_domains(options, domains, folder):
    (grid,) = Pixels(**options, seeds=1).grids()
    assert (grid.envs, grid.name) == (domains, folder)


@pytest.mark.slow
def test_the_command_runs_and_goes_on(tmp_path, capsys):
    arguments = ["reproduce", "urlb", "--preset", "smoke", "--domains", "walker", "--methods", "ddpg", "diayn"]
    arguments += ["--seeds", "1", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    cli.main(arguments)
    first = (tmp_path / "out" / "urlb-walker-smoke" / "table.md").read_text()
    capsys.readouterr()
    cli.main([*arguments, "--workers", "2"])
    assert (tmp_path / "out" / "urlb-walker-smoke" / "table.md").read_text() == first
    told = capsys.readouterr()
    assert "9 of 9 runs are finished already" in told.err
    assert "training" not in told.err
