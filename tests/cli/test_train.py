"""What a run is trained with, from the command line: settings, mistakes, folders. Nothing is trained here."""

import json
import shutil

import pytest
from laid_out import lay_out_only

from skillscape.cli import main
from skillscape.training.run import Run

ENV = "gym/toys:Long-v0"
SMOKE = "--preset smoke --steps 1600"


@pytest.fixture(autouse=True)
def _untrained(monkeypatch, tmp_path):
    """Lays out runs, which then count as pre-trained, and builds no network."""
    lay_out_only(monkeypatch)
    monkeypatch.chdir(tmp_path)


def run(line):
    main(line.split())


def stopped(capsys, line):
    """The lines on standard error of a command that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run(line)
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert "Traceback" not in printed.err
    return printed.err.splitlines()


def refused(capsys, line):
    """The one line of a command that is refused before it does anything."""
    (sentence,) = stopped(capsys, line)
    assert sentence.startswith("skillscape: ")
    return sentence


def config(tmp_path, name):
    return json.loads((tmp_path / "runs" / name / "config.json").read_text())


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Settings


def test_settings_reach_the_configuration(tmp_path):
    flags = "--objective.number-of-skills 6 --objective.floor -2.5 --objective.architecture plain"
    flags += " --backbone.hidden 32 16 --backbone.normalize-obs --backbone.learning-rate 1e-4"
    flags += " --evaluation.every 1200 --evaluation.episodes 7 --snapshots 400 1200"
    run(f"pretrain sd3 --preset smoke {flags} --steps 4000 --seed 5 --env maze/square_tree --out runs/x")
    told = config(tmp_path, "x")
    objective, backbone = told["objective"], told["backbone"]
    assert (objective["number_of_skills"], objective["floor"], objective["architecture"]) == (6, -2.5, "plain")
    assert (backbone["hidden"], backbone["normalize_obs"], backbone["learning_rate"]) == ([32, 16], True, 1e-4)
    assert backbone["episodes"] == 8
    assert (told["steps"], told["seed"], told["env"]) == (4000, 5, "maze/square_tree")
    assert told["evaluation"] == {"every": 1200, "episodes": 7, "coverage_episodes": 0}
    assert told["snapshots"] == [400, 1200]


def test_settings_of_the_environment_reach_the_configuration(tmp_path):
    run(f"pretrain diayn --env {ENV} {SMOKE} --env.noise 0.5 --env.copies 3 --env.kwargs ends=True --out runs/x")
    told = config(tmp_path, "x")
    assert (told["noise"], told["copies"], told["env_kwargs"]) == (0.5, 3, {"ends": True})
    run(f"train --env {ENV} --preset smoke --env.copies 2 --env.kwargs ends=True own_mind=False --out runs/y")
    told = config(tmp_path, "y")
    assert (told["noise"], told["copies"], told["env_kwargs"]) == (0.0, 2, {"ends": True, "own_mind": False})


def test_arguments_decide_what_an_environment_shows(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text(
        "import gymnasium, toys\n"
        "gymnasium.register('Needy-v0', entry_point=lambda kind, **rest: getattr(toys, kind)(**rest),"
        " max_episode_steps=20)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for kind, backbone in (("Toy", "ddpg"), ("Pictured", "dreamer")):
        run(f"pretrain diayn --env gym/needy:Needy-v0 --env.kwargs kind={kind} --preset smoke --out runs/{kind}")
        assert config(tmp_path, kind)["backbone"]["name"] == backbone
        run(f"train --env gym/needy:Needy-v0 --env.kwargs kind={kind} --preset smoke --out runs/{kind}-alone")
        assert config(tmp_path, f"{kind}-alone")["backbone"]["name"] == backbone


@pytest.mark.parametrize("env", ["maze/square_a", ENV])
def test_another_backbone_is_named_and_has_settings_of_its_own(tmp_path, env):
    run(f"pretrain diayn --env {env} {SMOKE} --backbone sac --backbone.hidden 8 4 --out runs/x")
    backbone = config(tmp_path, "x")["backbone"]
    assert (backbone["name"], backbone["hidden"], backbone["batch_size"]) == ("sac", [8, 4], 32)
    run(f"train --env {env} --preset smoke --backbone sac --out runs/y")
    assert config(tmp_path, "y")["backbone"]["name"] == "sac"


@pytest.mark.parametrize(("preset", "steps", "entropy"), [("paper", 250_000, 0.025), ("long", 6_250_000, None)])
def test_a_preset_decides_the_settings_not_given(tmp_path, preset, steps, entropy):
    run(f"pretrain diayn --preset={preset} --out runs/x")
    told = config(tmp_path, "x")
    assert told["steps"] == steps
    assert entropy is None or told["backbone"]["entropy"] == entropy


def test_snapshots_of_a_preset_are_those_that_the_steps_reach(tmp_path):
    for name, flags in (("x", ""), ("y", "--steps 600_000"), ("z", "--steps 600_000 --snapshots 5 7")):
        run(f"pretrain diayn --env walker --preset smoke --out runs/{name} {flags}")
    found = [config(tmp_path, name)["snapshots"] for name in ("x", "y", "z")]
    assert found == [[], [100_000, 500_000], [5, 7]]


@pytest.mark.parametrize("text", ["2e4", "20_000", "20000"])
def test_steps_are_read_as_people_write_them(tmp_path, text):
    run(f"pretrain diayn --steps {text}")
    assert config(tmp_path, "diayn-square_a")["steps"] == 20_000


def test_half_a_step_is_refused(capsys):
    assert "'2.5' is not a whole number" in refused(capsys, "pretrain diayn --steps 2.5")


# Folders


def test_the_folder_is_named_after_method_and_maze(tmp_path):
    run("pretrain dads --env maze/square_tree")
    assert config(tmp_path, "dads-square_tree")["objective"]["name"] == "dads"


def test_seeds_get_folders_of_their_own(tmp_path):
    run("pretrain diayn --seed 3 --seeds 2 --out runs/x")
    assert [config(tmp_path, f"x/seed_{seed}")["seed"] for seed in (3, 4)] == [3, 4]
    run(f"train --env {ENV} --preset smoke --seeds 2 --out runs/y")
    assert [config(tmp_path, f"y/seed_{seed}")["seed"] for seed in (0, 1)] == [0, 1]


def test_the_two_phases_of_an_own_environment_have_folders_of_their_own(tmp_path):
    run("pretrain diayn --env gym/Pendulum-v1 --preset smoke")
    run("finetune runs/diayn-Pendulum-v1")
    assert config(tmp_path, "diayn-Pendulum-v1")["phase"] == "pretrain"
    tuned = config(tmp_path, "diayn-Pendulum-v1-finetuned")
    assert (tuned["phase"], tuned["task"], tuned["source"]) == ("finetune", "gym/Pendulum-v1", "diayn-Pendulum-v1")


@pytest.mark.parametrize(
    ("pretrain", "finetune", "folder"),
    [
        ("pretrain diayn", "", "diayn-square_a-reach"),
        ("pretrain diayn", "--task reach:1,0", "diayn-square_a-reach-1-0"),
        ("pretrain diayn --env walker", "--task walker_walk", "diayn-walker_walk"),
        ("pretrain sd3 --env maze-pixels/square_a", "", "sd3-square_a-pixels-reach"),
    ],
)
def test_a_fine_tuning_is_named_after_its_task(tmp_path, pretrain, finetune, folder):
    run(f"{pretrain} --preset smoke --out runs/x")
    run(f"finetune runs/x {finetune}")
    assert config(tmp_path, folder)["phase"] == "finetune"


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ("", "ppo-square_a-reach"),
        ("--backbone sac", "sac-square_a-reach"),
        ("--task reach:1,0", "ppo-square_a-reach-1-0"),
        ("--env walker --task walker_run", "ddpg-walker_run"),
        (f"--env {ENV}", "ddpg-toys-Long-v0"),
    ],
)
def test_training_from_scratch_is_named_after_backbone_and_task(tmp_path, arguments, folder):
    run(f"train --preset smoke {arguments}")
    assert config(tmp_path, folder)["phase"] == "train"


def test_every_seed_of_a_run_is_fine_tuned(tmp_path, capsys):
    run(f"pretrain diayn --env {ENV} --preset smoke --seed 3 --seeds 2 --out runs/x")
    run("finetune runs/x --out runs/y --skill 2")
    assert [config(tmp_path, f"y/seed_{seed}")["seed"] for seed in (3, 4)] == [3, 4]
    assert "--seed applies to one run" in refused(capsys, "finetune runs/x --out runs/z --seed 1")
    assert not (tmp_path / "runs" / "z").exists()


def test_settings_of_a_fine_tuning_reach_the_configuration(tmp_path):
    run(f"pretrain diayn --env {ENV} --preset smoke --out runs/x --snapshots 800")
    flags = "--task gym/toys:Long-v0 --skill 3 --snapshot 800 --steps 1_200 --seed 9 --backbone.batch-size 8"
    run(f"finetune --out runs/y {flags} --evaluation.episodes 3 runs/x")
    told = config(tmp_path, "y")
    assert (told["skill"], told["snapshot"], told["steps"], told["seed"]) == ("3", 800, 1200, 9)
    assert told["backbone"]["batch_size"] == 8
    assert told["evaluation"] == {"every": 1000, "episodes": 3, "coverage_episodes": 0}


def test_the_last_line_says_what_to_do_next(capsys):
    run(f"pretrain diayn {SMOKE}")
    assert "trained 1 seed on maze/square_a; see `skillscape evaluate runs/diayn-square_a` (0 s)" in (
        capsys.readouterr().err
    )
    run("finetune runs/diayn-square_a")
    assert "trained 1 seed on reach; see `skillscape plot runs/diayn-square_a-reach`" in capsys.readouterr().err


# Going on


@pytest.mark.parametrize("env", ["maze/square_a", ENV])
def test_a_run_that_goes_on_keeps_its_budget_and_its_settings(tmp_path, env):
    first = f"pretrain diayn --env {env} --out runs/x {SMOKE} --objective.number-of-skills 5 --seed 4"
    run(f"{first} --evaluation.every 800")
    before = config(tmp_path, "x")
    for flags in ("", "--objective.number-of-skills 5 --steps 1600", "--seed 4", "--evaluation.every 800"):
        run(f"pretrain diayn --env {env} --out runs/x --resume {flags}")
        assert config(tmp_path, "x") == before


def test_a_run_that_goes_on_keeps_what_only_some_environments_have(tmp_path):
    flags = "--env.noise 0.5 --env.copies 3 --env.kwargs ends=True --backbone sac --snapshots 700"
    run(f"pretrain diayn --env {ENV} --out runs/x {SMOKE} {flags}")
    before = config(tmp_path, "x")
    run(f"pretrain diayn --env {ENV} --out runs/x --resume")
    assert config(tmp_path, "x") == before
    run(f"train --env {ENV} --out runs/y --preset smoke --env.copies 3 --env.kwargs ends=True --backbone sac --seed 4")
    before = config(tmp_path, "y")
    run(f"train --env {ENV} --out runs/y --resume")
    assert config(tmp_path, "y") == before


def test_a_fine_tuning_that_goes_on_keeps_what_is_not_said(capsys, tmp_path):
    run("pretrain diayn --env walker --preset smoke --out runs/x --snapshots 800")
    flags = "--skill 3 --steps 1200 --seed 8 --snapshot 800 --backbone.batch-size 8 --evaluation.episodes 3"
    run(f"finetune runs/x --out runs/y --task walker_run {flags}")
    before = config(tmp_path, "y")
    for again in ("", flags, "--snapshot 800", "--task walker_run"):
        run(f"finetune runs/x --out runs/y --resume {again}")
        assert config(tmp_path, "y") == before
    for flag, answer in (
        ("--steps 1300", "steps: 1,200 in the run, 1,300 asked for"),
        ("--skill random", "skill: 3 in the run, random asked for"),
        ("--snapshot 2000", "snapshot: 800 in the run, 2,000 asked for"),
        ("--task walker_walk", "task: walker_run in the run, walker_walk asked for"),
        ("--backbone.batch-size 9", "backbone.batch_size: 8 in the run, 9 asked for"),
    ):
        assert answer in refused(capsys, f"finetune runs/x --out runs/y --resume {flag}")
    assert config(tmp_path, "y") == before


def test_training_from_scratch_that_goes_on_keeps_its_task(tmp_path):
    run("train --env walker --task walker_run --preset smoke --out runs/x")
    before = config(tmp_path, "x")
    run("train --env walker --out runs/x --resume")
    assert config(tmp_path, "x") == before


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (f"--env {ENV} --steps 1700", "steps: 1,600 in the run, 1,700 asked for"),
        (f"--env {ENV} --objective.number-of-skills 5", "objective.number_of_skills: 16 in the run, 5 asked for"),
        (f"--env {ENV} --env.noise 0.5", "noise: 0.0 in the run, 0.5 asked for"),
        (f"--env {ENV} --env.kwargs ends=True", "env_kwargs.ends: none in the run, True asked for"),
        (f"--env {ENV} --env.copies 2", "copies: 1 in the run, 2 asked for"),
        (f"--env {ENV} --backbone sac", "backbone.name: ddpg in the run, sac asked for"),
        (f"--env {ENV} --evaluation.episodes 3", "evaluation.episodes: 2 in the run, 3 asked for"),
        (f"--env {ENV} --snapshots 700", "snapshots: [] in the run, [700] asked for"),
        ("", f"env: {ENV} in the run, maze/square_a asked for"),
    ],
)
def test_another_setting_is_refused_by_name_with_both_values(capsys, tmp_path, flags, answer):
    run(f"pretrain diayn --env {ENV} --out runs/x {SMOKE}")
    before = files(tmp_path)
    assert answer in refused(capsys, f"pretrain diayn --out runs/x --resume {flags}")
    assert files(tmp_path) == before


def test_settings_in_groups_are_flags_and_are_compared_by_their_names(capsys, tmp_path):
    line = "pretrain diayn --env maze-pixels/square_a --out runs/x"
    flags = "--backbone.world.deter 12 --backbone.behaviour.center-rewards --backbone.replay.warmup-steps 1_100"
    run(f"{line} --preset smoke {flags}")
    backbone = config(tmp_path, "x")["backbone"]
    assert (backbone["world"]["deter"], backbone["world"]["stoch"]) == (12, 4)
    assert backbone["behaviour"]["center_rewards"] is True
    assert backbone["replay"]["warmup_steps"] == 1_100
    run(f"{line} --resume")
    assert config(tmp_path, "x")["backbone"] == backbone
    answer = refused(capsys, f"{line} --resume --backbone.world.deter 13")
    assert "backbone.world.deter: 12 in the run, 13 asked for" in answer
    assert "--backbone.world.deter must be above zero" in refused(capsys, f"{line} --force --backbone.world.deter 0")


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        ("--seed 1", "seed: 0 in the run, 1 asked for"),
        ("--env maze/square_b", "env: maze/square_a in the run, maze/square_b asked for"),
        ("--objective.learning-rate 0.5", "objective.learning_rate: 0.001 in the run, 0.5 asked for"),
        ("--backbone.clip 0.5", "backbone.clip: 0.2 in the run, 0.5 asked for"),
        ("--steps 800", "steps: 1,600 in the run, 800 asked for"),
    ],
)
def test_a_run_in_a_maze_is_not_resumed_with_other_settings(capsys, tmp_path, flags, answer):
    run(f"pretrain diayn {SMOKE} --out runs/x")
    before = files(tmp_path)
    assert answer in refused(capsys, f"pretrain diayn {SMOKE} --out runs/x --resume {flags}")
    assert files(tmp_path) == before


@pytest.mark.parametrize("told", ["skillscape-run-1", "skillscape-job-1"])
@pytest.mark.parametrize(
    "line",
    [
        f"pretrain diayn --env {ENV} --out runs/x --resume",
        f"train --env {ENV} --out runs/x --resume",
        "finetune runs/x --out runs/y",
        "evaluate runs/x",
        "plot runs/x",
    ],
)
def test_a_run_of_an_earlier_version_is_refused_with_one_true_sentence(capsys, tmp_path, told, line):
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "config.json").write_text(json.dumps({"format": told, "env": ENV}))
    before = files(tmp_path)
    assert refused(capsys, line) == (
        "skillscape: runs/x: the run was written by an earlier version of skillscape; read it with that version."
    )
    assert files(tmp_path) == before


def test_help_on_a_run_lists_its_settings_whatever_its_tasks(capsys):
    run("pretrain diayn --env walker --preset smoke --out runs/x")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run("finetune runs/x --help")
    assert stop.value.code in (0, None)
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--backbone.batch-size INT" in text
    assert "(default: 32)" in text


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("pretrain daiyn", "did you mean 'diayn'?"),
        ("pretrain extrinsic", "There is no method 'extrinsic'"),
        ("pretrain diayn --preset smokee", "did you mean 'smoke'?"),
        ("pretrain diayn --preset=papr", "did you mean 'paper'?"),
        ("pretrain diayn --env maze/squar_a", "did you mean 'square_a'?"),
        ("pretrain diayn --env maze/", "There is no maze called ''"),
        ("pretrain diayn --env square_a", "write maze/square_a"),
        ("pretrain diayn --env atari/pong", "There is no environment 'atari/pong'"),
        ("pretrain diayn --env maze/missing.txt", "There is no maze file missing.txt"),
        ("pretrain diayn --steps 2499", "--steps is 2499, but one iteration takes 2,500"),
        ("pretrain diayn --steps -5", "--steps must be above zero, not -5"),
        ("pretrain diayn --seeds 0", "--seeds must be at least 1"),
        ("pretrain diayn --workers 0", "--workers must be at least 1"),
        ("pretrain diayn --workers -2", "--workers must be at least 1"),
        ("pretrain diayn --seed -1", "--seed must be"),
        ("pretrain diayn --seed 99999999999999999999", "--seed must be"),
        ("pretrain diayn --resume --force", "exclude each other"),
        ("pretrain diayn --objective.learning-rate nan", "--objective.learning-rate must be a finite number"),
        ("pretrain diayn --objective.learning-rate -1", "--objective.learning-rate must be above zero"),
        ("pretrain diayn --objective.number-of-skills 0", "--objective.number-of-skills must be above zero"),
        ("pretrain diayn --objective.hidden 8 0", "--objective.hidden must be above zero"),
        ("pretrain diayn --objective.resample-every 0", "--objective.resample-every must be above zero"),
        ("pretrain diayn --backbone.entropy inf", "--backbone.entropy must be a finite number"),
        ("pretrain diayn --backbone.episodes 0", "--backbone.episodes must be above zero"),
        ("pretrain diayn --backbone.minibatches 2501", "set --backbone.minibatches to at most 2500"),
        ("pretrain diayn --backbone.discount 1.5", "--backbone.discount"),
        ("pretrain diayn --backbone.gae-lambda -0.1", "--backbone.gae-lambda"),
        ("pretrain diayn --backbone sack", "There is no backbone 'sack': did you mean 'sac'?"),
        ("pretrain diayn --backbone sac --env gym/toys:Pictured-v0", "shows images, which SAC does not learn from"),
        (f"pretrain diayn --backbone ppo --env {ENV}", "PPO needs an environment written in JAX"),
        ("pretrain diayn --evaluation.every 0", "--evaluation.every must be above zero"),
        ("pretrain diayn --evaluation.episodes 1", "--evaluation.episodes is 1, but a maze needs 2 or more"),
        ("pretrain diayn --evaluation.episodes 10001", "--evaluation.episodes must be between 1 and 10,000"),
        ("pretrain diayn --snapshots 2501", "--snapshots 2501 is not a multiple of an iteration of 2,500 steps"),
        ("pretrain diayn --snapshots 500000", "--snapshots 500000 is beyond --steps 250,000"),
        ("pretrain diayn --snapshots -1", "--snapshots must be steps above zero, not -1"),
        (
            "pretrain diayn --env.noise 0.1",
            "--env.noise is for walker, quadruped, jaco, ant, half_cheetah, gym/ID and images",
        ),
        (f"pretrain diayn --env {ENV} --env.noise -1", "--env.noise must be zero or more, not -1.0"),
        ("pretrain diayn --env.kwargs a=1", "maze/square_a takes no keyword arguments: leave a out"),
        (f"pretrain diayn --env {ENV} --env.kwargs a", "--env.kwargs cannot be 'a'; give KEY=VALUE pairs"),
        (f"pretrain diayn --env {ENV} --env.kwargs a=1", "does not take the keyword argument 'a'"),
        (f"pretrain diayn --env {ENV} --env.kwargs ends={{1,2}}", "--env.kwargs is stored as JSON"),
        ("pretrain diayn --env.position 0", "--env.position is for walker, quadruped, jaco, ant, half_cheetah, gym/ID"),
        (f"pretrain diayn --env {ENV} --env.position 0 7", "--env.position names entry 7, but the observation of"),
        (f"pretrain diayn --env {ENV} --env.position -1", "--env.position names entry -1, but the observation of"),
        ("train --env half_cheetah", "--task half_cheetah_hurdle"),
        (f"pretrain diayn --env {ENV} --env.copies 0", "--env.copies must be between 1 and 256, not 0"),
        ("pretrain diayn --env.copies 2", "--env.copies is 2, but PPO does not learn from replay"),
        ("pretrain sd3 --objective.deviation-weight -1", "--objective.deviation-weight must be above zero"),
        ("pretrain cic --objective.temperature nan", "--objective.temperature must be a finite number"),
        ("finetune", "No run given; name one to fine-tune, for example"),
        ("finetune --task walker_walk", "No run given; name one to fine-tune, for example"),
        ("finetune missing", "missing does not exist"),
        ("train --env walker", "walker has walker_stand, walker_walk"),
        ("train --env walker --task walker_fly", "walker_fly"),
        ("train --task walker_walk", "is not a task of the maze square_a"),
        ("train --env walker --task walker_walk --steps 0", "--steps must be above zero"),
    ],
)
def test_a_mistake_is_one_line_that_helps(capsys, tmp_path, arguments, answer):
    assert answer in refused(capsys, arguments)
    assert not list(tmp_path.iterdir())


def test_a_position_is_kept_with_the_run(tmp_path):
    run(f"pretrain diayn --env {ENV} --preset smoke --env.position 1 0 --evaluation.coverage-episodes 9 --out runs/x")
    assert config(tmp_path, "x")["env_position"] == [1, 0]
    assert config(tmp_path, "x")["evaluation"]["coverage_episodes"] == 9
    run("pretrain diayn --env " + ENV + " --out runs/x --resume")
    assert Run(tmp_path / "runs" / "x").config.env_position == (1, 0)


def test_no_method_is_a_mistake(capsys):
    assert "No method given" in stopped(capsys, "pretrain")[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        "pretrain diayn --no-such-flag 1",
        "pretrain diayn --steps many",
        "pretrain diayn --snapshots many",
        "pretrain sd3 --objective.density nonsense",
        "train --env.noise 0.1",
        "train --from-scratch",
        "evaluate",
        "methods surplus",
    ],
)
def test_what_the_parser_refuses_is_one_line_and_code_2(capsys, tmp_path, arguments):
    assert refused(capsys, arguments)
    assert not list(tmp_path.iterdir())


def test_a_preset_that_there_is_not_names_those_that_there_are(capsys):
    line = refused(capsys, "pretrain diayn --preset smok")
    assert line.endswith("did you mean 'smoke'? There are default, compact, paper, long, smoke.")
    line = refused(capsys, "pretrain diayn --env walker --preset xyzzy")
    assert line.endswith("known are compact, paper, smoke.")


@pytest.mark.parametrize(("wrong", "right"), [("SD3", "sd3"), ("Protorl", "protorl"), ("DIAYN", "diayn")])
def test_capitals_do_not_hide_what_is_meant(capsys, wrong, right):
    assert f"did you mean '{right}'?" in refused(capsys, f"pretrain {wrong}")


@pytest.mark.parametrize(
    ("drawing", "answer"),
    [
        ("...\n", "has no start"),
        ("S..\n..\n", "Line 2"),
        ("#S#\n###\n", "closed in"),
        ("S.#.\n", "No path leads to"),
        ("S.x\n", "'x' at line 1"),
        ("", "is empty"),
    ],
)
def test_an_impossible_maze_is_one_line_that_says_where(capsys, tmp_path, drawing, answer):
    (tmp_path / "own.txt").write_text(drawing)
    assert answer in refused(capsys, "pretrain diayn --env maze/own.txt --out run")
    assert not (tmp_path / "run").exists()


def test_tasks_of_mazes_are_cells(capsys, tmp_path):
    run("pretrain diayn --preset smoke --out runs/x")
    for line in ("finetune runs/x --task walker_walk", "train --task walker_walk"):
        assert "'walker_walk' is not a task of the maze square_a: give reach, " in refused(capsys, line)
    assert "has no free cell in row 0, column 1" in refused(capsys, "finetune runs/x --task reach:0,1")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["x"]


def test_what_was_trained_on_a_task_already_is_not_fine_tuned(capsys):
    run(f"pretrain diayn --env {ENV} --preset smoke --out runs/x")
    run("finetune runs/x --out runs/y")
    assert "y was trained on a task reward, not pre-trained; give a run of `skillscape pretrain`" in (
        refused(capsys, "finetune runs/y --out runs/z")
    )


@pytest.mark.parametrize("flags", ["--force", "--resume", ""])
def test_a_fine_tuning_never_replaces_its_source(capsys, tmp_path, flags):
    run(f"pretrain diayn --env {ENV} --preset smoke --out runs/x")
    line = refused(capsys, f"finetune runs/x --out runs/x {flags}")
    assert "which overlaps its pre-training" in line
    assert config(tmp_path, "x")["phase"] == "pretrain"


# Folders in the way


def test_a_run_that_stands_there_is_neither_replaced_nor_touched(capsys, tmp_path):
    run(f"pretrain diayn {SMOKE} --out runs/x")
    before = files(tmp_path)
    line = refused(capsys, f"pretrain diayn {SMOKE} --out runs/x")
    assert "--resume" in line
    assert "--force" in line
    assert files(tmp_path) == before


def test_force_replaces_a_run(tmp_path):
    run(f"pretrain diayn {SMOKE} --out runs/x")
    (tmp_path / "runs" / "x" / "results.json").write_text('{"measures": {}}')
    run(f"pretrain dads {SMOKE} --out runs/x --force")
    assert config(tmp_path, "x")["objective"]["name"] == "dads"
    assert not (tmp_path / "runs" / "x" / "results.json").exists()


@pytest.mark.parametrize("flag", ["--force", "--resume", "--seed=1"])
def test_a_folder_that_is_no_run_is_never_touched(capsys, tmp_path, flag):
    (tmp_path / "thesis.tex").write_text("years of work")
    before = files(tmp_path)
    assert "not a run" in refused(capsys, f"pretrain diayn {SMOKE} --out . {flag}")
    assert files(tmp_path) == before


def test_several_seeds_do_not_move_into_a_single_run_nor_one_run_among_seeds(capsys, tmp_path):
    run(f"pretrain diayn {SMOKE} --out runs/x")
    run(f"pretrain diayn {SMOKE} --out runs/y --seeds 2")
    before = files(tmp_path)
    assert "holds a single run" in refused(capsys, f"pretrain diayn {SMOKE} --out runs/x --seeds 2")
    for flag in ("", "--resume", "--force"):
        assert "runs/y holds 2 seeds; give --seeds" in refused(capsys, f"pretrain diayn {SMOKE} --out runs/y {flag}")
    assert files(tmp_path) == before


def test_seeds_go_on_from_the_first_by_number(tmp_path):
    run(f"pretrain diayn {SMOKE} --out runs/x --seed 9 --seeds 2")
    shutil.rmtree(tmp_path / "runs" / "x" / "seed_10")
    run("pretrain diayn --out runs/x --seeds 2 --resume")
    assert sorted(path.name for path in (tmp_path / "runs" / "x").iterdir()) == ["seed_10", "seed_9"]
    assert config(tmp_path, "x/seed_10")["steps"] == 1600


@pytest.mark.parametrize("flags", ["", "--force"])
def test_seeds_in_the_way_are_found_before_any_is_laid_out(capsys, tmp_path, flags):
    (tmp_path / "seed_1").mkdir()
    (tmp_path / "seed_1" / "thesis.tex").write_text("years of work")
    refused(capsys, f"pretrain diayn {SMOKE} --out . --seeds 2 {flags}")
    assert [path.name for path in tmp_path.iterdir()] == ["seed_1"]


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_file_in_the_way_of_the_run_is_one_line(capsys, tmp_path, out):
    (tmp_path / "file").write_text("in the way")
    assert "choose another --out" in refused(capsys, f"pretrain diayn {SMOKE} --out {out}")
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_run_that_another_process_trains_is_not_replaced(capsys, tmp_path):
    run(f"pretrain diayn {SMOKE} --out runs/x")
    with Run(tmp_path / "runs" / "x").locked():
        before = files(tmp_path)
        line = refused(capsys, f"pretrain diayn {SMOKE} --out runs/x --force")
        assert "being trained by another process" in line
        assert files(tmp_path) == before
