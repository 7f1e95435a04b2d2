"""From a grid to runs: how many, what needs what, and where they live."""

import json
from pathlib import Path

import pytest

from skillscape.cli.reproduce import BenchmarkOptions
from skillscape.errors import UserError
from skillscape.evaluation.scores import published_scores
from skillscape.experiments.urlb import (
    Benchmark,
    budget_of,
    methods_compared,
    noise_compared,
    parts,
    shared_folder,
    skills_compared,
)
from skillscape.sweeps.plan import PlannedRun, counts, plan
from skillscape.sweeps.spec import Sweep, read_sweep

SHIPPED = Path(__file__).parents[2] / "sweeps"
TOY = "gym/toys:Toy-v0"


def test_the_grid_of_the_paper():
    runs = plan(read_sweep(SHIPPED / "paper-urlb.toml"))
    assert counts(runs) == {"pretrain": 390, "finetune": 1560, "scratch": 120}
    assert {(run.method, run.task) for run in runs if run.task is not None} == set(published_scores("state"))
    assert {run.steps for run in runs if run.kind == "pretrain"} == {2_000_000}
    assert {run.steps for run in runs if run.kind != "pretrain"} == {100_000}


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_run_has_its_folder_and_comes_after_what_it_needs(path):
    runs = plan(read_sweep(path))
    seen = set()
    for run in runs:
        assert run.folder not in seen
        assert (run.needs is None) == (run.kind != "finetune")
        assert run.needs is None or run.needs in seen
        seen.add(run.folder)
        assert PlannedRun.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("variants", "sweep"),
    [
        (methods_compared(("ddpg", "sd3", "icm")), {"methods": ("ddpg", "sd3", "icm")}),
        (noise_compared(("cic",)), {"methods": ("cic",), "noise": (0.0, 0.1)}),
        (skills_compared(("sd3",)), {"methods": ("sd3",), "skills": ("random", "regress", "controller")}),
    ],
)
def test_the_folders_are_those_of_reproduce(variants, sweep):
    benchmark = Benchmark("urlb", variants, ("walker", "jaco"), 2, "compact", None, 50_000, "")
    runs = plan(Sweep("grid", envs=("walker", "jaco"), seeds=(0, 1), finetuning_steps=50_000, **sweep))
    shared = Path(shared_folder("compact", budget_of(benchmark)))
    assert {run.folder for run in runs} == {part.folder(shared).as_posix() for part in parts(benchmark)}
    assert {run.steps for run in runs} == {200_000, 50_000}


def test_reproduce_and_sweep_keep_their_runs_in_the_same_place():
    from skillscape.cli.sweep import SweepOptions

    assert SweepOptions(Path("x.toml")).runs == BenchmarkOptions().runs


def test_settings_are_combined_and_stand_in_the_folders():
    sweep = Sweep(
        "grid",
        ("diayn", "ddpg"),
        ("walker",),
        tasks=("walker_run",),
        objective=(("hidden", ((64, 64), (32,))), ("learning_rate", (1e-3,))),
        backbone=(("width", (64, 128)),),
    )
    runs = plan(sweep)
    assert counts(runs) == {"pretrain": 4, "finetune": 4, "scratch": 2}
    names = [Path(run.folder).parent.name for run in runs]
    assert names[0] == "diayn-hidden=64x64-learning_rate=0.001-backbone.width=64-walker"
    assert names[1] == "diayn-hidden=64x64-learning_rate=0.001-backbone.width=64-walker_run"
    assert names[-1] == "ddpg-backbone.width=128-walker_run"
    assert runs[0].objective == (("hidden", (64, 64)), ("learning_rate", 1e-3))
    assert PlannedRun.from_json(json.loads(json.dumps(runs[0].to_json()))) == runs[0]


def test_snapshots_and_skills_multiply_the_fine_tunings_alone():
    sweep = Sweep(
        "grid",
        ("sd3", "icm"),
        ("walker",),
        preset="paper",
        skills=("own", "random", "regress"),
        snapshots=(100_000, 2_000_000),
        tasks=("walker_run",),
    )
    runs = plan(sweep)
    # icm has no skills to choose among.
    assert counts(runs) == {"pretrain": 2, "finetune": 4 + 2, "scratch": 0}
    assert {run.snapshot for run in runs if run.kind == "finetune"} == {100_000, 2_000_000}
    # SD3's own rule is random: one run by two names.
    assert Path(runs[1].folder).parent.name == "sd3-walker_run-from-100000"
    assert Path(runs[3].folder).parent.name == "sd3-walker_run-regress-from-100000"


def test_mazes_are_pre_trained_only():
    runs = plan(Sweep("grid", ("sd3", "diayn", "ddpg"), ("maze/square_a",), preset="smoke"))
    assert counts(runs) == {"pretrain": 2, "finetune": 0, "scratch": 0}
    assert runs[0].folder == "maze-smoke-2000/sd3-square_a/seed_0"


def test_an_environment_of_ones_own_is_its_own_task():
    runs = plan(Sweep("grid", ("diayn", "ddpg"), (TOY,), preset="smoke"))
    assert [run.folder for run in runs] == [
        "gym-smoke-2000-2000/diayn-toys-Toy-v0/seed_0",
        "gym-smoke-2000-2000/diayn-toys-Toy-v0-task/seed_0",
        "gym-smoke-2000-2000/ddpg-toys-Toy-v0-task/seed_0",
    ]
    assert [run.task for run in runs] == [None, TOY, TOY]


def test_what_is_seen_has_folders_of_its_own():
    envs = ("walker", "walker-pixels", "walker-pixels/reference", "maze-pixels/square_a")
    runs = plan(Sweep("grid", ("diayn",), envs, tasks=("walker_run",), preset="smoke"))
    assert [Path(run.folder).parent.as_posix() for run in runs] == [
        "urlb-smoke-2000-2000/diayn-walker",
        "urlb-smoke-2000-2000/diayn-walker_run",
        "pixels-smoke-1500-1500/diayn-walker-pixels",
        "pixels-smoke-1500-1500/diayn-walker-pixels-walker_run",
        "pixels-smoke-1500-1500/diayn-walker-pixels-reference",
        "pixels-smoke-1500-1500/diayn-walker-pixels-reference-walker_run",
        "pixels-smoke-1500-1500/diayn-maze-pixels-square_a",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": ("sd4",)}, "did you mean 'sd3'"),
        ({"methods": ("extrinsic",)}, "no method 'extrinsic'"),
        ({"envs": ("wlker",)}, "did you mean 'walker'"),
        ({"envs": ("gym/toys:Tuy-v0",)}, "did you mean Toy-v0"),
        ({"envs": ("maze/square_x",)}, "no maze called 'square_x'"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"tasks": ("walker_wolk",)}, "'walker_wolk' is not a task of walker; those are walker_stand"),
        ({"envs": ("maze/square_a",), "tasks": ("walk",)}, "mazes have no tasks"),
        ({"methods": ("ddpg",), "tasks": ()}, "The sweep has no run"),
        ({"skills": ("best",)}, "--skill cannot be 'best'"),
        ({"skills": ("16",)}, "no skill 16"),
        ({"methods": ("cic",), "skills": ("regress",)}, "needs skills that can be listed"),
        ({"snapshots": (77,)}, "snapshots cannot have 77: the runs of this preset and budget keep 100000, 200000"),
        ({"objective": (("regularity", (1.0,)),)}, "objective.regularity is no setting of sd3; known are .*width"),
        ({"objective": (("width", ("wide",)),)}, "SD3.width cannot be 'wide'"),
        ({"objective": (("width", (-1,)),)}, "width must be above zero"),
        ({"backbone": (("speed", (1,)),)}, "backbone.speed is no setting of ddpg"),
        ({"envs": ("maze/square_a",), "noise": (0.1,)}, "noise is for walker"),
        ({"envs": ("maze/square_a",), "steps": 5}, "below one batch"),
        ({"seeds": tuple(range(100_000))}, "The grid has more than 100,000 runs"),
        (
            {"objective": (("width", tuple(range(1, 1001))), ("module_width", tuple(range(1, 1001))))},
            "The grid has more than 100,000 runs",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is(changes, said):
    with pytest.raises(UserError, match=said) as error:
        plan(Sweep(**{"name": "grid", "methods": ("sd3",), "envs": ("walker",), **changes}))
    assert "\n" not in str(error.value)
