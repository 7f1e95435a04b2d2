"""What the documents say must be there: links, commands, modules, the numbers of the results, and code that runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from skillscape import cli

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", ROOT / "docs" / "results" / "mazes.md"], ids=lambda path: path.name
)
def test_maze_table_is_the_committed_one(document):
    rows = [line for line in (ROOT / "results/maze/table.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) >= 5
    text = document.read_text()
    assert [row for row in rows if row not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document):
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL))
    told = set(re.findall(r"^skillscape (\w+)", blocks, re.MULTILINE))
    known = set(re.findall(r"^  (\w+) ", cli.USAGE, re.MULTILINE))
    assert told <= known


def test_the_walks_of_a_transition_name_files_and_functions_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`: (.*)", text, re.MULTILINE)
    assert len(steps) > 15
    for path, told in steps:
        source = (ROOT / "src" / "skillscape" / path).read_text()
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", told):
            assert re.search(rf"(def|class) {name}\b|import .*{name}|^    {name},", source, re.MULTILINE), (path, name)


def run_python(folder, *blocks):
    script = folder / "script.py"
    script.write_text("\n\n".join(blocks))
    subprocess.run([sys.executable, str(script)], cwd=folder, check=True, timeout=600)


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_code_in_the_readme_runs(tmp_path):
    (block,) = python_blocks("README.md")
    small = block.replace('"maze/square_a", out', '"maze/square_a", preset="smoke", out').replace("50_000", "2_000")
    assert small.count("smoke") == small.count("2_000") == 1
    run_python(tmp_path, small)


@pytest.mark.slow
def test_the_plug_ins_of_the_document_are_trained(tmp_path):
    *classes, logger = python_blocks("docs/plugins.md")
    assert len(classes) == 3
    use = """
run = skillscape.pretrain("linear", "plane", backbone="reinforce", preset="smoke", out="mine", progress=False)
assert run.config.label == "Linear DIAYN"
tuned = skillscape.finetune(run, "corner", out="mine-corner", progress=False)
assert tuned.results["measures"]["return"] > 0
assert skillscape.evaluate(run, episodes=2).measures["skill_accuracy"] is not None
"""
    run_python(tmp_path, *classes, logger, use)
