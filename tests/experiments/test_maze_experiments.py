"""What the maze experiments consist of; training itself is tested elsewhere."""

import dataclasses

import numpy as np
import pytest

from skillscape.envs.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import measure
from skillscape.evaluation.summary import summarise
from skillscape.experiments.comparison import ArmResult, table, write
from skillscape.experiments.mazes import EXPERIMENTS, Request, plan
from skillscape.objectives import trainable

REQUEST = Request("skillscape reproduce", seeds=2)


def test_all_methods_are_every_file_of_the_folder():
    (comparison,) = plan("maze", dataclasses.replace(REQUEST, methods=("all",)))
    assert {arm.method for arm in comparison.arms} == set(trainable())
    assert comparison.name == "maze-all"


def test_methods_of_the_paper_keep_their_own_folder():
    (comparison,) = plan("maze", REQUEST)
    assert (comparison.name, comparison.env) == ("maze", "maze/square_a")
    assert [arm.method for arm in comparison.arms] == ["sd3", "diayn", "dads", "cic"]


def test_every_method_that_counts_its_skills_gets_the_same_number():
    comparisons = plan("tree", dataclasses.replace(REQUEST, methods=tuple(trainable())))
    for comparison, skills in zip(comparisons, (10, 20), strict=True):
        counts = {arm.objective.skills.count for arm in comparison.arms}
        assert counts == {skills, 1, None}


def test_another_entropy_is_another_experiment():
    (comparison,) = plan("maze", dataclasses.replace(REQUEST, entropy=0.025))
    assert comparison.name == "maze-entropy-0.025"
    assert {arm.backbone.entropy for arm in comparison.arms} == {0.025}


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("ablation-alpha", "exploration_ratio", [0.0, 0.02, 0.04, 0.08]),
        ("ablation-lambda", "deviation_weight", [0.5, 1.0, 1.5, 2.0, 3.0]),
        ("ablation-softmod", "architecture", ["soft-modular", "plain"]),
    ],
)
def test_an_ablation_changes_what_it_says(name, field, values):
    (comparison,) = plan(name, REQUEST)
    assert [getattr(arm.objective, field) for arm in comparison.arms] == values
    assert len({arm.folder for arm in comparison.arms}) == len(values)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_takes_its_seeds_and_steps_from_the_request(name):
    for comparison in plan(name, dataclasses.replace(REQUEST, steps=5_000)):
        assert (comparison.seeds, comparison.steps) == (2, 5_000)


def test_the_maze_is_seen_by_dreamer():
    (comparison,) = plan("maze-pixels", REQUEST)
    assert (comparison.name, comparison.env, comparison.preset) == ("maze-pixels", "maze-pixels/square_a", "laptop")
    assert [arm.method for arm in comparison.arms] == ["sd3", "diayn", "apt"]
    assert {arm.backbone.name for arm in comparison.arms} == {"dreamer"}
    (smoke,) = plan("maze-pixels", dataclasses.replace(REQUEST, preset="smoke"))
    assert smoke.name == "maze-pixels-smoke"


@pytest.mark.parametrize(
    ("change", "said"), [({"entropy": 0.025}, "--entropy is PPO's"), ({"preset": "long"}, "no preset 'long'")]
)
def test_what_ppo_alone_has_is_refused_where_the_maze_is_seen(change, said):
    with pytest.raises(UserError, match=said):
        plan("maze-pixels", dataclasses.replace(REQUEST, **change))


def test_an_unknown_method_is_refused():
    with pytest.raises(UserError, match="did you mean 'metra'"):
        plan("maze", dataclasses.replace(REQUEST, methods=("metr",)))


@pytest.mark.parametrize(("seeds", "cell"), [(1, "| 0.50 |"), (3, "| 0.50 [0.40, 0.60] |")])
def test_one_seed_has_no_interval(seeds, cell):
    (comparison,) = plan("maze", dataclasses.replace(REQUEST, seeds=seeds, methods=("sd3",)))
    summaries = dict.fromkeys(
        ("reach", "coverage", "distinguishability", "skill_accuracy"),
        summarise([0.4, 0.5, 0.6][:seeds] if seeds > 1 else [0.5]),
    )
    positions, layout = np.zeros((10, 2, 5, 2)), load_layout("square_a")
    result = ArmResult(comparison.arms[0], layout, summaries, 0, positions, measure(positions, layout), {}, {})
    said = table(comparison, [result])
    assert cell in said
    assert ("interval]" in said) == (seeds > 1)


@pytest.mark.parametrize(("skills", "lines"), [(1, set()), (2, {"SD3"})])
def test_an_arm_without_skills_has_no_line_where_skills_are_told_apart(tmp_path, monkeypatch, skills, lines):
    (comparison,) = plan("maze", dataclasses.replace(REQUEST, seeds=1, methods=("sd3",)))
    layout = load_layout("square_a")
    positions = np.zeros((skills, 2, 4, 2))
    measured = measure(positions, layout)._asdict()
    summaries = {name: summarise([value]) for name, value in measured.items() if value is not None}
    curves = {name: (np.arange(2), np.zeros((1, 2))) for name in summaries}
    result = ArmResult(comparison.arms[0], layout, summaries, 0, positions, measure(positions, layout), curves, {})
    drawn = {}
    monkeypatch.setattr("skillscape.experiments.comparison.curves_figure", lambda one, *_: drawn.update(one))
    write(comparison, [result], tmp_path)
    assert {name: set(one) for name, one in drawn.items()} == {
        "coverage": {"SD3"},
        "reach": {"SD3"},
        "distinguishability": lines,
    }
