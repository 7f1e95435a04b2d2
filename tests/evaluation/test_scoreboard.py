"""Score rows in, tables out: the tables agree with the statistics behind them."""

import json
import subprocess
import sys

import numpy as np
import pytest

import skillscape
from skillscape.errors import UserError
from skillscape.evaluation.aggregate import STATISTICS, estimate, performance_profile
from skillscape.evaluation.scoreboard import THRESHOLDS, complete_rows, scoreboard
from skillscape.evaluation.scores import ScoreRow, expert_scores, matrices, normalise, published_aggregates

TASKS = ("walker_walk", "walker_run", "quadruped_walk")


def some_rows(methods=("sd3", "ddpg"), seeds=4):
    generator = np.random.default_rng(0)
    return [
        (method, task, seed, float(generator.uniform(100, 900)))
        for method in methods
        for task in TASKS
        for seed in range(seeds)
    ]


def test_plain_tuples_become_every_table():
    rows = some_rows()
    board = scoreboard(rows)
    scores = matrices(normalise(ScoreRow(*row) for row in rows))
    assert board.methods == ("sd3", "ddpg")
    assert board.tasks == TASKS
    assert board.cells["sd3", "walker_walk"].mean == pytest.approx(np.mean([row[3] for row in rows[:4]]))
    assert board.cells["sd3", "walker_walk"].seeds == 4
    for name, statistic in STATISTICS.items():
        assert board.aggregates["ddpg", name] == estimate(scores["ddpg"], statistic)
    for part, expected in zip(board.profiles["sd3"], performance_profile(scores["sd3"], THRESHOLDS), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_the_two_directions_of_an_improvement_add_up_to_one():
    board = scoreboard(some_rows())
    ours, theirs = board.improvements["sd3", "ddpg"], board.improvements["ddpg", "sd3"]
    assert ours.value + theirs.value == pytest.approx(1)
    assert ours.low + theirs.high == pytest.approx(1)
    assert ours.low <= ours.value <= ours.high


def test_the_same_rows_give_the_same_numbers():
    assert scoreboard(some_rows()).to_json() == scoreboard(some_rows()).to_json()


def test_the_tables_are_json():
    values = json.loads(json.dumps(scoreboard(some_rows()).to_json(), allow_nan=False))
    assert len(values["rows"]) == 24
    assert len(values["aggregates"]) == 2 * len(STATISTICS)


PENDULUM = [("diayn", "pendulum", 0, -270.0), ("diayn", "pendulum", 1, -565.0)]
PENDULUM += [("ddpg", "pendulum", 0, -1154.0), ("ddpg", "pendulum", 1, -850.0)]


def test_negative_scores_keep_their_order():
    board = scoreboard(PENDULUM, experts={"pendulum": (-1200.0, -180.0)})
    for name in ("median", "IQM", "mean"):
        assert 0 < board.aggregates["ddpg", name].value < board.aggregates["diayn", name].value < 1
    assert board.aggregates["diayn", "optimality gap"].value < board.aggregates["ddpg", "optimality gap"].value
    assert board.improvements["diayn", "ddpg"].value == 1
    assert board.improvements["ddpg", "diayn"].value == 0


@pytest.mark.parametrize(
    ("expert", "message"),
    [
        (-180.0, "which is 0 unless given; got random 0 and expert -180; give \\(random, expert\\)"),
        (0, "above the random score, which is 0 unless given; got random 0 and expert 0"),
        ((-180.0, -1200.0), "above the random score, .*; got random -180 and expert -1200"),
        ((5, 5), "above the random score"),
        (float("nan"), "finite number"),
        ((0.0, float("inf")), "finite number"),
        ("100", "finite number.*got '100'"),
        (None, "finite number"),
        ((1.0, 2.0, 3.0), "pair"),
        (True, "finite number"),
    ],
)
def test_an_invalid_expert_is_refused(expert, message):
    with pytest.raises(UserError, match=message):
        scoreboard(PENDULUM, experts={"pendulum": expert})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("sd3", "walker_walk", 0), "A row must be \\(method, task, seed, score\\); got \\('sd3'"),
        (("sd3", "walker_walk", 0, 1.0, 2.0), "A row must be"),
        ("abcd", "A row must be"),
        (None, "A row must be"),
        (("sd3", "walker_walk", 0, "850"), "score of sd3 in walker_walk with seed 0 must be a number; got '850'"),
        (("sd3", "walker_walk", 0, None), "must be a number; got None"),
        (("sd3", "walker_walk", 0, [1.0, 2.0]), "must be a number"),
        (("sd3", "walker_walk", 0, np.ones(2)), "must be a number"),
        (("sd3", "walker_walk", 0, 10**400), "must be a number"),
        (("sd3", "walker_walk", "zero", 1.0), "seed of sd3 in walker_walk must be a whole number; got 'zero'"),
        (("sd3", "walker_walk", 0.5, 1.0), "whole number"),
        ((1, "walker_walk", 0, 1.0), "must be text; got 1"),
        (("sd3", None, 0, 1.0), "must be text"),
        (("sd3", "walker_walk", 0, float("nan")), "no finite score"),
    ],
)
def test_an_invalid_row_is_refused_in_one_sentence(row, message):
    with pytest.raises(UserError, match=message):
        scoreboard([row])


@pytest.mark.parametrize("resamples", [0, -1, 10**9, 1e9, 2.5, "many", None, True])
def test_resamples_have_bounds(resamples):
    with pytest.raises(UserError, match="resamples must be a whole number from 1 to 100,000; got"):
        scoreboard(some_rows(), resamples=resamples)


def test_numbers_of_numpy_are_numbers():
    rows = [("sd3", "walker_walk", np.int64(seed), np.float32(10 * seed)) for seed in range(2)]
    rows += [("ddpg", "walker_walk", np.int32(seed), np.int64(5)) for seed in range(2)]
    values = json.loads(json.dumps(scoreboard(rows, resamples=np.int64(50)).to_json()))
    assert values["rows"][1] == {"method": "sd3", "task": "walker_walk", "seed": 1, "score": 10.0}


def test_one_seed_has_no_interval_and_no_probability_of_improvement():
    board = scoreboard([("sd3", "walker_walk", 0, 850.0), *some_rows(("ddpg",))[:4]])
    assert board.aggregates["sd3", "IQM"] == (pytest.approx(850 / expert_scores()["walker_walk"]), None, None)
    assert board.aggregates["ddpg", "IQM"].low < board.aggregates["ddpg", "IQM"].high
    assert board.cells["sd3", "walker_walk"] == (850.0, None, 1, None, None)
    assert board.improvements == {("sd3", "ddpg"): None, ("ddpg", "sd3"): None}
    assert (board.profiles["sd3"].low, board.profiles["sd3"].high) == (None, None)
    values = json.loads(json.dumps(board.to_json(), allow_nan=False))
    assert values["improvements"][0] == {"method": "sd3", "over": "ddpg", "value": None, "low": None, "high": None}
    assert values["aggregates"][0]["low"] is None
    assert values["profiles"]["sd3"]["high"] is None


def test_custom_experts():
    rows = [("ours", "gym/Pendulum-v1", seed, 50.0) for seed in range(2)]
    assert scoreboard(rows, experts={"gym/Pendulum-v1": 100.0}).aggregates["ours", "mean"].value == pytest.approx(0.5)
    with pytest.raises(UserError, match="no expert score"):
        scoreboard(rows)


def test_no_rows_are_refused():
    with pytest.raises(UserError, match="no scores"):
        scoreboard([])


def test_complete_rows_keep_common_tasks_and_seeds():
    rows = [ScoreRow(*row) for row in some_rows()]
    lacking = [
        row
        for row in rows
        if (row.method, row.task) != ("ddpg", "walker_run")
        and (row.method, row.task, row.seed) != ("sd3", "quadruped_walk", 2)
    ]
    common = complete_rows(lacking)
    assert {row.task for row in common} == {"walker_walk", "quadruped_walk"}
    assert {row.seed for row in common if row.method == "sd3"} == {0, 1, 3}
    assert {row.seed for row in common if row.method == "ddpg"} == {0, 1, 2, 3}
    assert scoreboard(common).tasks == ("walker_walk", "quadruped_walk")
    assert complete_rows(rows) == rows


def test_complete_rows_are_empty_where_nothing_is_common():
    assert complete_rows([ScoreRow("sd3", "walker_walk", 0, 1.0), ScoreRow("ddpg", "walker_run", 0, 1.0)]) == []
    assert complete_rows([ScoreRow("sd3", "walker_walk", 0, 1.0), ScoreRow("sd3", "walker_run", 1, 1.0)]) == []
    assert complete_rows([]) == []


def test_the_band_of_a_profile_contains_it():
    scores = np.random.default_rng(0).uniform(0, 1.2, size=(10, 6))
    thresholds = np.linspace(0.1, 1.1, 11)
    value, low, high = performance_profile(scores, thresholds)
    assert (low <= value).all()
    assert (value <= high).all()
    assert (high - low).max() > 0.05


def test_published_aggregates_are_shares():
    assert published_aggregates()["sd3"]["IQM"] == pytest.approx(0.7737)
    assert all(0 < share < 1 for shares in published_aggregates().values() for share in shares.values())
    assert set(published_aggregates()["sd3"]) <= set(STATISTICS)
    assert len(expert_scores()) == 12


def test_it_works_without_importing_jax():
    assert skillscape.scoreboard is scoreboard
    program = (
        "import sys, skillscape; skillscape.scoreboard([('a', 'walker_run', 0, 1.0)]); sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
