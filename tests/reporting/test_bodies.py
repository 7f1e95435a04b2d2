"""Bodies in reports and figures: read from the folders of runs, without an environment."""

import csv
import json

import numpy as np
import pytest
from fake_runs import fake_run, with_positions

from skillscape.cli import main
from skillscape.reporting.collect import stored_paths
from skillscape.reporting.html import build_page
from skillscape.reporting.report import gather
from skillscape.training.run import Run


@pytest.fixture
def runs(tmp_path):
    """Two methods, two seeds each; one of them was never measured by positions."""
    for method, value in (("diayn", 12.0), ("metra", 48.0)):
        for seed in range(2):
            with_positions(
                fake_run(tmp_path / "runs" / method / f"seed_{seed}", method, "walker", seed=seed), value + seed
            )
    fake_run(tmp_path / "runs" / "plain", "rnd", "walker")
    return tmp_path / "runs"


def test_a_section_holds_every_method_that_was_measured(runs):
    (section,) = gather([runs]).bodies
    assert (section.env, [panel.label for panel in section.panels]) == ("walker", ["DIAYN", "METRA"])
    first = section.panels[0]
    assert first.summaries["policy_coverage"].per_seed == (12.0, 13.0)
    assert first.summaries["total_coverage"] is None
    assert first.shown_seed == 0
    assert first.paths.shape == (3, 2, 6, 2)
    assert set(first.curves) == {"policy_coverage", "distance", "speed"}


def test_the_page_shows_table_and_picture(runs):
    page = build_page(gather([runs]), "")
    assert "<h2>walker</h2>" in page
    assert page.count("data:image/png;base64,") == 2
    assert "policy coverage" in page
    assert "total coverage</th>" not in page
    # Small numbers keep three digits.
    assert "0.00123" in page
    assert "walker: 2 methods" in page


def test_the_files_hold_the_numbers(runs, tmp_path):
    main(["report", str(runs), "--out", str(tmp_path / "report")])
    rows = list(csv.reader((tmp_path / "report" / "scores.csv").read_text().splitlines()))
    assert ["METRA", "walker", "policy_coverage", "1", "49.0"] in rows
    told = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [method["label"] for method in told["bodies"][0]["methods"]] == ["DIAYN", "METRA"]
    assert told["mazes"] == []


def test_a_damaged_file_leaves_its_run_out(runs):
    (path,) = (runs / "diayn" / "seed_0" / "rollouts").iterdir()
    path.write_text("no archive")
    said = []
    (section,) = gather([runs], on_message=said.append).bodies
    assert list(section.panels[0].seeds) == [1]
    assert any("is not an archive of positions" in line for line in said)
    path.unlink()
    gather([runs], on_message=said.append)
    assert any("lost its rollouts" in line for line in said)


def test_paths_are_drawn(runs, tmp_path, capsys):
    main(["plot", str(runs / "metra"), "--out", str(tmp_path / "plots")])
    assert "paths.png" in capsys.readouterr().out
    main(["plot", str(runs / "plain"), "--out", str(tmp_path / "others")])
    assert "paths.png" not in capsys.readouterr().out


def test_the_newest_evaluation_is_read(runs):
    folder = runs / "diayn" / "seed_0"
    np.savez(folder / "rollouts" / "000000000001.npz", positions=np.zeros((1, 1, 2, 1)))
    assert stored_paths(Run(folder)).shape == (3, 2, 6, 2)
