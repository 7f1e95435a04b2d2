"""What the documents say must be there: links, and the numbers of the committed results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("document", [ROOT / "README.md", ROOT / "docs" / "mazes.md"], ids=lambda path: path.name)
def test_maze_table_is_the_committed_one(document):
    rows = [line for line in (ROOT / "results/maze/table.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) >= 5
    text = document.read_text()
    assert [row for row in rows if row not in text] == []
