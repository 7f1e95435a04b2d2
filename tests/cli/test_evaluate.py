"""From training to measures and pictures: every command end to end on tiny runs, and what damage costs."""

import json
import shutil
from pathlib import Path

import jax
import pytest

from skillscape.cli import main
from skillscape.evaluation.mazes import MazeMeasures
from skillscape.training.run import Run

METHODS = ("cic", "dads", "diayn", "sd3")
MEASURES = [
    "coverage",
    "reach",
    "mutual_information",
    "skill_accuracy",
    "mutual_information_error",
    "skill_accuracy_error",
]
MODEL = ["model_accuracy", "model_information"]
SD3_MODEL = [
    f"{name}_{where}"
    for name in ("bonus", "density_deviation")
    for where in ("other_skills", "own_skill", "random_walks")
]
OF_METHODS = {
    "cic": MEASURES,
    "dads": [*MEASURES, *MODEL],
    "diayn": [*MEASURES, *MODEL],
    "sd3": [*MEASURES, *MODEL, *SD3_MODEL],
}
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


def shown(capsys, *arguments):
    """What a command that succeeds prints."""
    capsys.readouterr()
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def measured(capsys, *arguments):
    return json.loads(shown(capsys, "evaluate", *arguments, "--json"))["measures"]


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


# From training to pictures


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_holds_all_that_a_run_holds(trained, method):
    folder = trained(method)
    results = json.loads((folder / "results.json").read_text())
    assert (results["method"], results["env"], results["seed"], results["steps"]) == (method, "maze/square_a", 0, 1600)
    assert list(results["measures"]) == OF_METHODS[method]
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "versions.json", "metrics.csv", "evaluation.csv", "checkpoints", "skills"}
    assert names >= {"snapshots", "rollouts", "tensorboard"}
    assert sorted(path.name for path in (folder / "rollouts").iterdir()) == [
        f"{step:012d}.npz" for step in (0, 800, 1600)
    ]
    assert not list(folder.rglob("*.partial"))


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_is_measured_as_json(capsys, trained, method):
    told = json.loads(shown(capsys, "evaluate", trained(method), "--json"))
    assert list(told) == ["measures", "runs"]
    assert list(told["measures"]) == OF_METHODS[method]
    results = json.loads((trained(method) / "results.json").read_text())["measures"]
    for name, summary in told["measures"].items():
        assert summary == {"mean": results[name], "interval": None, "per_seed": [results[name]]}
    assert told["runs"] == [{"seed": 0, "step": 1600, "measures": results, "returns": {}, "finetuned": None}]


@pytest.mark.parametrize("method", METHODS)
def test_a_trained_method_is_drawn(capsys, trained, tmp_path, method):
    printed = shown(capsys, "plot", trained(method), "--out", tmp_path).splitlines()
    density = [] if method == "cic" else ["density.png"]
    routing = ["routing.png"] if method == "sd3" else []
    names = ["trajectories.png", "visitation.png", *density, "evaluation.png", "metrics.png", *routing]
    assert printed == [str(tmp_path / name) for name in names]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in printed)


def test_measures_are_printed_for_reading(capsys, trained):
    first, *lines = shown(capsys, "evaluate", trained("diayn")).splitlines()
    assert first == "diayn in maze/square_a, 1,600 steps, 1 seed"
    assert [line.split()[0] for line in lines] == [*MEASURES[:4], *MODEL]
    assert "nats" in lines[2]
    assert lines[5].endswith(" nats")
    assert "interval" not in "".join(lines)


def test_the_steps_that_were_trained_are_told_and_not_the_budget(capsys, copy):
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "checkpoints" / "000000001600")
    shutil.rmtree(copy / "snapshots")
    assert shown(capsys, "evaluate", copy).startswith("diayn in maze/square_a, 800 of 1,600 steps, 1 seed")
    shutil.rmtree(copy / "skills")
    assert "800 of 1,600 steps" in shown(capsys, "evaluate", copy)


def test_a_shared_policy_alone_was_trained_to_the_end(capsys, copy, trained):
    for name in ("results.json", "metrics.csv", "evaluation.csv"):
        (copy / name).unlink()
    for name in ("checkpoints", "snapshots", "rollouts", "tensorboard"):
        shutil.rmtree(copy / name)
    assert "square_a, 1,600 steps" in shown(capsys, "evaluate", copy)
    whole = measured(capsys, trained("diayn"))
    assert measured(capsys, copy) == {name: whole[name] for name in MEASURES}


@pytest.mark.parametrize("command", ["evaluate", "plot"])
@pytest.mark.parametrize("part", ["config", "snapshots"])
def test_a_damaged_seed_is_named_and_the_others_are_measured(capsys, seeds, tmp_path, command, part):
    folder = shutil.copytree(seeds, tmp_path / "copy")
    if part == "config":
        (folder / "seed_7" / "config.json").write_text("[]")
    else:
        damage(folder / "seed_7" / "snapshots" / "000000001600")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([command, str(folder)])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    (line,) = printed.err.splitlines()
    assert line.startswith("skillscape: left out: ")
    assert "seed_7" in line
    assert "1 seed" in printed.out or len(printed.out.splitlines()) == 5


def test_several_seeds_are_summarised(capsys, seeds):
    found = measured(capsys, seeds)
    for name in MEASURES:
        each = [json.loads((seeds / f"seed_{seed}" / "results.json").read_text())["measures"][name] for seed in (7, 8)]
        assert found[name]["per_seed"] == each
        assert found[name]["mean"] == pytest.approx(sum(each) / 2)
    said = shown(capsys, "evaluate", seeds)
    assert "95 % interval" in said
    assert said.splitlines()[-1] == "With 2 seeds, a 95 % bootstrap interval is about the range of the seeds."


def test_what_one_skill_cannot_tell_is_a_dash(capsys, trained, monkeypatch):
    values = {name: None if name.startswith(("mutual", "skill")) else 0.5 for name in MazeMeasures._fields}
    monkeypatch.setattr("skillscape.evaluation.evaluators.measure", lambda *_: MazeMeasures(**values))
    lines = [line.split() for line in shown(capsys, "evaluate", trained("diayn")).splitlines()[1:]]
    assert lines[:4] == [
        ["coverage", "0.500"],
        ["reach", "0.500"],
        ["mutual_information", "–"],
        ["skill_accuracy", "–"],
    ]
    found = measured(capsys, trained("diayn"))
    assert found["coverage"]["mean"] == 0.5
    assert found["skill_accuracy"] is None


def test_several_seeds_are_drawn(capsys, seeds, tmp_path):
    assert len(shown(capsys, "plot", seeds, "--out", tmp_path).splitlines()) == 5


def test_one_seed_of_several_opens_alone(capsys, seeds):
    assert "1 seed" in shown(capsys, "evaluate", seeds / "seed_8")


def test_pictures_go_to_the_run_unless_told_otherwise(capsys, copy):
    assert shown(capsys, "plot", copy).splitlines()[0] == str(copy / "plots" / "trajectories.png")


def test_the_number_of_episodes_can_be_chosen(capsys, trained):
    found = [shown(capsys, "evaluate", trained("diayn"), "--json", "--episodes", count) for count in (2, 4)]
    assert found[0] != found[1]
    assert "--episodes must be at least 2, not 1" in refused(capsys, "evaluate", trained("diayn"), "--episodes", 1)


def test_a_task_is_measured_by_what_each_skill_earns(capsys, trained):
    lines = shown(capsys, "evaluate", trained("diayn"), "--task", "reach", "--episodes", 1).splitlines()
    assert lines[0] == "diayn in maze/square_a, reach, 1,600 steps, 1 seed"
    assert lines[5] == "  mean return of each skill"
    assert len(lines) == 6 + 10
    assert "is not a task of the maze square_a" in refused(capsys, "evaluate", trained("diayn"), "--task", "walk")


def test_a_maze_of_ones_own_goes_from_drawing_to_pictures(capsys, tmp_path):
    drawing = tmp_path / "corner.txt"
    drawing.write_text("S..\n##.\n")
    main(["pretrain", "diayn", *SMOKE, "--env", f"maze/{drawing}", "--out", str(tmp_path / "run")])
    drawing.unlink()  # the run keeps its maze
    assert measured(capsys, tmp_path / "run")["coverage"]["mean"] > 0
    assert len(shown(capsys, "plot", tmp_path / "run").splitlines()) == 5


def test_a_run_is_fine_tuned_and_measured_on_its_task(capsys, trained, tmp_path):
    main(["finetune", str(trained("diayn")), "--steps", "400", "--skill", "2", "--out", str(tmp_path / "tuned")])
    lines = shown(capsys, "evaluate", tmp_path / "tuned", "--episodes", 2).splitlines()
    assert lines[0] == "diayn in maze/square_a, reach, 400 steps, 1 seed"
    assert [line.split()[:2] for line in lines if line.endswith("fine-tuned")] == [["skill", "2"]]
    assert len(shown(capsys, "plot", tmp_path / "tuned").splitlines()) >= 2


# Going on


def test_a_finished_run_is_left_as_it_is_on_resume(trained):
    folder = trained("diayn")
    before = files(folder)
    main(["pretrain", "diayn", *SMOKE, "--out", str(folder), "--resume"])
    assert files(folder) == before


def test_a_longer_budget_goes_on_where_the_run_ended(copy, trained):
    main(["pretrain", "diayn", "--preset", "smoke", "--steps", "2400", "--out", str(copy), "--resume"])
    whole = (copy / "metrics.csv").read_bytes()
    assert whole.startswith((trained("diayn") / "metrics.csv").read_bytes())
    assert [line.split(b",")[0] for line in whole.splitlines()[-2:]] == [b"2000", b"2400"]
    assert json.loads((copy / "results.json").read_text())["steps"] == 2400
    assert Run(copy).trained_policy().step == 2400


def test_a_damaged_checkpoint_is_refused_and_the_one_before_offered(capsys, copy):
    (copy / "results.json").unlink()
    damage(copy / "checkpoints" / "000000001600")
    line = stopped(capsys, "pretrain", "diayn", *SMOKE, "--out", copy, "--resume")[-1]
    assert line.startswith("skillscape: ")
    assert f"delete it to continue from {copy}/checkpoints/000000000800" in line


def test_following_that_offer_gives_the_same_run(copy, trained):
    (copy / "results.json").unlink()
    shutil.rmtree(copy / "checkpoints" / "000000001600")
    main(["pretrain", "diayn", *SMOKE, "--out", str(copy), "--resume"])
    for name in ("metrics.csv", "evaluation.csv", "results.json"):
        assert (copy / name).read_bytes() == (trained("diayn") / name).read_bytes()
    for part in ("skills", "snapshots/000000001600"):
        ours, theirs = ((folder / part / "arrays.safetensors").read_bytes() for folder in (copy, trained("diayn")))
        assert ours == theirs


@pytest.mark.parametrize("flag", ["--resume", "--force"])
def test_a_run_that_another_process_trains_is_left_to_it(capsys, copy, flag):
    (copy / "results.json").unlink()
    with Run(copy).locked():
        before = files(copy)
        line = stopped(capsys, "pretrain", "diayn", *SMOKE, "--out", copy, flag)[-1]
        assert "being trained by another process" in line
        assert files(copy) == before


def test_a_folder_in_the_way_of_the_log_is_one_sentence(capsys, tmp_path):
    arguments = ["pretrain", "diayn", *SMOKE, "--out", str(tmp_path / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skillscape.launch.train", lambda *_arguments, **_options: None)
        main(arguments)
    (tmp_path / "run" / "metrics.csv").mkdir()
    line = stopped(capsys, *arguments, "--resume")[-1]
    assert line.startswith("skillscape: ")
    assert "metrics.csv" in line


# Folders that cannot be measured


def test_a_file_in_the_way_of_the_pictures_is_one_line(capsys, trained, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "choose another --out" in refused(capsys, "plot", trained("diayn"), "--out", tmp_path / "file")


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_a_foreign_folder_is_one_line(capsys, tmp_path, command):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "holds no run" in refused(capsys, command, tmp_path)
    assert "missing does not exist" in refused(capsys, command, tmp_path / "missing")


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_a_run_without_a_checkpoint_is_one_line(capsys, copy, command):
    for part in ("skills", "checkpoints", "snapshots"):
        shutil.rmtree(copy / part)
    assert "has no checkpoint yet" in refused(capsys, command, copy)


@pytest.mark.parametrize("command", ["evaluate", "plot"])
def test_a_damaged_snapshot_is_one_line(capsys, copy, command):
    damage(copy / "snapshots" / "000000001600")
    assert "is damaged" in refused(capsys, command, copy)


def test_damaged_skills_of_a_shared_run_are_one_line(capsys, copy):
    for part in ("checkpoints", "snapshots"):
        shutil.rmtree(copy / part)
    damage(copy / "skills")
    assert "skills is damaged" in refused(capsys, "evaluate", copy)


def damage(folder):
    path = folder / "arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
