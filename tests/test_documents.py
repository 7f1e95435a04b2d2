"""What the documents say must be there: links and anchors, commands, modules, numbers of results, code that runs."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skillscape import cli
from skillscape.objectives import trainable

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def identifier(path):
    return path.relative_to(ROOT).as_posix()


def prose(path):
    """A document without its code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@functools.cache
def anchors(path):
    """The anchors of the headings of a document, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head) for head in heads]
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=identifier)
def test_links_and_anchors_lead_somewhere(document):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_a_wrong_anchor_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two: I(S;Z)\n```bash\n# not a heading\n```\n")
    assert anchors(page) == {"one-two-isz"}


@pytest.mark.parametrize("name", ["README.md", "docs/results/mazes.md"])
def test_maze_table_is_the_committed_one(name):
    rows = [line for line in (ROOT / "results/maze/table.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) >= 5
    text = (ROOT / name).read_text()
    assert [row for row in rows if row not in text] == []


# The page has the noisy scores themselves; their shares, at the end of that table, follow from them.
@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*/table.md")), ids=lambda path: path.parent.name)
def test_tables_of_the_results_are_the_committed_ones(path):
    rows = [line for line in path.read_text().partition("| noisy /")[0].splitlines() if line.startswith("| ")]
    assert rows
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "results").glob("*.md"))
    assert [row for row in rows if row not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=identifier)
def test_commands_exist(document):
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL))
    told = set(re.findall(r"^skillscape (\w+)", blocks, re.MULTILINE))
    known = set(re.findall(r"^  (\w+) ", cli.USAGE, re.MULTILINE))
    assert told <= known


GENERATED = [
    ROOT / "docs" / "backbones.md",
    ROOT / "docs" / "cli.md",
    *sorted((ROOT / "docs" / "methods").glob("*.md")),
]
SETTING = re.compile(r"--(?:objective|backbone|evaluation|env)\.[a-z][a-z0-9.-]*[a-z0-9]")


@functools.cache
def known_settings():
    return {flag for page in GENERATED for flag in SETTING.findall(page.read_text())}


@pytest.mark.parametrize("document", sorted(set(DOCUMENTS) - set(GENERATED)), ids=identifier)
def test_settings_exist(document):
    told = {re.sub(r"\.no-(?=[^.]*$)", ".", flag) for flag in SETTING.findall(document.read_text())}
    assert sorted(told - known_settings()) == []


def test_every_page_is_in_the_navigation_of_the_site():
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - listed == set()


def test_the_readme_lists_every_method():
    listed = re.findall(r"\| \[`(\w+)`\]\(docs/methods/", (ROOT / "README.md").read_text())
    assert sorted(listed) == sorted(trainable())


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
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_code_in_the_readme_runs(tmp_path):
    use, method = python_blocks("README.md")
    small = use.replace('"maze/square_a", out', '"maze/square_a", preset="smoke", out').replace("50_000", "2_000")
    assert small.count("smoke") == small.count("2_000") == 1
    own = method.replace('"maze/square_a", out', '"maze/square_a", preset="smoke", out')
    assert own.count("smoke") == 1
    run_python(tmp_path, small, own)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "adding-a-method.md",
        "adding-an-environment.md",
        "adding-a-backbone.md",
        "guides/loggers.md",
        "guides/using-skills.md",
        "zoo.md",
        "guides/reports.md",
    ],
)
def test_the_code_of_a_page_runs(tmp_path, name):
    blocks = python_blocks(f"docs/{name}")
    assert blocks
    text = (ROOT / "docs" / name).read_text()
    saved = dict(re.findall(r"Save\sthis\sas\s`(\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL))
    for module, block in saved.items():
        (tmp_path / module).write_text(block)
    run_python(tmp_path, *(block for block in blocks if block not in saved.values()))
