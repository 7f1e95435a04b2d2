"""The report: finding, labelling and leaving out runs, files, and refusals."""

import csv
import json
import os
import shutil
import stat

import fake_runs
import numpy as np
import pytest
from fake_runs import fake_run

from skillscape import cli
from skillscape.configure import from_scratch
from skillscape.errors import UserError
from skillscape.reporting import mazes, report
from skillscape.reporting.collect import find_runs
from skillscape.reporting.files import report_json, score_rows, write_report
from skillscape.reporting.html import facts
from skillscape.reporting.report import gather
from skillscape.training.cost import write_timing

WALK = ("walker", "walker_walk")


def labels(section):
    return [panel.label for panel in section.panels]


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# Finding and grouping


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    tenth = fake_run(tmp_path / "deep" / "er" / "cic" / "seed_10")
    ninth = fake_run(tmp_path / "deep" / "er" / "cic" / "seed_9")
    (tenth / "plots").mkdir()
    (tenth / "plots" / "config.json").write_text("what a run keeps inside is its own")
    folders = [folder for _, folder in find_runs([tmp_path, tmp_path / "deep", tenth])]
    assert folders == [ninth, tenth]


def test_seeds_are_one_row(tmp_path):
    (section,) = gather([fake_runs.mazes(tmp_path)]).mazes
    assert labels(section) == ["CIC", "DIAYN"]
    assert section.panels[0].seeds == [0, 1]
    assert section.panels[0].summaries["coverage"].per_seed == (0.7, 0.71)


def test_the_shown_seed_is_the_median(tmp_path):
    for seed, value in enumerate((0.2, 0.9, 0.5)):
        fake_run(tmp_path / f"seed_{seed}", seed=seed, value=value)
    (section,) = gather([tmp_path]).mazes
    assert section.panels[0].shown_seed == 2
    assert section.panels[0].captions[-1] == "coverage 0.52 · reach 0.54 · I(S;Z) 0.56"


def test_folders_of_other_seeds_with_the_same_settings_join(tmp_path):
    fake_run(tmp_path / "first", seed=0)
    fake_run(tmp_path / "second", seed=1)
    (section,) = gather([tmp_path]).mazes
    assert [panel.seeds for panel in section.panels] == [[0, 1]]


def test_one_method_in_two_settings_is_labelled_by_them(tmp_path):
    for ratio in (0.0, 0.04):
        fake_run(tmp_path / f"alpha-{ratio}", "sd3", objective={"exploration_ratio": ratio})
    (section,) = gather([tmp_path]).mazes
    assert labels(section) == ["SD3 · exploration ratio 0.0", "SD3 · exploration ratio 0.04"]


def test_the_same_settings_and_seeds_twice_are_labelled_by_folder(tmp_path):
    fake_run(tmp_path / "a" / "diayn")
    fake_run(tmp_path / "b" / "diayn")
    (section,) = gather([tmp_path]).mazes
    assert labels(section) == ["DIAYN · a/diayn", "DIAYN · b/diayn"]


def test_every_maze_has_a_section(tmp_path):
    fake_run(tmp_path / "a")
    fake_run(tmp_path / "b", env="maze/square_tree")
    assert [section.env for section in gather([tmp_path]).mazes] == ["maze/square_a", "maze/square_tree"]


def test_a_maze_by_two_paths_is_one_maze(tmp_path, monkeypatch):
    (tmp_path / "corner.txt").write_text("S..\n##.\n")
    monkeypatch.chdir(tmp_path)
    fake_run(tmp_path / "runs" / "a", env="maze/corner.txt", seed=0)
    fake_run(tmp_path / "runs" / "b", env=f"maze/{tmp_path / 'corner.txt'}", seed=1)
    gathered = gather([tmp_path / "runs"])
    (section,) = gathered.mazes
    assert section.env == "maze/corner"
    assert [panel.seeds for panel in section.panels] == [[0, 1]]
    assert {row[1] for row in score_rows(gathered)} == {"maze/corner"}


def test_two_mazes_of_one_name_are_two(tmp_path):
    for place, drawing in (("a", "S..\n##.\n"), ("b", "S..\n..#\n")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "corner.txt").write_text(drawing)
        fake_run(tmp_path / "runs" / place, env=f"maze/{tmp_path / place / 'corner.txt'}")
    envs = [section.env for section in gather([tmp_path / "runs"]).mazes]
    assert envs == [f"maze/{tmp_path / place / 'corner.txt'}" for place in "ab"]


def test_a_maze_from_images_is_reported_like_one_from_positions(tmp_path):
    for seed in range(2):
        fake_run(tmp_path / "runs" / "positions" / f"seed_{seed}", seed=seed)
        fake_run(tmp_path / "runs" / "images" / f"seed_{seed}", env="maze-pixels/square_a", seed=seed, value=0.6)
    gathered = gather([tmp_path / "runs"])
    assert [section.env for section in gathered.mazes] == ["maze-pixels/square_a", "maze/square_a"]
    (panel,) = gathered.mazes[0].panels
    assert (panel.label, panel.seeds, panel.density) == ("DIAYN", [0, 1], None)
    assert panel.summaries["coverage"].per_seed == (0.6, 0.61)
    assert panel.frames.shape == (4, 4, 3, 6, 2)
    assert list(panel.frame_steps) == list(fake_runs.STEPS)
    rows = [row for row in score_rows(gathered) if row[1] == "maze-pixels/square_a"]
    assert len(rows) == 2 * 4
    assert gathered.videos == []
    write_report(gathered, tmp_path / "out")
    assert (tmp_path / "out" / "report.html").read_text().count('<figure class="panel">') == 2


def test_videos_of_a_maze_are_shown_if_there_are_any(tmp_path):
    folder = fake_run(tmp_path / "run")
    (folder / "videos").mkdir()
    (folder / "videos" / "skill_03.mp4").write_bytes(fake_runs.CLIP)
    (videos,) = gather([tmp_path]).videos
    assert videos.title == "DIAYN · maze/square_a · seed 0 (run)"
    assert videos.clips == [("skill 3", fake_runs.CLIP)]


@pytest.mark.parametrize(("method", "changes"), [("apt", {}), ("sd3", {"objective": {"number_of_skills": 1}})])
@pytest.mark.parametrize("stored", ["number", "absent"])
def test_information_and_accuracy_of_one_policy_are_undefined(tmp_path, method, changes, stored):
    """Whatever its folder holds: earlier runs an accuracy of 1, later ones none."""
    undefined = ("mutual_information", "skill_accuracy")
    for seed, value in enumerate((0.2, 0.9, 0.5)):
        folder = fake_run(
            tmp_path / "runs" / method / f"seed_{seed}", method, seed=seed, value=value, skills=1, **changes
        )
        values = json.loads((folder / "results.json").read_text())
        log = read_csv(folder / "evaluation.csv")
        if stored != "number":
            values["measures"] = {name: number for name, number in values["measures"].items() if name not in undefined}
            names = [name for name in log[0] if name not in undefined]
            fake_runs.write_log(folder / "evaluation.csv", names, [[row[name] for name in names] for row in log])
        (folder / "results.json").write_text(json.dumps(values))
    fake_run(tmp_path / "runs" / "diayn")
    gathered = gather([tmp_path / "runs"])
    write_report(gathered, tmp_path / "out")
    (section,) = gathered.mazes
    (single,) = [panel for panel in section.panels if panel.label != "DIAYN"]
    assert single.shown_seed == 2
    assert single.captions[-1] == "coverage 0.52 · reach 0.54"
    assert set(single.curves) == {"coverage", "reach"}
    for name in ("scores.csv", "aggregate.csv"):
        rows = [row for row in read_csv(tmp_path / "out" / name) if row["method"] == single.label]
        names = {row["measure" if name == "scores.csv" else "statistic"].removeprefix("mean ") for row in rows}
        assert names == {"coverage", "reach"}
    measures = json.loads((tmp_path / "out" / "report.json").read_text())["mazes"][0]["methods"]
    (ours,) = [method["measures"] for method in measures if method["label"] == single.label]
    assert [ours[name] for name in undefined] == [None, None]
    assert "–" in (tmp_path / "out" / "report.html").read_text()


def test_training_from_scratch_is_labelled_by_its_backbone(tmp_path):
    for env, task in (("walker", "walker_walk"), ("walker-pixels", "walker_walk"), ("maze/square_a", "reach")):
        fake_run(tmp_path / "runs" / env, None, env, task)
    sac = from_scratch("walker", "walker_walk", preset="smoke", backbone="sac").backbone
    fake_run(tmp_path / "runs" / "sac", None, *WALK, backbone=sac)
    assert {row[0] for row in score_rows(gather([tmp_path / "runs"]))} == {"DDPG", "Dreamer", "PPO", "SAC"}


def test_one_seed_has_no_interval_in_any_file(tmp_path):
    fake_run(tmp_path / "runs" / "maze")
    for method in (None, "sd3"):
        fake_run(tmp_path / "runs" / f"{method}-walker_walk", method, *WALK)
    write_report(gather([tmp_path / "runs"]), tmp_path / "out")
    rows = read_csv(tmp_path / "out" / "aggregate.csv")
    assert {row["statistic"] for row in rows} >= {"mean coverage", "mean return", "IQM"}
    assert {(row["low"], row["high"]) for row in rows} == {("", "")}
    assert not any("probability" in row["statistic"] for row in rows)
    values = json.loads((tmp_path / "out" / "report.json").read_text())
    assert values["mazes"][0]["methods"][0]["measures"]["reach"]["interval"] is None
    task = values["tasks"][0]
    assert {(score["error"], score["low"], score["high"]) for score in task["scores"]} == {(None, None, None)}
    assert {improvement["value"] for improvement in task["normalised"]["improvements"]} == {None}


def test_unfinished_runs_are_left_out_and_counted(tmp_path):
    fake_run(tmp_path / "diayn" / "seed_0")
    (fake_run(tmp_path / "diayn" / "seed_1", seed=1) / "results.json").unlink()
    gathered = gather([tmp_path])
    assert gathered.mazes[0].panels[0].seeds == [0]
    assert ("runs", "1, 1 unfinished left out") in facts(gathered)


def test_a_long_training_has_a_limited_number_of_frames(tmp_path):
    folder = fake_run(tmp_path / "long")
    for step in range(1, 101):
        shutil.copy(folder / "rollouts" / "000000000800.npz", folder / "rollouts" / f"{step * 10_000:012d}.npz")
    (section,) = gather([folder]).mazes
    steps = section.panels[0].frame_steps
    assert len(steps) == mazes.MAX_FRAMES
    assert (steps[0], steps[-1]) == (0, 1_000_000)


# Tasks


def test_a_benchmark_becomes_a_table(tmp_path):
    gathered = gather([fake_runs.benchmark(tmp_path)])
    (section,) = gathered.tasks
    assert list(section.budgets) == ["DDPG", "DIAYN", "SD3"]
    assert section.tasks == ["walker_run", "walker_walk"]
    assert str(section.budgets["SD3"]) == "4,000 + 2,000 steps, 2 seeds"
    assert str(section.budgets["DDPG"]) == "0 + 2,000 steps, 2 seeds"
    assert section.cells["SD3", "walker_walk"].mean == 615
    paper, moss = section.published
    assert paper.scores["SD3", "walker_walk"].mean == 914
    assert {name for name, _ in paper.scores} == {"DDPG", "DIAYN", "SD3"}
    assert {name for name, _ in moss.scores} == {"DIAYN"}
    assert moss.scores["DIAYN", "walker_walk"] == (394, None)
    assert section.board is not None
    assert section.board.improvements["SD3", "DDPG"].value == 1
    assert section.notes == []
    assert section.curves["walker_run"]["DDPG"][1].shape == (2, 3)


def test_ways_of_fine_tuning_are_labelled_by_folder(tmp_path):
    for task in ("walker_walk", "walker_run"):
        for rule in ("random", "regress"):
            fake_run(tmp_path / f"sd3-{task}-{rule}" / "seed_0", "sd3", "walker", task, skill=rule)
        fake_run(tmp_path / f"sd3-noise-0.1-{task}" / "seed_0", "sd3", "walker", task)
    (section,) = gather([tmp_path]).tasks
    assert set(section.budgets) == {"SD3 · sd3-random", "SD3 · sd3-regress", "SD3 · sd3-noise-0.1"}
    assert [table.methods for table in section.published] == [["SD3"], []]
    assert section.board is not None
    assert len(section.board.tasks) == 2


def test_what_is_incomplete_stays_in_the_table_and_out_of_the_aggregates(tmp_path):
    fake_runs.benchmark(tmp_path)
    shutil.rmtree(tmp_path / "sd3-walker_run" / "seed_1")
    shutil.rmtree(tmp_path / "ddpg-walker_walk")
    (section,) = gather([tmp_path]).tasks
    assert section.board is not None
    assert section.board.tasks == ("walker_run",)
    assert section.cells["SD3", "walker_walk"].seeds == 2
    assert ("DDPG", "walker_walk") not in section.cells
    (note,) = section.notes
    assert note.startswith("4 of 9 scores are not in the aggregates")
    assert "incomplete: walker_walk" in note


OWN = "gym/Pendulum-v1"


def own_environment(root):
    """Two methods with two seeds each on an environment that URLB does not know; DIAYN is the better one."""
    for method, score in ((None, -1_100.0), ("diayn", -300.0)):
        for seed in range(2):
            fake_run(root / f"{method}" / f"seed_{seed}", method, OWN, OWN, seed, score - 100 * seed)
    return root


def test_a_task_without_expert_has_scores_with_intervals_and_no_aggregates(tmp_path):
    gathered = gather([own_environment(tmp_path / "runs")])
    (section,) = gathered.tasks
    assert section.board is None
    assert "No expert score is known for gym/Pendulum-v1" in section.notes[0]
    write_report(gathered, tmp_path / "out")
    assert "-350 ± 50 <small>[-400, -300]</small>" in (tmp_path / "out" / "report.html").read_text()
    (row,) = [row for row in read_csv(tmp_path / "out" / "aggregate.csv") if row["method"] == "DIAYN"]
    place = {"method": "DIAYN", "task": "gym/Pendulum-v1, 2000 steps", "statistic": "mean return"}
    assert row == {**place, "value": "-350.0", "low": "-400.0", "high": "-300.0"}
    (score,) = [cell for cell in report_json(gathered)["tasks"][0]["scores"] if cell["method"] == "DIAYN"]
    assert (score["mean"], score["low"], score["high"]) == (-350, -400, -300)


def test_experts_come_from_a_file(tmp_path):
    own_environment(tmp_path / "runs")
    (tmp_path / "experts.json").write_text(json.dumps({OWN: [-1_300, -200]}))
    cli.main(
        ["report", *map(str, (tmp_path / "runs", "--out", tmp_path / "out", "--experts", tmp_path / "experts.json"))]
    )
    rows = {(row["method"], row["statistic"]): row for row in read_csv(tmp_path / "out" / "aggregate.csv")}
    assert 0 < float(rows["DDPG", "IQM"]["value"]) < float(rows["DIAYN", "IQM"]["value"]) < 1
    assert rows["DIAYN", "probability of improvement over DDPG"]["value"] == "1.0"


def test_custom_experts_hide_the_papers_aggregates(tmp_path):
    fake_runs.benchmark(tmp_path)
    assert gather([tmp_path]).tasks[0].published_aggregates
    (section,) = gather([tmp_path], experts={"walker_walk": 500.0}).tasks
    assert section.published_aggregates == {}
    assert (
        section.board.aggregates["SD3", "mean"].value
        > gather([tmp_path]).tasks[0].board.aggregates["SD3", "mean"].value
    )


@pytest.mark.parametrize(("family", "backbone"), [("maze", "PPO"), ("maze-pixels", "Dreamer")])
def test_tasks_in_mazes_are_named_with_their_maze_and_have_no_expert(tmp_path, family, backbone):
    for maze in ("square_a", "square_tree"):
        for method in (None, "diayn"):
            fake_run(tmp_path / f"{method}-{maze}", method, f"{family}/{maze}", "reach")
    gathered = gather([tmp_path])
    assert gathered.mazes == []
    (section,) = gathered.tasks
    assert section.images == (family == "maze-pixels")
    assert section.tasks == [f"{family}/square_a · reach", f"{family}/square_tree · reach"]
    assert set(section.budgets) == {backbone, "DIAYN"}
    assert section.board is None
    assert section.notes[0].startswith(f"No expert score is known for {family}/square_a · reach, {family}/")
    assert {row.task for row in section.rows} == set(section.tasks)


def test_methods_are_in_one_order(tmp_path):
    for method in ("sd3", "diayn", "rnd", None):
        fake_run(tmp_path / f"{method}", method, *WALK)
    assert list(gather([tmp_path]).tasks[0].budgets) == ["DDPG", "RND", "DIAYN", "SD3"]


def test_budgets_of_fine_tuning_are_sections(tmp_path):
    fake_run(tmp_path / "a", None, *WALK)
    fake_run(tmp_path / "b", None, *WALK, steps=3_000)
    assert [section.finetuning for section in gather([tmp_path]).tasks] == [2_000, 3_000]


def test_images_are_a_section_with_the_papers_other_table(tmp_path):
    fake_run(tmp_path / "states", "sd3", *WALK)
    fake_run(tmp_path / "images", "sd3", "walker-pixels", "walker_walk", steps=2_000)
    states, images = gather([tmp_path]).tasks
    assert (states.images, images.images) == (False, True)
    assert states.published[0].scores["SD3", "walker_walk"].mean == 914
    (table,) = images.published
    assert table.scores["SD3", "walker_walk"].mean == 945
    assert table.budget == "2,000,000 + 100,000 steps, number of seeds not reported"


def test_costs_and_goals_are_those_that_every_seed_recorded(tmp_path):
    for method, seeds in (("diayn", 2), ("cic", 1)):
        for seed in range(2):
            folder = fake_run(tmp_path / "runs" / method / f"seed_{seed}", method, seed=seed)
            results = json.loads((folder / "results.json").read_text())
            results["parameters"] = {"backbone": 10, "objective": 7}
            if seed < seeds:
                reached = {"explore": False, "modes": {"adaptive": {"measures": {"hit_0.5": 0.5 + seed / 4}}}}
                (folder / "goals.json").write_text(json.dumps(reached))
                write_timing(folder, 30.0 + seed, 2_400)
            (folder / "results.json").write_text(json.dumps(results))
    gathered = gather([tmp_path / "runs"])
    write_report(gathered, tmp_path / "out")
    cic, diayn = json.loads((tmp_path / "out" / "report.json").read_text())["mazes"][0]["methods"]
    assert cic["parameters"] == diayn["parameters"] == {"backbone": 10, "objective": 7}
    assert diayn["seconds"]["per_seed"] == [30.0, 31.0]
    assert diayn["measures"]["goals"]["per_seed"] == [0.5, 0.75]
    assert "seconds" not in cic
    assert "goals" not in cic["measures"]
    assert "goals reached" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("missing", [False, True])
def test_measures_of_the_model_are_shown_where_every_seed_has_them(tmp_path, missing):
    for seed in range(2):
        folder = fake_run(tmp_path / "runs" / f"seed_{seed}", seed=seed)
        if missing and seed:
            continue
        results = json.loads((folder / "results.json").read_text())
        results["measures"] |= {"model_accuracy": 0.25, "model_information": -1.5 - seed}
        (folder / "results.json").write_text(json.dumps(results))
        head, *rows = (folder / "evaluation.csv").read_text().splitlines()
        rows = [f"{head},model_accuracy,model_information", *(f"{row},0.25,{-1.5 - seed}" for row in rows)]
        (folder / "evaluation.csv").write_text("\n".join(rows) + "\n")
    write_report(gather([tmp_path / "runs"]), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    (method,) = json.loads((tmp_path / "out" / "report.json").read_text())["mazes"][0]["methods"]
    assert ("model_information" in method["measures"]) is ("model accuracy" in page) is not missing
    if not missing:
        assert method["measures"]["model_information"]["per_seed"] == [-1.5, -2.5]
        assert "model's bound on I(S;Z)" in page.replace("&#x27;", "'").replace("&#39;", "'")


def test_videos_of_the_seed_that_has_them_and_a_hint_for_the_others(tmp_path):
    videos = gather([fake_runs.benchmark(tmp_path)]).videos
    assert [run.title for run in videos] == [
        "DIAYN · walker · seed 0 (diayn-walker)",
        "SD3 · walker · seed 1 (sd3-walker)",
    ]
    assert videos[0].clips == []
    assert [name for name, _ in videos[1].clips] == ["skill 0", "skill 1"]


def test_videos_have_a_limit(tmp_path, monkeypatch):
    fake_run(tmp_path / "a", "sd3", "walker", clips=3)
    monkeypatch.setattr(report, "MAX_VIDEO_BYTES", 2 * len(fake_runs.CLIP))
    (videos,) = gather([tmp_path]).videos
    assert (len(videos.clips), videos.left_out) == (2, 1)


# Writing


def test_the_numbers_are_data(tmp_path):
    fake_runs.mazes(tmp_path / "runs" / "maze")
    fake_runs.benchmark(tmp_path / "runs" / "urlb")
    written = write_report(gather([tmp_path / "runs"]), tmp_path / "out")
    assert [path.name for path in written] == ["report.html", "report.json", "scores.csv", "aggregate.csv"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in written)
    scores = read_csv(tmp_path / "out" / "scores.csv")
    assert len(scores) == 2 * 2 * 4 + 3 * 2 * 2
    row = {"method": "SD3", "task": "walker_walk", "measure": "return", "seed": "1", "score": "630.0"}
    assert row in scores
    aggregates = read_csv(tmp_path / "out" / "aggregate.csv")
    (iqm,) = [row for row in aggregates if (row["method"], row["statistic"]) == ("SD3", "IQM")]
    assert float(iqm["low"]) <= float(iqm["value"]) <= float(iqm["high"])
    values = json.loads((tmp_path / "out" / "report.json").read_text())
    assert values["mazes"][0]["methods"][0]["measures"]["coverage"]["per_seed"] == [0.7, 0.71]
    assert values["versions"]["python"] == ["3.11.0"]
    paper, moss = values["tasks"][0]["published"]
    assert (paper["source"], paper["budget"]) == ("paper", "2,000,000 + 100,000 steps, 10 seeds")
    assert {"method": "DIAYN", "task": "walker_walk", "mean": 394.0, "spread": None} in moss["scores"]


def test_the_same_runs_give_the_same_page(tmp_path):
    fake_runs.mazes(tmp_path / "runs")
    for name in ("one", "two"):
        write_report(gather([tmp_path / "runs"]), tmp_path / name)
    assert (tmp_path / "one" / "report.html").read_bytes() == (tmp_path / "two" / "report.html").read_bytes()


def test_runs_are_only_read(tmp_path):
    root = fake_runs.mazes(tmp_path / "runs")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    write_report(gather([root]), tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


# The command, and what it refuses


def refused(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", *(str(argument) for argument in arguments)])
    lines = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert lines[-1].startswith("skillscape: ")
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


def test_the_command_prints_the_path_of_the_page(tmp_path, capsys):
    fake_runs.mazes(tmp_path / "runs")
    cli.main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--title", "Mine <3"])
    assert capsys.readouterr().out.splitlines()[0] == str(tmp_path / "out" / "report.html")
    assert "<title>Mine &lt;3</title>" in (tmp_path / "out" / "report.html").read_text()


def test_no_folder_is_refused(capsys):
    assert "No runs given" in refused(capsys)


def test_a_missing_folder_is_refused(tmp_path, capsys):
    assert "nowhere does not exist" in refused(capsys, tmp_path / "nowhere", "--out", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_runs_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert "empty holds no run" in refused(capsys, tmp_path / "empty", "--out", tmp_path / "out")


def test_only_unfinished_runs_are_refused(tmp_path, capsys):
    (fake_run(tmp_path / "run") / "results.json").unlink()
    assert "None of the 1 runs is finished" in refused(capsys, tmp_path / "run", "--out", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("config.json", '{"format": "another"}'),
        ("results.json", "{"),
        ("results.json", "[]"),
        ("results.json", '{"measures": {}}'),
        ("results.json", '{"measures": {"coverage": NaN, "reach": 1, "mutual_information": 1, "skill_accuracy": 1}}'),
        ("evaluation.csv", "step,coverage\n1,0.5,"),
        ("evaluation.csv", "step,coverage\n1,zero\n"),
        ("evaluation.csv", ""),
        ("evaluation.csv", "step,coverage,reach,mutual_information,skill_accuracy\n1,nan,1,1,1\n"),
        ("versions.json", "["),
        ("timing.json", '{"seconds": -1}'),
        ("rollouts/000000002400.npz", "no archive"),
    ],
)
def test_a_damaged_run_is_left_out_and_named(tmp_path, capsys, name, content):
    root = fake_runs.mazes(tmp_path / "runs")
    for seed in range(2):
        (root / "cic" / f"seed_{seed}" / name).write_text(content)
    line = refused(capsys, root, "--out", tmp_path / "out")
    assert "Runs that cannot be read are missing from the report: " in line
    assert f"{root / 'cic' / 'seed_0'}, {root / 'cic' / 'seed_1'}" in line
    values = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {run["run"] for run in values["left_out"]} == {str(root / "cic" / f"seed_{seed}") for seed in range(2)}
    assert values["runs"] == [str(root / "diayn" / f"seed_{seed}") for seed in range(2)]
    assert [method["label"] for method in values["mazes"][0]["methods"]] == ["DIAYN"]
    assert "<dt>left out</dt>" in (tmp_path / "out" / "report.html").read_text()


def test_one_damaged_seed_leaves_the_others_of_its_row(tmp_path, capsys):
    for seed, value in enumerate((0.2, 0.9, 0.5)):
        fake_run(tmp_path / "runs" / f"seed_{seed}", seed=seed, value=value)
    (tmp_path / "runs" / "seed_2" / "rollouts" / "000000002400.npz").write_text("the seed in the middle")
    assert "seed_2" in refused(capsys, tmp_path / "runs", "--out", tmp_path / "out")
    (method,) = json.loads((tmp_path / "out" / "report.json").read_text())["mazes"][0]["methods"]
    assert method["measures"]["coverage"]["per_seed"] == [0.2, 0.91]


def test_an_unknown_method_is_left_out(tmp_path, capsys):
    fake_runs.benchmark(tmp_path / "runs")
    fake_run(tmp_path / "runs" / "maze")
    for strange in (
        fake_run(tmp_path / "runs" / "hilp"),
        fake_run(tmp_path / "runs" / "hilp-walk", "sd3", *WALK, seed=5),
    ):
        config = json.loads((strange / "config.json").read_text())
        config["objective"]["name"] = "hilp"
        (strange / "config.json").write_text(json.dumps(config))
    line = refused(capsys, tmp_path / "runs", "--out", tmp_path / "out")
    assert str(tmp_path / "runs" / "hilp") in line
    values = json.loads((tmp_path / "out" / "report.json").read_text())
    assert len(values["left_out"]) == 2
    assert all("names the method 'hilp'" in run["reason"] for run in values["left_out"])
    assert len(values["runs"]) == 17


@pytest.mark.parametrize("name", ["results.json", "evaluation.csv"])
def test_a_damaged_run_on_a_task_is_left_out(tmp_path, capsys, name):
    fake_runs.benchmark(tmp_path / "runs")
    (tmp_path / "runs" / "sd3-walker_run" / "seed_1" / name).write_text("[")
    assert "sd3-walker_run/seed_1;" in refused(capsys, tmp_path / "runs", "--out", tmp_path / "out")
    scores = read_csv(tmp_path / "out" / "scores.csv")
    assert [row["seed"] for row in scores if (row["method"], row["task"]) == ("SD3", "walker_run")] == ["0"]


def test_nothing_is_written_where_no_run_can_be_read(tmp_path, capsys):
    (fake_run(tmp_path / "run") / "config.json").write_text("{")
    line = refused(capsys, tmp_path / "run", "--out", tmp_path / "out")
    assert line.startswith("skillscape: None of the 1 runs can be read: ")
    assert "config.json is damaged" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory; check the path"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1, 2]", "holds no scores by task"),
        (
            '{"gym/Pendulum-v1": -180}',
            "experts.json: The expert score of 'gym/Pendulum-v1' must be above the random score, which is 0",
        ),
        ('{"gym/Pendulum-v1": NaN}', "finite number"),
        ('{"gym/Pendulum-v1": "much"}', "finite number"),
        ('{"gym/Pendulum-v1": [-180, -1200]}', "above the random score"),
    ],
)
def test_an_invalid_file_of_experts_is_one_sentence(tmp_path, capsys, content, message):
    path = tmp_path / "experts.json"
    if content is not None:
        path.write_text(content)
    line = refused(capsys, fake_run(tmp_path / "run"), "--out", tmp_path / "out", "--experts", path)
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("positions", [np.zeros((2, 3)), np.full((4, 3, 6, 2), np.nan), np.full((4, 3, 6, 2), 99.0)])
def test_invalid_rollouts_are_refused(tmp_path, capsys, positions):
    folder = fake_run(tmp_path / "run")
    np.savez(folder / "rollouts" / "000000002400.npz", positions=positions)
    assert "is damaged" in refused(capsys, folder, "--out", tmp_path / "out")


def test_missing_rollouts_are_refused(tmp_path, capsys):
    folder = fake_run(tmp_path / "run")
    shutil.rmtree(folder / "rollouts")
    assert "lost its rollouts" in refused(capsys, folder, "--out", tmp_path / "out")


def test_a_file_in_the_way_is_refused_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    line = refused(capsys, fake_run(tmp_path / "run"), "--out", tmp_path / "file" / "out")
    assert "choose another --out" in line
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path, capsys):
    (tmp_path / "shut").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    assert "no permission" in refused(capsys, fake_run(tmp_path / "run"), "--out", tmp_path / "shut" / "out")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    fake_runs.mazes(tmp_path / "runs")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="choose another --out"):
        write_report(gather([tmp_path / "runs"]), tmp_path / "file")
