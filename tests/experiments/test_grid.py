"""From a grid to runs: how many, what needs what, and where they live."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from skillscape.cli.reproduce import ReproduceOptions
from skillscape.cli.sweep import SweepOptions
from skillscape.errors import UserError
from skillscape.evaluation.scores import published_table
from skillscape.experiments.grid import Grid, RunSpec, Variant, distinct, variant
from skillscape.experiments.paper.ablation_adaptation import AblationAdaptation
from skillscape.experiments.paper.ablation_alpha import AblationAlpha
from skillscape.experiments.paper.maze import Maze
from skillscape.experiments.paper.pixels import Pixels
from skillscape.experiments.paper.robustness import Robustness
from skillscape.experiments.paper.urlb import Urlb
from skillscape.experiments.spec import read_sweep

SHIPPED = Path(__file__).parents[2] / "sweeps"
TOY = "gym/toys:Toy-v0"


def grid(*methods, envs=("walker",), **settings):
    return Grid("grid", tuple(variant(method) for method in methods), tuple(envs), **settings)


def sweep(folder, text):
    path = folder / "grid.toml"
    path.write_text(text)
    return read_sweep(path).grid


def counts(specs):
    counted = Counter(spec.config.phase for spec in distinct(specs))
    return counted["pretrain"], counted["finetune"], counted["train"]


def names(specs):
    return [Path(spec.folder).parent.name for spec in distinct(specs)]


def test_the_grid_of_the_paper():
    specs = read_sweep(SHIPPED / "paper-urlb.toml").grid.specs
    assert counts(specs) == (390, 1560, 120)
    learned = {(spec.config.method, spec.config.task) for spec in specs if spec.config.task is not None}
    assert learned == set(published_table("state").scores)
    assert {spec.config.steps for spec in specs if spec.config.phase == "pretrain"} == {2_000_000}
    assert {spec.config.steps for spec in specs if spec.config.phase != "pretrain"} == {100_000}


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_run_has_its_folder_and_comes_after_what_it_needs(path):
    seen = set()
    for spec in distinct(read_sweep(path).grid.specs):
        assert spec.folder not in seen
        assert (spec.needs is None) == (spec.config.phase != "finetune")
        assert spec.needs is None or spec.needs in seen
        assert spec.folder.endswith(f"/seed_{spec.config.seed}")
        seen.add(spec.folder)
        assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("experiment", "text"),
    [
        (Urlb(methods=("ddpg", "sd3", "icm")), 'methods = ["ddpg", "sd3", "icm"]'),
        (Robustness(methods=("cic",)), 'methods = ["cic"]\nnoise = [0, 0.1]'),
        (AblationAdaptation(), 'methods = ["sd3"]\nskills = ["random", "regress", "controller"]'),
    ],
)
def test_sweeps_and_reproduce_train_the_same_runs(tmp_path, experiment, text):
    experiment = replace(experiment, seeds=2, domains=("walker", "jaco"), finetuning_steps=50_000)
    ours = distinct(experiment.grids()[0].specs)
    theirs = sweep(tmp_path, f'{text}\nenvs = ["walker", "jaco"]\nseeds = 2\nfinetuning_steps = 50000').specs
    assert {spec.folder: spec.config for spec in ours} == {spec.folder: spec.config for spec in theirs}
    assert {spec.config.steps for spec in ours} == {200_000, 50_000}


def test_so_they_do_from_images(tmp_path):
    ours = Pixels(methods=("dreamer", "sd3"), tasks=("walker_stand",), seeds=1).grids()[0].specs
    text = 'methods = ["dreamer", "sd3"]\nenvs = ["walker-pixels"]\ntasks = ["walker_stand"]'
    theirs = sweep(tmp_path, text).specs
    assert {spec.folder: spec.config for spec in ours} == {spec.folder: spec.config for spec in theirs}
    assert [spec.folder for spec in theirs] == [
        "urlb-pixels-laptop-10000/dreamer-walker-pixels-walker_stand/seed_0",
        "urlb-pixels-laptop-10000/sd3-walker-pixels/seed_0",
        "urlb-pixels-laptop-10000-10000/sd3-walker-pixels-walker_stand/seed_0",
    ]


def test_experiments_share_the_runs_that_have_the_presets_own_settings():
    usual = {spec.folder: spec.config for spec in Maze(seeds=1, methods=("sd3",)).grids()[0].specs}
    ablation = [spec for spec in AblationAlpha(seeds=1).grids()[0].specs if "0.04" in spec.label]
    assert {spec.folder: spec.config for spec in ablation} == usual
    assert list(usual) == ["maze-default-250000/sd3-square_a/seed_0"]


def test_reproduce_and_sweep_keep_their_runs_in_the_same_place():
    assert SweepOptions(spec=Path("x.toml")).runs == ReproduceOptions(experiment=Maze()).runs


def test_settings_are_combined_and_stand_in_the_folders(tmp_path):
    specs = sweep(
        tmp_path,
        'methods = ["diayn", "ddpg"]\nenvs = ["walker"]\ntasks = ["walker_run"]\n'
        "[objective]\nhidden = [[64, 64], [32]]\nlearning_rate = 1e-3\n[backbone]\nwidth = [64, 128]",
    ).specs
    assert counts(specs) == (4, 4, 2)
    assert names(specs)[:2] == [
        "diayn-hidden=64x64-learning_rate=0.001-backbone.width=64-walker",
        "diayn-hidden=64x64-learning_rate=0.001-backbone.width=64-walker_run",
    ]
    assert names(specs)[-1] == "ddpg-backbone.width=128-walker_run"
    first = specs[0]
    assert (first.config.objective.hidden, first.config.backbone.width) == ((64, 64), 64)
    assert first.settings == {"hidden": [64, 64], "learning_rate": 1e-3, "backbone.width": 64}
    assert RunSpec.from_json(json.loads(json.dumps(first.to_json()))) == first


def test_what_is_as_in_the_preset_is_not_named(tmp_path):
    text = 'methods = ["sd3"]\nenvs = ["maze/square_a"]\ntasks = []\n[objective]\nexploration_ratio = [0.04, 0.08]'
    text += "\n[evaluation]\nevery = 25000"
    assert names(sweep(tmp_path, text).specs) == ["sd3-square_a", "sd3-exploration_ratio=0.08-square_a"]


def test_snapshots_and_skills_multiply_the_fine_tunings_alone(tmp_path):
    specs = sweep(
        tmp_path,
        'methods = ["sd3", "icm"]\nenvs = ["walker"]\npreset = "paper"\nskills = ["own", "random", "regress"]\n'
        'snapshots = [100_000, 2_000_000]\ntasks = ["walker_run"]',
    ).specs
    # icm has no skills to choose among.
    assert counts(specs) == (2, 4 + 2, 0)
    assert {spec.config.snapshot for spec in specs if spec.needs} == {100_000, 2_000_000}
    # SD3's own rule is random: one run by two names.
    assert names(specs)[:5] == [
        "sd3-walker",
        "sd3-walker_run-from-100000",
        "sd3-walker_run",
        "sd3-walker_run-regress-from-100000",
        "sd3-walker_run-regress",
    ]


def test_mazes_have_tasks_too():
    specs = grid("sd3", "ppo", "ddpg", envs=("maze/square_a",), preset="smoke").specs
    assert [spec.folder for spec in specs] == [
        "maze-smoke-2000/sd3-square_a/seed_0",
        "maze-smoke-2000-2000/sd3-square_a-reach/seed_0",
        "maze-smoke-2000/ppo-square_a-reach/seed_0",
        "maze-smoke-2000/ddpg-square_a-reach/seed_0",
    ]
    # Of PPO's iterations only whole ones are taken.
    assert specs[1].config.snapshot == 2_000
    cell = replace(grid("sd3", envs=("maze/square_a",), preset="smoke"), tasks=("reach:1,0",)).specs[1]
    assert cell.folder == "maze-smoke-2000-2000/sd3-square_a-reach-1-0/seed_0"


def test_pre_training_alone_is_shared_with_grids_of_tasks():
    (alone,) = replace(grid("sd3", preset="smoke"), tasks=()).specs
    assert alone in grid("sd3", preset="smoke", finetuning_steps=1_500).specs


def test_an_environment_of_ones_own_is_its_own_task():
    specs = grid("diayn", "ddpg", envs=(TOY,), preset="smoke").specs
    assert [spec.folder for spec in specs] == [
        "gym-smoke-2000/diayn-toys-Toy-v0/seed_0",
        "gym-smoke-2000-2000/diayn-toys-Toy-v0-task/seed_0",
        "gym-smoke-2000/ddpg-toys-Toy-v0-task/seed_0",
    ]
    assert [spec.config.task for spec in specs] == [None, TOY, TOY]


def test_keyword_arguments_copies_and_evaluation_set_runs_apart(tmp_path):
    text = f'methods = ["diayn"]\nenvs = ["{TOY}"]\npreset = "smoke"\ncopies = 2\n'
    specs = sweep(tmp_path, f"{text}[env_kwargs]\nends = true\n[evaluation]\nepisodes = 3").specs
    assert names(specs)[0] == "diayn-evaluation.episodes=3-env.kwargs.ends=True-env.copies=2-toys-Toy-v0"
    for spec in specs:
        config = spec.config
        assert (config.copies, config.env_kwargs, config.evaluation.episodes) == (2, {"ends": True}, 3)


def test_settings_in_groups_are_tried_and_named_with_dots(tmp_path):
    text = 'methods = ["diayn", "dreamer"]\nenvs = ["maze-pixels/square_a"]\ntasks = ["reach"]\npreset = "smoke"\n'
    specs = sweep(tmp_path, text + "[backbone.world]\ndeter = [8, 16]\n[backbone.replay]\nbatch_size = 2").specs
    assert names(specs)[0] == "diayn-backbone.world.deter=8-backbone.replay.batch_size=2-square_a-pixels"
    # Sixteen is the preset's.
    assert "diayn-backbone.replay.batch_size=2-square_a-pixels" in names(specs)
    assert "dreamer-backbone.world.deter=8-backbone.replay.batch_size=2-square_a-pixels-reach" in names(specs)
    first = specs[0]
    assert first.label == "diayn, world.deter 8, replay.batch_size 2"
    assert first.settings == {"backbone.world.deter": 8, "backbone.replay.batch_size": 2}
    assert (first.config.backbone.world.deter, first.config.backbone.replay.batch_size) == (8, 2)
    assert first.config.backbone.world.stoch == 4
    assert RunSpec.from_json(json.loads(json.dumps(first.to_json()))) == first
    with pytest.raises(UserError, match=r"backbone\.world\.detr is not a setting of WorldConfig; did you mean 'deter'"):
        counts(sweep(tmp_path, text + "[backbone.world]\ndetr = 8").specs)
    with pytest.raises(UserError, match=r"DIAYN\.hidden cannot be {'x': 1}"):
        counts(sweep(tmp_path, text + "[objective.hidden]\nx = 1").specs)


def test_a_folder_of_many_settings_has_a_name_that_file_systems_take(tmp_path):
    many = dict.fromkeys(("entropy", "discount", "discount_lambda", "actor_output_l2"), 0.123456789)
    names_of_folders = []
    for every in (3, 4):
        lines = "".join(
            f"{name} = {value}\n" for name, value in {**many, "target_every": every, "horizon": 4, "units": 8}.items()
        )
        text = 'methods = ["diayn"]\nenvs = ["maze-pixels/square_a"]\ntasks = ["reach"]\npreset = "smoke"\n'
        specs = sweep(tmp_path, f"{text}[backbone.behaviour]\n{lines}").specs
        names_of_folders += names(specs)
        assert specs[0].settings["backbone.behaviour.target_every"] == every
    assert len(set(names_of_folders)) == 4
    assert max(map(len, names_of_folders)) < 200
    assert all(name.startswith("diayn-backbone.behaviour.") for name in names_of_folders)
    assert [name.rpartition("square_a-")[2] for name in names_of_folders] == ["pixels", "pixels-reach"] * 2


def test_backbones_are_chosen_by_name(tmp_path):
    text = 'methods = ["diayn", "sac"]\nenvs = ["walker"]\ntasks = ["walker_run"]\nbackbones = ["ddpg", "sac"]'
    specs = sweep(tmp_path, text).specs
    assert names(specs) == [
        "diayn-walker",
        "diayn-walker_run",
        "diayn-backbone=sac-walker",
        "diayn-backbone=sac-walker_run",
        "sac-walker_run",
    ]
    assert [spec.config.backbone.name for spec in specs] == ["ddpg", "ddpg", "sac", "sac", "sac"]


def test_from_scratch_is_called_after_its_backbone():
    (spec,) = grid("dreamer", envs=("walker-pixels",), tasks=("walker_run",), preset="smoke").specs
    assert (spec.label, spec.config.method, spec.config.backbone.name) == ("dreamer", "dreamer", "dreamer")


def test_what_is_seen_has_folders_of_its_own():
    envs = ("walker", "walker-pixels", "walker-pixels/reference", "maze-pixels/square_a")
    specs = grid("diayn", envs=envs, tasks=("walker_run",), preset="smoke").specs
    assert [Path(spec.folder).parent.as_posix() for spec in specs] == [
        "urlb-smoke-2000/diayn-walker",
        "urlb-smoke-2000-2000/diayn-walker_run",
        "urlb-pixels-smoke-1500/diayn-walker-pixels",
        "urlb-pixels-smoke-1500-1500/diayn-walker-pixels-walker_run",
        "urlb-pixels-smoke-1500/diayn-walker-pixels-reference",
        "urlb-pixels-smoke-1500-1500/diayn-walker-pixels-reference-walker_run",
        "maze-pixels-smoke-1500/diayn-square_a-pixels",
    ]


def test_two_mazes_of_the_same_name_are_not_one(tmp_path):
    for folder, drawing in (("a", "S..\n"), ("b", "S.\n..\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.txt").write_text(drawing)
    envs = tuple(f"maze/{tmp_path}/{folder}/mine.txt" for folder in ("a", "b"))
    with pytest.raises(UserError, match="Two different runs would share the folder maze-smoke-2000/sd3-mine/seed_0"):
        _ = grid("sd3", envs=envs, tasks=(), preset="smoke").specs


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"envs": ("wlker",)}, "did you mean 'walker'"),
        ({"envs": ("gym/toys:Tuy-v0",)}, "did you mean .*Toy-v0"),
        ({"envs": ("maze/square_x",)}, "no maze called 'square_x'"),
        ({"preset": "papr"}, "did you mean 'paper'"),
        ({"tasks": ("walker_wolk",)}, "did you mean 'walker_walk'"),
        ({"tasks": ("jaco_reach_top_left",)}, "is not a task of walker: those are walker_stand"),
        ({"envs": ("maze/square_a",), "tasks": ("walk",)}, "walk"),
        ({"variants": (Variant("ddpg", None, "ddpg"),), "tasks": ()}, "There is no run"),
        ({"variants": ()}, "at least one method"),
        ({"seeds": ()}, "one seed"),
        ({"variants": (variant("sd3", skill="best"),)}, "'best'"),
        ({"variants": (variant("sd3", skill="16"),)}, "no skill 16"),
        ({"variants": (variant("cic", skill="regress"),)}, "needs discrete skills"),
        ({"variants": (variant("sd3", skill="infer"),)}, "cannot infer a skill"),
        ({"variants": (variant("sd3", snapshot=77),)}, "snapshots cannot have 77: .* keep 100000, 200000"),
        ({"variants": (variant("sd3", objective=(("regularity", 1.0),)),)}, "objective.regularity is not a setting"),
        ({"variants": (variant("sd3", objective=(("width", "wide"),)),)}, "SD3.width cannot be 'wide'"),
        ({"variants": (variant("sd3", objective=(("width", -1),)),)}, "width must be"),
        ({"variants": (variant("sd3", settings=(("speed", 1),)),)}, "backbone.speed is not a setting of DDPG"),
        ({"envs": ("maze/square_a",), "variants": (variant("sd3", settings=(("speed", 1),)),)}, "of PPO"),
        ({"evaluation": (("often", 1),)}, "evaluation.often is not a setting"),
        ({"envs": ("maze/square_a",), "variants": (variant("sd3", noise=0.1),)}, "--env.noise is for walker"),
        ({"envs": ("maze/square_a",), "steps": 5}, "but one iteration takes"),
        ({"variants": (variant("sd3", backbone="ppo"),)}, "PPO needs an environment written in JAX"),
        ({"copies": 1000}, "copies must be between 1 and 256"),
        ({"seeds": tuple(range(100_000))}, "The grid has more than 100,000 runs"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is(changes, said):
    with pytest.raises(UserError, match=said) as error:
        _ = replace(grid("sd3"), **changes).specs
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "said"), [("sd4", "did you mean 'sd3'"), ("extrinsic", "no method 'extrinsic'")])
def test_unknown_methods_are_refused(name, said):
    with pytest.raises(UserError, match=said):
        variant(name)
