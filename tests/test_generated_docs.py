"""The generated pages are what the generator writes now: `make docs-generated` writes them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMPARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from generate_docs import pages
json.dump(pages(), sys.stdout)
"""


@pytest.fixture(scope="module")
def pages():
    """In a process of its own: the suite's own checks of types would stand in the help texts."""
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(ROOT / "tools")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_committed_pages_are_up_to_date(pages):
    stale = [name for name, text in pages.items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "run `make docs-generated` and commit what it writes"


def test_no_page_of_a_method_that_is_gone(pages):
    assert {path.name for path in (ROOT / "docs" / "methods").glob("*.md")} == {
        Path(name).name for name in pages if name.startswith("methods/")
    }
