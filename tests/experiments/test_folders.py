"""Where `skillscape reproduce` writes: committed results are made by their own command and touched by no other."""

import json
import re
from pathlib import Path

import pytest

from skillscape.cli import main
from skillscape.cli.execution import Execution
from skillscape.experiments.engine import ExecutionReport
from skillscape.experiments.paper import registry
from skillscape.experiments.results import Results

PROJECT = Path(__file__).parents[2]
TABLE = (PROJECT / "docs" / "reproduce.md").read_text()
COMMANDS = re.findall(r"^\| `(skillscape reproduce [^`]*)` \|.*\| ([^|]*) \|$", TABLE, re.MULTILINE)


@pytest.fixture
def written(monkeypatch):
    """Folders that results would go to; nothing is trained."""
    folders = []
    monkeypatch.setattr(Execution, "train", lambda *_: ExecutionReport())
    monkeypatch.setattr(Results, "read", lambda *_: None)
    for kind in registry().values():
        monkeypatch.setattr(kind, "analyse", lambda *given: folders.append(given[3]) or [])
    return folders


def targets(written, line, out):
    written.clear()
    main([*line.split()[1:], "--out", str(out)])
    return {folder.relative_to(out).as_posix() for folder in written}


@pytest.mark.parametrize(("line", "links"), [one for one in COMMANDS if "results/" in one[1]])
def test_the_commands_of_the_document_write_the_committed_folders(written, line, links):
    # The budget of 500,000 steps has a command of its own, which the results name.
    linked = {name for name in re.findall(r"\(\.\./results/([^)]*)\)", links) if not name.endswith("-500000")}
    assert targets(written, line, PROJECT / "results") == linked


def test_every_committed_folder_is_that_of_its_command(written):
    for path in (PROJECT / "results").glob("*/raw.json"):
        line = json.loads(path.read_text()).get("command")
        if line is not None:
            assert path.parent.name in targets(written, line, PROJECT / "results")


@pytest.mark.parametrize(
    "line",
    [
        "urlb --domains walker --methods ddpg diayn --seeds 1 --preset smoke",
        "urlb --domains walker",
        "urlb --domains walker --methods ddpg sd3 diayn --seeds 3 --steps 100000 --finetuning-steps 50000",
        "urlb --domains walker --methods ddpg sd3 --seeds 2 --steps 100000 --finetuning-steps 50000",
        "urlb --domains walker --methods ddpg sd3 diayn --seeds 2 --steps 100000",
        "urlb --tasks walker_stand",
        "pixels --tasks walker_stand",
        "robustness --domains walker --seeds 1",
        "maze --seeds 2",
        "maze --methods sd3",
        "maze --methods sd3 apt",
        "maze --steps 50000",
        "maze --preset smoke",
        "maze-pixels --seeds 2",
        "tree --methods sd3",
        "ablation-lambda",
        "maps --seed 1",
        "maps --steps 50000",
    ],
)
def test_another_size_or_part_of_an_experiment_has_a_folder_of_its_own(written, line):
    committed = {path.name for path in (PROJECT / "results").iterdir()}
    found = targets(written, f"skillscape reproduce {line}", PROJECT / "results")
    assert found
    assert not found & committed


def test_the_same_settings_in_other_words_are_the_same_experiment(written):
    assert targets(written, "skillscape reproduce maze", PROJECT / "results") == {"maze"}


def test_a_longer_name_is_told_and_stays(written, capsys, tmp_path):
    (tmp_path / "maze").mkdir()
    (tmp_path / "maze" / "raw.json").write_text("damaged")
    for _ in range(2):
        assert targets(written, "skillscape reproduce maze --methods sd3 --seeds 1", tmp_path) == {"maze-sd3-1-seed"}
        assert "holds results of other settings; these go to" in capsys.readouterr().err


def test_results_that_are_in_the_way_under_both_names_are_kept(written, capsys, tmp_path):
    for name in ("maze", "maze-sd3-1-seed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "raw.json").write_text("{}")
    with pytest.raises(SystemExit):
        targets(written, "skillscape reproduce maze --methods sd3 --seeds 1", tmp_path)
    assert "choose another --out" in capsys.readouterr().err
    assert not written
