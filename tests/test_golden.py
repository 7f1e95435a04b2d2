"""Today's code against the golden numbers: to the bit on the machine that made them, to 1e-5 on another."""

import json
import subprocess
import sys

import pytest
from golden_runs import CASES, FILE, QUICK, machine, numbers

GOLDEN = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all cases: fine-tunings begin with a pre-training that another case made."""
    return tmp_path_factory.mktemp("golden")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_the_numbers_have_not_moved(folder, name):
    # In a process of its own: other tests compile without optimisation, which moves the last digits.
    command = [sys.executable, "-c", f"import golden_runs as g, pathlib; f = pathlib.Path({str(folder)!r}); "]
    command[-1] += f"g.CASES[{name!r}](f / {name!r}, f)"
    subprocess.run(command, check=True, cwd=FILE.parent.parent)
    made, wanted = numbers(folder / name), GOLDEN["cases"][name]
    if machine() == GOLDEN["machine"]:
        assert made == wanted
        return
    for log in ("metrics", "evaluation"):
        assert made[log][:1] == wanted[log][:1]
        for row, golden in zip(made[log][1:], wanted[log][1:], strict=True):
            numbers_made, numbers_wanted = ([float(entry) for entry in one] for one in (row, golden))
            assert numbers_made == pytest.approx(numbers_wanted, rel=1e-5, abs=1e-5, nan_ok=True)
