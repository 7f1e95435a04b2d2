"""The notebooks of examples/ run from the first cell to the last, and are committed with small outputs."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))
MOST_BYTES = 200_000


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == ["1_maze", "2_environment", "3_method", "4_controller"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_its_outputs(path):
    code = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the kernel's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(nbformat.read(path, as_version=4), timeout=900, kernel_name="python3", resources=resources).execute()
