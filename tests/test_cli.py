"""The command line: every command end to end on tiny runs, and one clear line for every mistake."""

import json
import os
import pty
import shutil
import subprocess
import sys
import types
from pathlib import Path

import jax
import pytest

from skillscape import cli
from skillscape.cli import main
from skillscape.envs.host import HOST_ENVS
from skillscape.envs.layouts import builtin_layouts
from skillscape.evaluation.mazes import MazeMeasures
from skillscape.objectives import registry
from skillscape.training.runs import Run

METHODS = ("cic", "dads", "diayn", "sd3")
MEASURES = [
    "coverage",
    "reach",
    "distinguishability",
    "skill_accuracy",
    "distinguishability_error",
    "skill_accuracy_error",
]
SMOKE = ("--preset", "smoke", "--steps", "1600")


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation():
    """These runs take a few steps; compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Makes the folder of a finished run of a method, once."""
    folder = tmp_path_factory.mktemp("runs")

    def make(method):
        if not (folder / method).exists():
            main(["pretrain", method, *SMOKE, "--out", str(folder / method)])
        return folder / method

    return make


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """The folder of two finished seeds."""
    folder = tmp_path_factory.mktemp("seeds") / "diayn"
    main(["pretrain", "diayn", *SMOKE, "--seed", "7", "--seeds", "2", "--out", str(folder)])
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    """A finished run that a test may damage."""
    return shutil.copytree(trained("diayn"), tmp_path / "copy")


@pytest.fixture
def untrained(monkeypatch):
    """Lets pretrain lay out its runs and skip the training."""
    monkeypatch.setattr("skillscape.api.train_all", lambda *_arguments, **_options: None)
    monkeypatch.setattr("skillscape.api._write_results", lambda _run: None)


def shown(capsys, *arguments):
    """What a command that succeeds prints."""
    capsys.readouterr()
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def stopped(capsys, *arguments):
    """The lines on standard error of a command that is refused."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert "Traceback" not in printed.err
    return printed.err.splitlines()


def refused(capsys, *arguments):
    """The one line of a command that is refused before it does anything."""
    (line,) = stopped(capsys, *arguments)
    assert line.startswith("skillscape: ")
    return line


def files(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Help and lists


@pytest.mark.parametrize("flag", ["--help", "-h", None])
def test_help_names_every_command(capsys, flag):
    text = shown(capsys, *([flag] if flag else []))
    for command in ("methods", "envs", "pretrain", "evaluate", "plot", "report"):
        assert f"\n  {command}" in text


@pytest.mark.parametrize("command", ["methods", "envs", "evaluate", "plot", "report", "pretrain diayn", "pretrain sd3"])
def test_every_command_explains_itself(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code in (0, None)
    assert f"usage: skillscape {command}" in " ".join(capsys.readouterr().out.split())


def test_help_on_pretrain_lists_the_methods_that_can_be_trained(capsys):
    text = shown(capsys, "pretrain", "--help")
    assert all(f"\n{method}" in text for method in METHODS)
    assert "extrinsic" not in text


def test_help_on_a_method_lists_its_settings(capsys):
    with pytest.raises(SystemExit):
        main(["pretrain", "sd3", "--help"])
    text = capsys.readouterr().out
    for flag in ("--objective.deviation-weight", "--backbone.learning-rate", "--seeds", "--resume", "--force"):
        assert flag in text


def test_methods_lists_every_method_with_a_line(capsys):
    lines = shown(capsys, "methods").splitlines()
    assert [line.split()[0] for line in lines] == [name for name in registry() if name != "extrinsic"]
    assert all(len(line.split()) > 4 for line in lines)


def test_envs_lists_every_maze_with_a_line(capsys):
    lines = shown(capsys, "envs").splitlines()
    mazes = [f"maze/{name}" for name in builtin_layouts()]
    assert [line.split()[0] for line in lines] == [*mazes, "maze/PATH.txt", *(name for name, _ in HOST_ENVS)]


def test_the_version_is_told(capsys):
    assert shown(capsys, "--version").split() == ["skillscape", "0.1.0"]


def run_process(*arguments):
    return subprocess.run([sys.executable, "-m", "skillscape", *arguments], capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_program():
    done = run_process("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: skillscape COMMAND")


def test_a_mistake_in_a_program_is_one_line_and_code_2(tmp_path):
    (tmp_path / "config.json").write_text("[]")
    done = run_process("evaluate", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    reason = "it does not hold an object; restore it or train again with --force"
    assert done.stderr == f"skillscape: {tmp_path}/config.json is damaged: {reason}.\n"


# From training to pictures


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_holds_all_that_a_run_holds(trained, method):
    folder = trained(method)
    results = json.loads((folder / "results.json").read_text())
    assert (results["method"], results["env"], results["seed"], results["steps"]) == (method, "maze/square_a", 0, 1600)
    assert list(results["measures"]) == MEASURES
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "versions.json", "metrics.csv", "evaluation.csv", "checkpoints", "skills"}
    assert not list(folder.rglob("*.partial"))


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_is_measured_as_json(capsys, trained, method):
    found = json.loads(shown(capsys, "evaluate", trained(method), "--json"))
    assert list(found) == MEASURES
    results = json.loads((trained(method) / "results.json").read_text())["measures"]
    for name, summary in found.items():
        assert summary == {"mean": results[name], "interval": None, "per_seed": [results[name]]}


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_is_drawn(capsys, trained, tmp_path, method):
    printed = shown(capsys, "plot", trained(method), "--out", tmp_path).splitlines()
    names = ["trajectories.png", "visitation.png"] + ([] if method == "cic" else ["density.png"])
    assert printed == [str(tmp_path / name) for name in names]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in printed)


def test_measures_are_printed_for_reading(capsys, trained):
    first, *lines = shown(capsys, "evaluate", trained("diayn")).splitlines()
    assert first == "diayn in maze/square_a, 1,600 steps, 1 seed"
    assert [line.split()[0] for line in lines] == MEASURES[:4]
    assert "nats" in lines[2]


def test_the_steps_that_were_trained_are_told_and_not_the_budget(capsys, copy):
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "checkpoints" / "000000001600")
    assert shown(capsys, "evaluate", copy).startswith("diayn in maze/square_a, 800 of 1,600 steps, 1 seed")
    shutil.rmtree(copy / "skills")
    assert "800 of 1,600 steps" in shown(capsys, "evaluate", copy)


def test_a_shared_policy_alone_was_trained_to_the_end(capsys, copy):
    for name in ("results.json", "metrics.csv", "evaluation.csv"):
        (copy / name).unlink()
    shutil.rmtree(copy / "checkpoints")
    assert "square_a, 1,600 steps" in shown(capsys, "evaluate", copy)


@pytest.mark.parametrize("command", ["evaluate", "plot"])
@pytest.mark.parametrize("part", ["config", "skills"])
def test_a_damaged_seed_is_named_and_the_others_are_measured(capsys, seeds, tmp_path, command, part):
    folder = shutil.copytree(seeds, tmp_path / "copy")
    if part == "config":
        (folder / "seed_7" / "config.json").write_text("[]")
    else:
        damage(folder / "seed_7" / "skills")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([command, str(folder)])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    (line,) = printed.err.splitlines()
    assert line.startswith("skillscape: left out: ")
    assert "seed_7" in line
    assert "1 seed" in printed.out or len(printed.out.splitlines()) == 3


def test_several_seeds_are_summarised(capsys, seeds):
    found = json.loads(shown(capsys, "evaluate", seeds, "--json"))
    for name in MEASURES:
        each = [json.loads((seeds / f"seed_{seed}" / "results.json").read_text())["measures"][name] for seed in (7, 8)]
        assert found[name]["per_seed"] == each
        assert found[name]["mean"] == pytest.approx(sum(each) / 2)
    said = shown(capsys, "evaluate", seeds)
    assert "95 % interval" in said
    assert said.splitlines()[-1] == "With 2 seeds, a 95 % bootstrap interval is about the range of the seeds."


def test_what_one_skill_cannot_tell_is_a_dash(capsys, trained, monkeypatch):
    measured = {name: None if name.startswith(("dist", "skill")) else 0.5 for name in MazeMeasures._fields}
    monkeypatch.setattr("skillscape.api.measure", lambda *_: MazeMeasures(**measured))
    lines = [line.split() for line in shown(capsys, "evaluate", trained("diayn")).splitlines()[1:]]
    assert lines[:4] == [
        ["coverage", "0.500"],
        ["reach", "0.500"],
        ["distinguishability", "–"],
        ["skill_accuracy", "–"],
    ]
    found = json.loads(shown(capsys, "evaluate", trained("diayn"), "--json"))
    assert found["coverage"]["mean"] == 0.5
    assert found["skill_accuracy"] is None


def test_several_seeds_are_drawn(capsys, seeds, tmp_path):
    assert len(shown(capsys, "plot", seeds, "--out", tmp_path).splitlines()) == 3


def test_one_seed_of_several_opens_alone(capsys, seeds):
    assert "1 seed" in shown(capsys, "evaluate", seeds / "seed_8")


def test_pictures_go_to_the_run_unless_told_otherwise(capsys, copy):
    assert shown(capsys, "plot", copy).splitlines()[0] == str(copy / "plots" / "trajectories.png")


def test_the_number_of_rollouts_can_be_chosen(capsys, trained):
    measured = [shown(capsys, "evaluate", trained("diayn"), "--json", "--rollouts", count) for count in (2, 4)]
    assert measured[0] != measured[1]


def test_a_maze_of_ones_own_goes_from_drawing_to_pictures(capsys, tmp_path):
    drawing = tmp_path / "corner.txt"
    drawing.write_text("S..\n##.\n")
    main(["pretrain", "diayn", *SMOKE, "--env", f"maze/{drawing}", "--out", str(tmp_path / "run")])
    drawing.unlink()  # the run keeps its maze
    assert json.loads(shown(capsys, "evaluate", tmp_path / "run", "--json"))["coverage"]["mean"] > 0
    assert len(shown(capsys, "plot", tmp_path / "run").splitlines()) == 3


def test_a_finished_run_is_left_as_it_is_on_resume(trained):
    folder = trained("diayn")
    before = files(folder)
    main(["pretrain", "diayn", *SMOKE, "--out", str(folder), "--resume"])
    assert files(folder) == before


# Settings


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


@pytest.mark.usefixtures("untrained")
def test_settings_reach_the_configuration(tmp_path):
    flags = (
        "--objective.number-of-skills 6 --objective.floor -2.5 --objective.architecture plain --backbone.hidden 32 16"
    )
    flags += " --backbone.normalise-inputs --backbone.learning-rate 1e-4 --steps 4000 --seed 5 --env maze/square_tree"
    main(["pretrain", "sd3", "--preset", "smoke", *flags.split(), "--out", str(tmp_path / "run")])
    config = config_of(tmp_path / "run")
    objective, backbone = config["objective"], config["backbone"]
    assert (objective["number_of_skills"], objective["floor"], objective["architecture"]) == (6, -2.5, "plain")
    assert (backbone["hidden"], backbone["normalise_inputs"], backbone["learning_rate"]) == ([32, 16], True, 1e-4)
    assert backbone["episodes"] == 8
    assert (config["steps"], config["seed"], config["env"]) == (4000, 5, "maze/square_tree")


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(("preset", "steps", "entropy"), [("paper", 250_000, 0.025), ("long", 6_250_000, None)])
def test_a_preset_decides_the_settings_not_given(tmp_path, preset, steps, entropy):
    main(["pretrain", "diayn", f"--preset={preset}", "--out", str(tmp_path / "run")])
    config = config_of(tmp_path / "run")
    assert config["steps"] == steps
    assert entropy is None or config["backbone"]["entropy"] == entropy


@pytest.mark.usefixtures("untrained")
def test_the_folder_is_named_after_method_and_maze(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["pretrain", "dads", "--env", "maze/square_tree"])
    assert config_of(tmp_path / "runs" / "dads-square_tree")["objective"]["name"] == "dads"


@pytest.mark.usefixtures("untrained")
def test_seeds_get_folders_of_their_own(tmp_path):
    main(["pretrain", "diayn", "--seed", "3", "--seeds", "2", "--out", str(tmp_path)])
    assert [config_of(tmp_path / f"seed_{seed}")["seed"] for seed in (3, 4)] == [3, 4]


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("pretrian", "did you mean 'pretrain'?"),
        ("xyzzy", "known are methods"),
        ("pretrain daiyn", "did you mean 'diayn'?"),
        ("pretrain extrinsic", "There is no method 'extrinsic'"),
        ("pretrain diayn --preset smokee", "did you mean 'smoke'?"),
        ("pretrain diayn --preset=papr", "did you mean 'paper'?"),
        ("pretrain diayn --env maze/squar_a", "did you mean 'square_a'?"),
        ("pretrain diayn --env maze/", "write maze/NAME"),
        ("pretrain diayn --env square_a", "write maze/NAME"),
        ("pretrain diayn --env atari/pong", "There is no environment 'atari/pong'"),
        ("pretrain diayn --env maze/missing.txt", "There is no maze file missing.txt"),
        ("pretrain diayn --steps 2499", "below one batch of 2,500 steps"),
        ("pretrain diayn --steps -5", "below one batch"),
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
        ("pretrain diayn --backbone.minibatches 2501", "--backbone.minibatches"),
        ("pretrain diayn --backbone.discount 1.5", "--backbone.discount"),
        ("pretrain diayn --backbone.trace-decay -0.1", "--backbone.trace-decay"),
        ("pretrain sd3 --objective.deviation-weight -1", "--objective.deviation-weight must be above zero"),
        ("pretrain cic --objective.temperature nan", "--objective.temperature must be a finite number"),
        ("evaluate missing", "missing does not exist"),
        ("evaluate missing --rollouts 1", "--rollouts must be at least 2"),
        ("plot missing", "missing does not exist"),
    ],
)
@pytest.mark.usefixtures("untrained")
def test_a_mistake_is_one_line_that_helps(capsys, monkeypatch, tmp_path, arguments, answer):
    monkeypatch.chdir(tmp_path)
    assert answer in refused(capsys, *arguments.split())
    assert not list(tmp_path.iterdir())


def test_no_method_is_a_mistake(capsys):
    assert "Say which method to train" in stopped(capsys, "pretrain")[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        "pretrain diayn --no-such-flag 1",
        "pretrain diayn --steps many",
        "pretrain sd3 --objective.density nonsense",
        "evaluate",
        "methods surplus",
    ],
)
def test_what_the_parser_refuses_ends_with_code_2(capsys, arguments):
    assert stopped(capsys, *arguments.split())


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
    env = f"maze/{tmp_path}/own.txt"
    assert answer in refused(capsys, "pretrain", "diayn", "--env", env, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Folders in the way


@pytest.mark.usefixtures("untrained")
def test_a_run_that_stands_there_is_neither_replaced_nor_touched(capsys, trained):
    folder = trained("diayn")
    before = files(folder)
    line = refused(capsys, "pretrain", "diayn", *SMOKE, "--out", folder)
    assert "--resume" in line
    assert "--force" in line
    assert files(folder) == before


@pytest.mark.usefixtures("untrained")
def test_force_replaces_a_run(copy):
    main(["pretrain", "dads", *SMOKE, "--out", str(copy), "--force"])
    assert config_of(copy)["objective"]["name"] == "dads"
    assert not (copy / "results.json").exists()


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("flag", ["--force", "--resume", "--seed=1"])
def test_a_folder_that_is_no_run_is_never_touched(capsys, tmp_path, flag):
    (tmp_path / "thesis.tex").write_text("years of work")
    before = files(tmp_path)
    assert "not a run" in refused(capsys, "pretrain", "diayn", *SMOKE, "--out", tmp_path, flag)
    assert files(tmp_path) == before


@pytest.mark.usefixtures("untrained")
def test_several_seeds_do_not_move_into_a_single_run(capsys, copy):
    before = files(copy)
    assert "single run" in refused(capsys, "pretrain", "diayn", *SMOKE, "--out", copy, "--seeds", 2)
    assert files(copy) == before


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_seeds_in_the_way_are_found_before_any_is_laid_out(capsys, tmp_path, flags):
    (tmp_path / "seed_1").mkdir()
    (tmp_path / "seed_1" / "thesis.tex").write_text("years of work")
    refused(capsys, "pretrain", "diayn", *SMOKE, "--out", tmp_path, "--seeds", 2, *flags)
    assert [path.name for path in tmp_path.iterdir()] == ["seed_1"]


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_file_in_the_way_of_the_run_is_one_line(capsys, tmp_path, out):
    (tmp_path / "file").write_text("in the way")
    assert "choose another --out" in refused(capsys, "pretrain", "diayn", *SMOKE, "--out", tmp_path / out)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_file_in_the_way_of_the_pictures_is_one_line(capsys, trained, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "choose another --out" in refused(capsys, "plot", trained("diayn"), "--out", tmp_path / "file")


def test_a_folder_in_the_way_of_the_log_is_one_sentence(capsys, tmp_path):
    (tmp_path / "run").mkdir()
    main_untrained = ["pretrain", "diayn", *SMOKE, "--out", str(tmp_path / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skillscape.api.train_all", lambda *_arguments, **_options: None)
        patch.setattr("skillscape.api._write_results", lambda _run: None)
        main(main_untrained)
    (tmp_path / "run" / "metrics.csv").mkdir()
    line = stopped(capsys, *main_untrained, "--resume")[-1]
    assert line.startswith("skillscape: ")
    assert "metrics.csv" in line


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_a_foreign_folder_is_one_line(capsys, tmp_path, command):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "holds no run" in refused(capsys, command, tmp_path)


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_a_run_without_a_checkpoint_is_one_line(capsys, copy, command):
    for part in ("skills", "checkpoints"):
        shutil.rmtree(copy / part)
    assert "holds no checkpoint yet" in refused(capsys, command, copy)


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_damaged_skills_are_one_line(capsys, copy, command):
    damage(copy / "skills")
    assert "is damaged" in refused(capsys, command, copy)


def damage(folder):
    path = folder / "arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def test_a_damaged_checkpoint_is_refused_and_the_one_before_offered(capsys, copy):
    (copy / "results.json").unlink()
    damage(copy / "checkpoints" / "000000001600")
    line = stopped(capsys, "pretrain", "diayn", *SMOKE, "--out", copy, "--resume")[-1]
    assert line.startswith("skillscape: ")
    assert f"delete it to go on from {copy}/checkpoints/000000000800" in line


def test_following_that_offer_gives_the_same_run(copy, trained):
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "checkpoints" / "000000001600")
    main(["pretrain", "diayn", *SMOKE, "--out", str(copy), "--resume"])
    for name in ("metrics.csv", "evaluation.csv", "results.json"):
        assert (copy / name).read_bytes() == (trained("diayn") / name).read_bytes()


@pytest.mark.usefixtures("untrained")
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
def test_a_run_is_not_resumed_with_other_settings(capsys, trained, flags, answer):
    folder = trained("diayn")
    before = files(folder)
    line = refused(capsys, "pretrain", "diayn", *SMOKE, "--out", folder, "--resume", *flags.split())
    assert answer in line
    assert files(folder) == before


def test_a_longer_budget_goes_on_where_the_run_ended(copy, trained):
    main(["pretrain", "diayn", "--preset", "smoke", "--steps", "2400", "--out", str(copy), "--resume"])
    whole = (copy / "metrics.csv").read_bytes()
    assert whole.startswith((trained("diayn") / "metrics.csv").read_bytes())
    assert [line.split(b",")[0] for line in whole.splitlines()[-2:]] == [b"2000", b"2400"]
    assert json.loads((copy / "results.json").read_text())["steps"] == 2400


@pytest.mark.parametrize("flag", ["--resume", "--force"])
def test_a_run_that_another_process_trains_is_left_to_it(capsys, copy, flag):
    (copy / "results.json").unlink()
    with Run(copy).locked():
        before = files(copy)
        line = stopped(capsys, "pretrain", "diayn", *SMOKE, "--out", copy, flag)[-1]
        assert "being trained by another process" in line
        assert files(copy) == before


# Progress


def some_run(seed=0):
    config = types.SimpleNamespace(seed=seed)
    return types.SimpleNamespace(config=config, end=2000, due=lambda step: step % 800 == 0 or step == 2000)


def test_progress_is_a_plain_line_per_evaluation_where_there_is_no_terminal(capsys):
    display = cli.display.Display(Path("runs/x"), 1)
    capsys.readouterr()
    for step in (400, 800, 1200, 1600, 2000):
        display.show(some_run(), step, f"{step} steps", {"reward": 1.0, "coverage": 0.5, "loss": 9.0})
    assert capsys.readouterr().err.splitlines() == [
        f"{step} steps · reward 1.00 · coverage 0.50" for step in (800, 1600, 2000)
    ]


def test_progress_is_told_between_evaluations_that_are_far_apart(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(cli.display.time, "perf_counter", lambda: now[0])
    display = cli.display.Display(Path("runs/x"), 1)
    for step, now[0] in ((100, 30.0), (200, 61.0), (300, 100.0), (400, 121.5)):
        display.show(some_run(), step, f"{step} steps", {})
    assert [line.split(" · ")[0] for line in capsys.readouterr().err.splitlines()] == ["200 steps", "400 steps"]


def test_progress_of_several_seeds_counts_those_that_are_done(capsys):
    display = cli.display.Display(Path("runs/x"), 2)
    capsys.readouterr()
    display.show(some_run(seed=4), 2000, "2000 steps", {})
    assert capsys.readouterr().err.startswith("1/2 seeds done · seed 4 · 2000 steps")


def test_progress_rewrites_one_line_on_a_terminal_even_if_the_output_goes_elsewhere(monkeypatch):
    reader, writer = pty.openpty()
    with open(writer, "w") as terminal:  # noqa: PTH123  a file descriptor
        monkeypatch.setattr(sys, "stderr", terminal)
        display = cli.display.Display(Path("runs/x"), 1)
        display.show(some_run(), 400, "400 steps", {"reward": 1.0})
        terminal.flush()
        text = os.read(reader, 10_000).decode()
    os.close(reader)
    assert "\r\x1b[K" in text
