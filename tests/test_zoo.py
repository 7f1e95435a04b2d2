"""The zoo: entries that load, act, are measured and fine-tuned by name, and are never written to."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from untrained import untrained_run

import skillscape
from skillscape import zoo
from skillscape.cli import main
from skillscape.errors import Notice, UserError
from skillscape.export import command_of

ROOT = Path(__file__).parents[1]
LARGEST = 3_000_000
"""Bytes of all entries."""
EVERY_ENTRY = pytest.mark.parametrize("name", zoo.names())


def state_of(folder):
    """Every file with what it holds and when it was written."""
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in folder.rglob("*")}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder, and a check that no entry was changed while their folders could not be written."""
    monkeypatch.chdir(tmp_path)
    before = state_of(zoo.ZOO)
    folders = [zoo.ZOO, *(path for path in zoo.ZOO.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    modes = {path: path.stat().st_mode for path in folders}
    for path in folders:
        path.chmod(0o555)
    yield tmp_path
    for path, mode in modes.items():
        path.chmod(mode)
    assert state_of(zoo.ZOO) == before


def refusal(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_mazes_are_there():
    assert {"sd3-square_a", "diayn-square_a", "metra-square_a"} <= {*zoo.names()}


def test_all_entries_together_are_small():
    assert 0 < sum(path.stat().st_size for path in zoo.ZOO.rglob("*") if "__pycache__" not in path.parts) <= LARGEST


@EVERY_ENTRY
def test_the_page_lists_the_entry(name):
    config = skillscape.load(f"zoo/{name}").config
    page = (ROOT / "docs" / "zoo.md").read_text()
    assert (
        f"| `zoo/{name}` | `{config.env}` | [{config.label}](methods/{config.method}.md) | {config.steps:,} |" in page
    )


@EVERY_ENTRY
def test_an_entry_is_an_exported_pretraining_of_seed_0_with_the_command_that_trains_it(name):
    run = skillscape.load(f"zoo/{name}")
    assert run.config.phase == "pretrain"
    assert run.config.seed == 0
    assert run.trained_steps == run.end
    assert run.exported["command"] == command_of(run.config)
    assert {"git", "jax", "skillscape"} <= json.loads((run.folder / "versions.json").read_text()).keys()
    assert name == f"{run.config.method}-{run.config.family.folder_name(run.config.env)}"


def test_the_table_has_a_row_for_each_entry(capsys):
    main(["zoo"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "environment", "method", "steps", "measures", "size"]
    assert [row.split()[0] for row in rows] == [f"zoo/{name}" for name in zoo.names()]
    row = next(row for row in rows if row.startswith("zoo/sd3-square_a "))
    assert "maze/square_a  sd3" in row
    measures = skillscape.load("zoo/sd3-square_a").results["measures"]
    assert f"250,000  coverage {measures['coverage']:.3g} · reach {measures['reach']:.3g} · I(S;Z) " in row
    assert row.endswith(" kB")


def test_an_entry_is_shown_with_its_command_and_commit(capsys):
    main(["zoo", "sd3-square_a"])
    shown = capsys.readouterr().out
    assert "skillscape pretrain sd3 --env maze/square_a --steps 250000 --seed 0\n" in shown
    main(["zoo", "zoo/sd3-square_a", "--json"])
    (entry,) = json.loads(capsys.readouterr().out).values()
    assert entry["versions"]["git"] in shown
    assert entry["measures"] == skillscape.load("zoo/sd3-square_a").results["measures"]


def test_listing_does_not_start_jax():
    program = "import sys; from skillscape.cli import main; main(['zoo']); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_an_entry_acts_in_a_loop(elsewhere):
    run, env, ends = skillscape.load("zoo/sd3-square_a"), skillscape.make("maze/square_a"), []
    for skill in range(10):
        policy = run.policy(skill=skill)
        obs, _ = env.reset(seed=0)
        for _ in range(50):
            obs, _, _, truncated, _ = env.step(policy(obs))
        assert truncated
        ends.append(obs)
    assert np.ptp(ends, axis=0).max() > 3


@EVERY_ENTRY
def test_an_entry_is_as_good_as_it_says(elsewhere, name):
    run = skillscape.load(f"zoo/{name}")
    if run.layout is None:
        pytest.skip("returns of whole episodes of a body take a while")
    measures = skillscape.evaluate(run).measures
    for measure in ("coverage", "reach", "mutual_information", "skill_accuracy"):
        assert measures[measure] == pytest.approx(run.results["measures"][measure], abs=0.1)


def test_commands_write_to_a_folder_of_their_own(elsewhere, capsys):
    main(["evaluate", "zoo/sd3-square_a", "--episodes", "2"])
    main(["plot", "zoo/sd3-square_a"])
    main(["goals", "zoo/sd3-square_a"])
    made = elsewhere / "runs" / "zoo-sd3-square_a"
    assert {path.name for path in made.iterdir()} == {"plots", "goals.json"}
    assert {"trajectories.png", "density.png", "goals.png", "evaluation.png"} <= {
        p.name for p in (made / "plots").iterdir()
    }
    main(["plot", "zoo/sd3-square_a", "--out", "figures"])
    assert (elsewhere / "figures" / "trajectories.png").exists()


def test_videos_go_to_the_same_folder(elsewhere):
    pytest.importorskip("av")
    main(["video", "zoo/sd3-square_a", "--skill", "0", "--rollouts", "2", "--steps", "3", "--size", "64"])
    assert (elsewhere / "runs" / "zoo-sd3-square_a" / "videos" / "skill_00.mp4").exists()


def test_all_entries_make_a_report(elsewhere):
    pytest.importorskip("plotly")
    main(["report", "zoo", "--out", "report"])
    report = json.loads((elsewhere / "report" / "report.json").read_text())
    assert {Path(run).name for run in report["runs"]} == {*zoo.names()}
    assert report["left_out"] == []


def test_an_entry_is_fine_tuned(elsewhere):
    flags = ["--task", "reach", "--skill", "1", "--steps", "2500", "--evaluation.every", "2500"]
    main(["finetune", "zoo/diayn-square_a", *flags])
    tuned = skillscape.load("runs/diayn-square_a-reach")
    assert tuned.results["source"] == "zoo/diayn-square_a"
    assert tuned.end == 2_500


def test_a_controller_names_the_entry_whose_skills_it_chooses(elsewhere):
    main(["control", "zoo/diayn-square_a", "--task", "reach", "--steps", "2500", "--backbone.minibatches", "2"])
    run = skillscape.load("runs/diayn-square_a-reach-control")
    assert run.config.env == "skills/zoo/diayn-square_a"
    assert skillscape.SkillEnv(("maze/square_a", "reach"), "zoo/diayn-square_a").action_space.n == 10


def test_a_policy_is_loaded_by_name(elsewhere):
    obs = np.zeros(2, np.float32)
    policy = skillscape.Policy.load("zoo/sd3-square_a", 2)
    np.testing.assert_array_equal(policy(obs), skillscape.load("zoo/sd3-square_a").policy(2)(obs))


@pytest.mark.parametrize("command", [["evaluate"], ["plot"], ["finetune"], ["report"], ["zoo"], ["video"]])
def test_an_unknown_name_is_refused_with_those_there_are(elsewhere, capsys, command):
    error = refusal([*command, "zoo/sd3-maze"], capsys)
    assert "There is no run 'zoo/sd3-maze'" in error
    assert all(f"zoo/{name}" in error for name in zoo.names())
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("flag", [[], ["--resume"], ["--force"]])
def test_nothing_is_trained_into_the_zoo(elsewhere, capsys, flag):
    for out in ("zoo/sd3-square_a", "zoo/new", str(zoo.ZOO / "sd3-square_a")):
        error = refusal(["pretrain", "sd3", "--preset", "smoke", "--out", out, *flag], capsys)
        assert "zoo/ names the runs of the package; choose another --out" in error or "other settings" in error
        with pytest.raises(UserError):
            skillscape.pretrain("sd3", out=out, preset="smoke", force="--force" in flag, resume="--resume" in flag)
    assert list(elsewhere.iterdir()) == []


def test_a_run_here_of_the_same_name_comes_first_and_is_told(elsewhere):
    untrained_run(elsewhere / "zoo" / "sd3-square_a", "diayn")
    untrained_run(elsewhere / "zoo" / "mine", "cic")
    with pytest.warns(Notice, match="is the run in the current folder, not that of the package"):
        assert skillscape.load("zoo/sd3-square_a").config.method == "diayn"
    assert skillscape.load("zoo/mine").config.method == "cic"
    assert skillscape.load("zoo/diayn-square_a").folder == zoo.ZOO / "diayn-square_a"
    shutil.rmtree(elsewhere / "zoo")


def test_a_folder_here_without_a_run_does_not_hide_an_entry(elsewhere):
    (elsewhere / "zoo" / "sd3-square_a" / "plots").mkdir(parents=True)
    assert skillscape.load("zoo/sd3-square_a").folder == zoo.ZOO / "sd3-square_a"


def test_other_paths_are_as_they_are(tmp_path):
    for path in ("runs/zoo", "zoology/a", tmp_path / "zoo" / "a"):
        assert zoo.locate(path) == Path(path)
        assert zoo.output_folder(Path(path)) == Path(path)


@pytest.mark.slow
def test_the_wheel_has_every_file(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": ""})
    (wheel,) = tmp_path.glob("*.whl")
    files = [path for path in zoo.ZOO.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as archive:
        for path in files:
            inside = f"skillscape/zoo/{path.relative_to(zoo.ZOO).as_posix()}"
            assert archive.read(inside) == path.read_bytes()
