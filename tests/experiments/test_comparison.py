"""What the maze experiments consist of, and what is made of their results; training itself is tested elsewhere."""

import json
from dataclasses import replace

import numpy as np
import pytest

from skillscape.envs.mazes.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation.costs import NOTE as COST_NOTE
from skillscape.evaluation.costs import Cost
from skillscape.evaluation.mazes import measure
from skillscape.evaluation.summary import summarise
from skillscape.experiments import comparison
from skillscape.experiments.bodies import BODIES
from skillscape.experiments.comparison import MAZES, Arm, Comparison, table, write
from skillscape.experiments.paper import other_mazes, registry
from skillscape.experiments.paper.locomotion import Locomotion
from skillscape.experiments.paper.maze import Maze
from skillscape.experiments.paper.maze_pixels import MazePixels
from skillscape.experiments.paper.other_mazes import OtherMazes
from skillscape.experiments.paper.tree import Tree
from skillscape.experiments.results import Results
from skillscape.objectives import trainable
from skillscape.plots.curves import OPTIONAL_MEASURES
from skillscape.training.cost import Parameters

COMPARISONS = {name: kind for name, kind in registry().items() if issubclass(kind, Comparison)}


def configs(grid):
    """One configuration for each column."""
    return {spec.label: spec.config for spec in grid.specs}.values()


def test_every_experiment_says_what_it_is_and_is_called_after_its_file():
    for name, kind in registry().items():
        assert kind.__doc__.strip().endswith(".")
        assert kind.__module__.rpartition(".")[2] == name.replace("-", "_")


def test_all_methods_are_every_file_of_the_folder():
    (grid,) = Maze(seeds=1, methods=("all",)).grids()
    assert {column.method for column in grid.variants} == set(trainable())
    assert grid.name == "maze-all"


def test_methods_of_the_paper_keep_their_own_folder():
    (grid,) = Maze().grids()
    assert (grid.name, grid.envs, grid.tasks, len(grid.seeds)) == ("maze", ("maze/square_a",), (), 10)
    assert [column.method for column in grid.variants] == ["sd3", "diayn", "dads", "cic"]
    assert [column.label for column in grid.variants] == ["SD3", "DIAYN", "DADS", "CIC"]


def test_every_method_that_counts_its_skills_gets_the_same_number():
    for grid, skills in zip(Tree(seeds=1, methods=tuple(trainable())).grids(), (10, 20), strict=True):
        assert {config.objective.skills.count for config in configs(grid)} == {skills, 1, None}


def test_other_methods_in_the_tree_have_a_folder_of_their_own():
    assert [grid.name for grid in Tree().grids()] == ["tree-10", "tree-20"]
    grids = Tree(seeds=1, methods=("sd3", "becl", "cesd")).grids()
    assert [grid.name for grid in grids] == ["tree-all-10", "tree-all-20"]
    for grid, skills in zip(grids, (10, 20), strict=True):
        assert [config.objective.label for config in configs(grid)] == ["SD3", "BeCL", "CeSD"]
        assert {config.objective.skills.count for config in configs(grid)} == {skills}
        assert not any(config.objective.relabels for config in configs(grid))


def test_every_other_maze_has_a_folder_of_its_own():
    grids = OtherMazes().grids()
    assert [grid.envs for grid in grids] == [(f"maze/{name}",) for name in other_mazes.MAZES]
    assert [grid.name for grid in grids] == [f"maze-{name}" for name in other_mazes.MAZES]
    assert {len(grid.seeds) for grid in grids} == {5}
    assert OtherMazes(methods=("metra",)).grids()[0].name == f"maze-all-{other_mazes.MAZES[0]}"


def test_another_entropy_is_another_experiment():
    (grid,) = Maze(seeds=1, entropy=0.025).grids()
    assert grid.name == "maze-entropy-0.025"
    assert {config.backbone.entropy for config in configs(grid)} == {0.025}


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("ablation-alpha", "exploration_ratio", [0.0, 0.02, 0.04, 0.08]),
        ("ablation-lambda", "deviation_weight", [0.5, 1.0, 1.5, 2.0, 3.0]),
        ("ablation-softmod", "architecture", ["soft-modular", "plain"]),
    ],
)
def test_an_ablation_changes_what_it_says(name, field, values):
    (grid,) = COMPARISONS[name](seeds=1).grids()
    assert [getattr(config.objective, field) for config in configs(grid)] == values
    assert len({spec.folder for spec in grid.specs}) == len(values)


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_experiment_takes_its_seeds_and_steps_from_the_options(name):
    for grid in COMPARISONS[name](seeds=2, steps=5_000).grids():
        assert {spec.config.steps for spec in grid.specs} == {5_000}
        assert {spec.config.seed for spec in grid.specs} == {0, 1}
        assert grid.name.endswith("-5000")


def test_the_maze_is_seen_by_dreamer():
    (grid,) = MazePixels().grids()
    assert (grid.name, grid.envs, grid.preset) == ("maze-pixels", ("maze-pixels/square_a",), "laptop")
    assert [column.method for column in grid.variants] == ["sd3", "diayn", "apt"]
    assert {config.backbone.name for config in configs(grid)} == {"dreamer"}
    (smoke,) = MazePixels(preset="smoke").grids()
    assert smoke.name == "maze-pixels-smoke"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (MazePixels(preset="long"), "no preset 'long'"),
        (Maze(methods=("metr",)), "did you mean 'metra'"),
        (Maze(methods=("ppo",)), "no method 'ppo'"),
        (Tree(methods=("metr",)), "did you mean 'metra'"),
        (Maze(seeds=0), "--seeds must be at least 1"),
    ],
)
def test_what_does_not_exist_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        options.grids()


def arm(grid, seeds=1, skills=10, values=(0.4, 0.5, 0.6)):
    """A column as it would be measured: ``skills`` that stay where they are."""
    positions = np.zeros((skills, 2, 5, 2))
    known = [name for name, value in measure(positions, load_layout("square_a"))._asdict().items() if value is not None]
    summaries = dict.fromkeys(known, summarise(values[:seeds] if seeds > 1 else [0.5]))
    curves = {name: (np.arange(2), np.zeros((seeds, 2))) for name in known}
    return Arm("SD3", grid.specs[0].config, summaries, curves, {"jax": ["1"]}, 0, dict.fromkeys(known, 0.5), positions)


@pytest.mark.parametrize(("seeds", "cell"), [(1, "| 0.50 |"), (3, "| 0.50 [0.40, 0.60] |")])
def test_one_seed_has_no_interval(seeds, cell):
    (grid,) = Maze(seeds=seeds, methods=("sd3",)).grids()
    said = table(grid, [arm(grid, seeds)], MAZES)
    assert cell in said
    assert ("interval]" in said) == (seeds > 1)


@pytest.mark.parametrize(("skills", "lines"), [(1, set()), (2, {"SD3"})])
def test_a_column_without_skills_has_no_line_where_skills_are_told_apart(tmp_path, monkeypatch, skills, lines):
    (grid,) = Maze(seeds=1, methods=("sd3",)).grids()
    drawn = {}
    monkeypatch.setattr(comparison, "curves_figure", lambda curves, *_: drawn.update(curves))
    write(grid, [arm(grid, skills=skills)], tmp_path, "skillscape reproduce maze", MAZES)
    assert {name: set(curves) for name, curves in drawn.items()} == {
        "coverage": {"SD3"},
        "reach": {"SD3"},
        "mutual_information": lines,
    }


def test_old_runs_have_no_columns_that_nobody_measured():
    (grid,) = Maze(seeds=1, methods=("sd3",)).grids()
    assert "| | reach | coverage | I(S;Z), nats | accuracy |" in table(grid, [arm(grid)], MAZES).splitlines()


def test_costs_and_goals_are_columns_where_a_run_has_them(tmp_path):
    (grid,) = Maze(seeds=3, methods=("sd3",)).grids()
    plain = arm(grid, 3)
    goals = {**plain.summaries, "goals": summarise([0.2, 0.3, 0.4])}
    known = replace(plain, label="known", summaries=goals, cost=Cost(Parameters(9, 1_234), summarise([50, 51, 52])))
    lines = table(grid, [known, plain], MAZES).splitlines()
    assert lines[2] == "| | reach | coverage | I(S;Z), nats | accuracy | goals reached | parameters | seconds per run |"
    assert lines[4].endswith("| 0.30 [0.20, 0.40] | 1,234 | 51 |")
    assert lines[5].endswith("| – | – | – |")
    assert {COST_NOTE, OPTIONAL_MEASURES["goals"].note} <= set(lines)
    write(grid, [known, plain], tmp_path, "skillscape reproduce maze", MAZES)
    first, second = json.loads((tmp_path / "raw.json").read_text())["arms"]
    assert first["parameters"] == {"backbone": 9, "objective": 1_234}
    assert first["seconds"]["per_seed"] == [50, 51, 52]
    assert first["measures"]["goals"]["mean"] == pytest.approx(0.3)
    assert not {"parameters", "seconds"} & set(second)


def test_the_raw_numbers_say_how_they_were_made(tmp_path):
    (grid,) = Maze(seeds=3, methods=("sd3",), steps=5_000).grids()
    written = write(grid, [arm(grid, 3)], tmp_path, "skillscape reproduce maze --methods sd3", MAZES)
    assert all(path.stat().st_size > 0 for path in written)
    raw = json.loads((tmp_path / "raw.json").read_text())
    assert list(raw) == ["experiment", "command", "env", "steps", "seeds", "drawn_with", "arms"]
    assert (raw["experiment"], raw["env"], raw["steps"], raw["seeds"]) == ("maze-5000", "maze/square_a", 5_000, 3)
    (told,) = raw["arms"]
    assert list(told) == ["label", "method", "objective", "backbone", "versions", "measures", "curves"]
    assert told["objective"]["exploration_ratio"] == 0.04
    assert "name" not in told["backbone"]
    assert told["measures"]["coverage"]["per_seed"] == [0.4, 0.5, 0.6]


def test_the_drawn_positions_are_kept_and_each_of_many_columns_has_a_figure(tmp_path):
    (grid,) = Maze(seeds=1, methods=("sd3",)).grids()
    labels = ["SD3", "λ = 0.5", "soft-modular", "A & B", "DIAYN"]
    arms = [
        replace(arm(grid), label=label, positions=np.full((2, 3, 4, 2), number + 0.25))
        for number, label in enumerate(labels)
    ]
    write(grid, arms[:4], tmp_path / "few", "skillscape reproduce maze", MAZES)
    assert not (tmp_path / "few" / "trajectories").exists()
    write(grid, arms, tmp_path / "many", "skillscape reproduce maze", MAZES)
    figures = {path.name for path in (tmp_path / "many" / "trajectories").iterdir()}
    assert figures == {"sd3.png", "λ-0.5.png", "soft-modular.png", "a-b.png", "diayn.png"}
    with np.load(tmp_path / "many" / "trajectories.npz") as kept:
        assert list(kept) == labels
        assert kept["A & B"].shape == (2, 3, 4, 2)
        assert (kept["A & B"] == 3.25).all()


def test_the_seed_in_the_middle_is_drawn(tmp_path, monkeypatch):
    (grid,) = Maze(seeds=3, methods=("sd3",)).grids()
    information = [0.9, 0.2, 0.5]
    logs = tuple(
        {"step": [0.0, 250_000.0], "coverage": [0.0, value], "mutual_information": [0.0, value]}
        for value in information
    )

    class Stands:
        def __init__(self, folder):
            seed = int(folder.name.removeprefix("seed_"))
            self.config = replace(grid.specs[0].config, seed=seed)

    measured = []
    monkeypatch.setattr(comparison, "Run", Stands)
    monkeypatch.setattr(comparison, "measure_goals", lambda run, _: measured.append(run.config.seed))
    subject = MAZES._replace(episodes=lambda run: np.full((2, 1, 3, 2), run.config.seed))
    shown = comparison.measured("SD3", Results(grid.specs, tmp_path, logs), subject)
    assert (shown.shown_seed, shown.measures["mutual_information"], shown.positions[0, 0, 0, 0]) == (2, 0.5, 2)
    assert shown.summaries["mutual_information"].per_seed == tuple(information)
    assert measured == [0, 1, 2]
    steps, values = shown.curves["coverage"]
    assert steps.tolist() == [0, 250_000]
    assert values.tolist() == [[0.0, value] for value in information]


def test_bodies_are_compared_by_where_they_go(tmp_path):
    (grid,) = Locomotion(seeds=1, envs=("half_cheetah",), methods=("metra", "apt")).grids()
    assert (grid.name, grid.envs, grid.tasks, grid.steps) == (
        "locomotion-half_cheetah-200000",
        ("half_cheetah",),
        (),
        200_000,
    )
    assert [grid.name for grid in Locomotion().grids()] == ["locomotion-half_cheetah-200000", "locomotion-quadruped"]
    (grid,) = Locomotion(envs=("walker",), methods=("sd3",), episodes=64, evaluate_every=50_000).grids()
    assert grid.name == "locomotion-walker-64-episodes"
    assert [(spec.config.evaluation.episodes, spec.config.evaluation.every) for spec in grid.specs] == [
        (64, 50_000)
    ] * 3
    names = ("policy_coverage", "total_coverage", "distance", "speed", "skill_accuracy")
    summaries = {name: summarise([2.0]) for name in names}
    curves = {name: (np.arange(2), np.zeros((1, 2))) for name in names}
    positions = np.random.default_rng(0).normal(size=(3, 2, 5, 1))
    config = grid.specs[0].config
    metra = Arm("METRA", config, {**summaries, "goals": summarise([0.5])}, curves, {}, 0, {"distance": 2.0}, positions)
    apt = Arm("APT", config, {"distance": summarise([1.0])}, curves, {}, 0, {}, positions[:1])
    written = {path.name for path in write(grid, [metra, apt], tmp_path, "skillscape reproduce locomotion", BODIES)}
    assert written == {"raw.json", "table.md", "trajectories.npz", "paths.png", "curves.png"}
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2] == "| | policy coverage | total coverage | distance | speed | accuracy | goals reached |"
    assert lines[4:6] == [
        "| METRA | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 | 0.50 |",
        "| APT | – | – | 1.00 | – | – | – |",
    ]
