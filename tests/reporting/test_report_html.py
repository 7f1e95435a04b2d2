"""The page as text: its contents, escaping of names, and figures that Plotly accepts."""

import base64
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from skillscape.envs.mazes.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation.costs import NOTE as COST_NOTE
from skillscape.evaluation.costs import Cost
from skillscape.evaluation.scoreboard import scoreboard
from skillscape.evaluation.scores import Published, PublishedTable, ScoreRow, per_task
from skillscape.evaluation.summary import summarise
from skillscape.reporting.html import build_page, plotly_script
from skillscape.reporting.model import Budget, MazePanel, MazeSection, Report, TaskSection, Videos
from skillscape.training.cost import Parameters

SQUARE = load_layout("square_a")
MEASURES = ("coverage", "reach", "mutual_information", "skill_accuracy")
PAPER, SECOND = "2,000,000 + 100,000 steps, 10 seeds", "2,000,000 + 100,000 steps"
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def panel(label="SD3", **changes):
    generator = np.random.default_rng(0)
    frames = generator.uniform(-0.4, 0.4, size=(2, 3, 2, 5, 2))
    maps = np.where((SQUARE.cell_grid >= 0).T, generator.uniform(size=(3, *SQUARE.cell_grid.T.shape)), np.nan)
    default = MazePanel(
        label=label,
        steps=2_000,
        seeds=[0, 1],
        summaries={name: summarise([0.25, 0.75]) for name in MEASURES},
        curves={name: (np.array([1_000, 2_000]), np.array([[0.1, 0.25], [0.2, 0.75]])) for name in MEASURES},
        shown_seed=1,
        frame_steps=[1_000, 2_000],
        frames=frames,
        captions=["early", "late"],
        visits=maps,
        density=None,
        cost=Cost(),
    )
    return replace(default, **changes)


def tasks(labels=("DDPG", "SD3")):
    rows = [
        ScoreRow(label, task, seed, 100.0 + 50 * place + 10 * seed)
        for place, label in enumerate(labels)
        for task in ("walker_walk", "walker_run")
        for seed in range(2)
    ]
    return TaskSection(
        finetuning=50_000,
        images=False,
        tasks=["walker_walk", "walker_run"],
        rows=rows,
        budgets={label: Budget(100_000 * place, 50_000, "2 seeds") for place, label in enumerate(labels)},
        cells=per_task(rows),
        costs={label: Cost() for label in labels},
        published=[
            PublishedTable("paper", PAPER, {("SD3", "walker_walk"): Published(914, 11)}),
            PublishedTable("MOSS", SECOND, {("DDPG", "walker_run"): Published(531, None)}),
        ],
        published_aggregates={"SD3": {"IQM": 0.7737}},
        board=scoreboard(rows, resamples=50),
        notes=["one thing was left out"],
        curves={"walker_walk": {label: (np.array([0, 50_000]), np.array([[0.0, 100.0]])) for label in labels}},
    )


def built(title="Skills", mazes=(), tasks=(), videos=()):
    report = Report(
        title=title,
        runs=[Path("a")],
        steps=2_000,
        unfinished=[],
        left_out=[],
        versions={},
        mazes=mazes,
        bodies=[],
        tasks=tasks,
        videos=videos,
    )
    return build_page(report, "/* plotly */")


def script_data(text, name):
    """The JSON that the page holds for its script."""
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)[1])


class Reader(HTMLParser):
    """Tags in order and whether they are closed properly; texts outside of scripts."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.texts.append(data.strip())

    def count(self, tag, name=None):
        return sum(
            opened == tag and (name is None or name in attributes.get("class", "").split())
            for opened, attributes in self.tags
        )


def test_a_maze_has_a_panel_per_method_a_legend_and_a_slider():
    text = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel("SD3"), panel("CIC", density=panel().visits)])])
    reader = Reader(text)
    assert reader.count("div", "scene") == 2
    assert [attributes["max"] for tag, attributes in reader.tags if tag == "input"] == ["1"]
    assert reader.count("figure", "map") == 3 * 3
    assert {"0.50", "[0.25, 0.75]", "late", "2,000 steps"} <= set(reader.texts)
    assert len(script_data(text, "charts")) == len(MEASURES)


def test_episodes_survive_the_packing():
    original = panel()
    (scene,) = script_data(built(mazes=[MazeSection("maze/square_a", SQUARE, [original])]), "scenes")
    packed = scene["panels"][0]
    fractions = np.frombuffer(base64.b64decode(packed["positions"]), "<u2").reshape(packed["shape"]) / 65535
    low, high = np.array(scene["bounds"])
    assert np.allclose(low + fractions * (high - low), original.frames, atol=1e-4)
    assert packed["steps"] == [1_000, 2_000]


def test_methods_evaluated_at_other_steps_share_a_slider():
    late = panel("CIC", frame_steps=[1_500, 3_000])
    (scene,) = script_data(built(mazes=[MazeSection("maze/square_a", SQUARE, [panel(), late])]), "scenes")
    assert scene["steps"] == [1_000, 1_500, 2_000, 3_000]


def test_budget_and_seeds_have_columns_only_where_they_differ():
    same = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel("SD3"), panel("CIC")])])
    assert "<p>2,000 steps and 2 seeds for every method.</p>" in same
    other = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel("SD3"), panel("CIC", steps=9_000)])])
    assert "<td>9,000</td>" in other
    assert "for every method" not in other


def test_one_seed_has_no_interval():
    alone = panel(seeds=[0], summaries={name: summarise([0.25]) for name in MEASURES})
    rows = [ScoreRow(label, "walker_walk", 0, 100.0) for label in ("DDPG", "SD3")]
    section = replace(tasks(), board=scoreboard(rows, resamples=50))
    reader = Reader(built(mazes=[MazeSection("maze/square_a", SQUARE, [alone])], tasks=[section]))
    assert "0.25" in reader.texts
    assert "Probability of improvement" not in reader.texts
    section = replace(section, cells=per_task(rows))
    reader = Reader(built(mazes=[MazeSection("maze/square_a", SQUARE, [alone])], tasks=[section]))
    assert not any(text.startswith("[") for text in reader.texts)
    assert not any(" seeds, a 95 %" in text for text in reader.texts)


def test_one_seed_is_a_line_without_a_band():
    alone = panel(curves={"reach": (np.array([1_000, 2_000]), np.array([[0.1, 0.25]]))})
    (figure,) = script_data(built(mazes=[MazeSection("maze/square_a", SQUARE, [alone])]), "charts")
    (line,) = figure["data"]
    assert line["y"] == [0.1, 0.25]


def test_a_probability_with_one_seed_on_a_side_is_a_dash():
    rows = [ScoreRow(label, "walker_walk", seed, 100.0) for label in ("DDPG", "SD3") for seed in range(2)]
    rows.append(ScoreRow("CIC", "walker_walk", 0, 90.0))
    labels = {label: Budget(0, 50_000, "2 seeds") for label in ("DDPG", "SD3", "CIC")}
    section = replace(tasks(), budgets=labels, board=scoreboard(rows, resamples=50), published=[], tasks=[], cells={})
    assert Reader(built(tasks=[replace(section, published_aggregates={})])).texts.count("–") == 4


def test_a_note_warns_of_few_seeds():
    reader = Reader(built(mazes=[MazeSection("maze/square_a", SQUARE, [panel()])], tasks=[tasks()]))
    assert reader.texts.count("With 2 seeds, a 95 % bootstrap interval is about the range of the seeds.") == 2


def test_an_undefined_measure_is_a_dash_and_has_no_curve():
    summaries = {**panel().summaries, "mutual_information": None, "skill_accuracy": None}
    curves = {name: panel().curves[name] for name in ("reach", "coverage")}
    text = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel("APT", summaries=summaries, curves=curves)])])
    assert Reader(text).texts.count("–") == 2
    assert len(script_data(text, "charts")) == 2


def test_returns_have_intervals_and_as_many_digits_as_they_need():
    rows = [
        ScoreRow("DDPG", task, seed, size * (seed + 1)) for task, size in (("a", 100.0), ("b", 0.01)) for seed in (0, 1)
    ]
    section = replace(tasks(), tasks=["a", "b"], cells=per_task(rows), board=None)
    assert {"150 ± 50", "[100, 200]", "0.0150 ± 0.0050", "[0.0100, 0.0200]"} <= set(
        Reader(built(tasks=[section])).texts
    )


def test_costs_are_columns_where_a_run_recorded_them():
    known = Cost(Parameters(36_997, 32_634), summarise([120.0, 124.0]))
    reader = Reader(built(mazes=[MazeSection("maze", SQUARE, [panel("SD3", cost=known), panel("CIC")])]))
    assert {"parameters", "32,634", "seconds per run", "122", COST_NOTE} <= set(reader.texts)
    texts = Reader(built(mazes=[MazeSection("maze", SQUARE, [panel("SD3"), panel("CIC")])])).texts
    assert not {"parameters", "seconds per run", COST_NOTE} & set(texts)
    section = replace(tasks(), costs={"DDPG": Cost(), "SD3": Cost(None, summarise([61.25]))})
    assert {"seconds per run", "61.2"} <= set(Reader(built(tasks=[section])).texts)


def test_goals_are_a_column_where_they_were_measured():
    reached = panel("SD3", summaries={**panel("SD3").summaries, "goals": summarise([0.5, 0.75])})
    for panels, shown in (([reached, panel("CIC")], True), ([panel("CIC")], False)):
        texts = Reader(built(mazes=[MazeSection("maze", SQUARE, panels)])).texts
        assert ("goals reached" in texts) == ("0.62" in texts) == shown


def test_the_papers_numbers_stand_apart_with_their_budget():
    reader = Reader(built(tasks=[tasks()]))
    assert {"914 ± 11", "155 ± 5", "0.77", "one thing was left out"} <= set(reader.texts)
    assert reader.texts.count(PAPER) == 2
    assert (reader.texts.count("531"), reader.texts.count(SECOND)) == (1, 1)
    for source, budget in (("paper", PAPER), ("MOSS", SECOND)):
        place = reader.texts.index(budget)
        assert reader.texts[place - 1].strip() == source, "source and budget stand in the same head"
    assert {"0 + 50,000 steps, 2 seeds", "100,000 + 50,000 steps, 2 seeds"} <= set(reader.texts)


def test_tasks_without_aggregates_still_have_scores_and_curves():
    text = built(tasks=[replace(tasks(), board=None, notes=["nothing is complete yet"])])
    assert "Probability of improvement" not in text
    assert "nothing is complete yet" in text
    assert len(script_data(text, "charts")) == 1


def test_a_cell_shows_its_seeds_if_they_differ_from_the_column():
    section = tasks()
    cells = {**section.cells, ("SD3", "walker_run"): section.cells["SD3", "walker_run"]._replace(seeds=1)}
    assert "(1 seed)" in Reader(built(tasks=[replace(section, cells=cells)])).texts


def test_videos_are_embedded_or_a_hint_is_given():
    text = built(videos=[Videos("SD3", "runs/a", [("skill 0", b"video")], left_out=3), Videos("CIC", "runs/b", [])])
    (video,) = [attributes for tag, attributes in Reader(text).tags if tag == "video"]
    assert video["src"] == f"data:video/mp4;base64,{base64.b64encode(b'video').decode()}"
    assert "<code>skillscape video runs/b</code>" in text
    assert "3 more in runs/a/videos" in text


def test_names_cannot_break_out_of_the_page():
    text = built(
        title=NASTY,
        mazes=[MazeSection(NASTY, SQUARE, [panel(NASTY, captions=[NASTY, NASTY])])],
        tasks=[tasks(("DDPG", NASTY))],
        videos=[Videos(NASTY, NASTY, [(NASTY, b"")], 1), Videos(NASTY, NASTY, [])],
    )
    reader = Reader(text)
    assert reader.count("script") == 4
    assert all(attributes.get("src", "").startswith("data:") for tag, attributes in reader.tags if "src" in attributes)
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert reader.texts.count(NASTY) > 5
    # Plotly reads some tags in names, so they are escaped for it as well.
    assert all("<" not in json.dumps(figure) for figure in script_data(text, "charts"))
    assert script_data(text, "scenes")[0]["panels"][0]["captions"] == [NASTY, NASTY]


def test_the_page_makes_no_requests():
    text = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel()])], tasks=[tasks()])
    sources = [
        attributes[name] for _, attributes in Reader(text).tags for name in ("src", "href") if name in attributes
    ]
    assert all(source.startswith("data:") for source in sources)
    assert "default-src 'none'" in text
    assert "url(" not in text


def test_a_flat_map_can_be_drawn():
    flat = np.where(np.isnan(panel().visits), np.nan, 0.5)
    assert built(mazes=[MazeSection("maze/square_a", SQUARE, [panel(visits=flat)])])


def test_plotly_accepts_every_figure():
    graph_objects = pytest.importorskip("plotly.graph_objects")
    text = built(mazes=[MazeSection("maze/square_a", SQUARE, [panel()])], tasks=[tasks()])
    for figure in script_data(text, "charts"):
        assert graph_objects.Figure(figure).data


def test_a_missing_plotly_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(UserError, match=re.escape("pip install 'skillscape[report]'")):
        plotly_script()
