"""A report as one self-contained HTML page: data in, text out; nothing is read or written here.

The charts are drawn by Plotly, whose script is embedded once. The page makes no network requests, and its content
policy makes the browser block any. Texts, behaviour and style are in ``data/``: ``*.html``, ``page.js``, ``page.css``.
"""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.image
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_hex

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.aggregate import STATISTICS
from skillscape.evaluation.costs import NOTE as COST_NOTE
from skillscape.evaluation.costs import SECONDS, known_columns
from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.evaluation.scores import PUBLISHED_TABLES, Published, TaskScore
from skillscape.evaluation.summary import Summary, few_seeds_note
from skillscape.formatting import counted
from skillscape.plots.charts import Figure, curve_figure, interval_figure, profile_figure
from skillscape.plots.curves import MEASURES, MODEL_MEASURES, OPTIONAL_MEASURES, POSITION_MEASURES, MeasureLabel
from skillscape.plots.paths import PathPanel, paths_png
from skillscape.plots.style import skill_colours
from skillscape.reporting import markup
from skillscape.reporting.markup import DASH, EMPTY, Html, chart, fill, join, note, small, table, tag, with_interval
from skillscape.reporting.model import (
    BodyPanel,
    BodySection,
    Budget,
    MazePanel,
    MazeSection,
    Report,
    TaskSection,
    Videos,
)

VERSIONS_SHOWN = ("skillscape", "python", "jax", "numpy", "mujoco", "dm_control")


def plotly_script() -> str:
    """The source of plotly.js; raises ``UserError`` if Plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError("The page needs Plotly: run `pip install 'skillscape[report]'`.") from error
    script: str = get_plotlyjs()
    return script


def build_page(report: Report, plotly: str) -> str:
    """The whole page; ``plotly`` is the source of plotly.js."""
    charts: list[Figure] = []
    scenes: list[dict[str, Any]] = []
    sections = [
        *(_maze_section(section, charts, scenes) for section in report.mazes),
        *(_body_section(section, charts) for section in report.bodies),
        *(_task_section(section, charts) for section in report.tasks),
        *([_video_section(report.videos)] if report.videos else []),
    ]
    return fill(
        "page.html",
        title=report.title,
        style=markup.data_file("page.css"),
        facts=join(*(tag("div", tag("dt", name), tag("dd", text)) for name, text in facts(report))),
        sections=join(*sections),
        plotly=Html(plotly),
        charts=markup.script_json(charts),
        scenes=markup.script_json(scenes),
        script=markup.data_file("page.js"),
    )


def facts(report: Report) -> list[tuple[str, str]]:
    """The lines under the title: name and text."""
    places = [f"{section.env}: {counted(len(section.panels), 'method')}" for section in report.skills]
    budgets = [f"{panel.steps:,} steps" for section in report.skills for panel in section.panels]
    for section in report.tasks:
        places.append(f"{counted(len(section.tasks), 'task')}: {counted(len(section.budgets), 'method')}")
        budgets += [f"{budget.pretraining:,} + {budget.finetuning:,} steps" for budget in section.budgets.values()]
    versions = [name for name in VERSIONS_SHOWN if name in report.versions]
    commits = [commit[:10] for commit in report.versions.get("git", [])]
    lines = {
        "runs": f"{len(report.runs)}{f', {len(report.unfinished)} unfinished left out' if report.unfinished else ''}",
        "left out": " ".join(reason for _, reason in report.left_out),
        "where": "; ".join(places) or "pre-training only",
        "budget": "; ".join(dict.fromkeys(budgets)) or f"{report.steps:,} steps",
        "versions": ", ".join(f"{name} {'/'.join(report.versions[name])}" for name in versions),
        "commit": ", ".join(commits[:4]) + (f" and {len(commits) - 4} more" if len(commits) > 4 else ""),
    }
    return [(name, text) for name, text in lines.items() if text]


# Mazes


def _maze_section(section: MazeSection, charts: list[Figure], scenes: list[dict[str, Any]]) -> Html:
    layout, panels = section.layout, section.panels
    labels = [panel.label for panel in panels]
    skills = max(panel.frames.shape[1] for panel in panels)
    colours = [to_hex(colour) for colour in skill_colours(skills)]
    steps = sorted({step for panel in panels for step in panel.frame_steps})
    scenes.append(
        {
            "walls": layout.walls,
            "bounds": layout.bounds.tolist(),
            "start": list(layout.evaluation_start),
            "colours": colours,
            "steps": steps,
            "panels": [_packed(panel, layout) for panel in panels],
        }
    )
    optional = {
        name: label
        for name, label in {**OPTIONAL_MEASURES, **MODEL_MEASURES}.items()
        if any(name in panel.summaries for panel in panels)
    }
    curves = {
        measure.axis: {panel.label: panel.curves[name] for panel in panels if name in panel.curves}
        for name, measure in {**MEASURES, **MODEL_MEASURES}.items()
    }
    return fill(
        "maze.html",
        env=section.env,
        table=_measures_table(panels, {**MEASURES, **optional}),
        scene=len(scenes) - 1,
        skills=markup.legend("skill", [(str(skill), colour) for skill, colour in enumerate(colours)]),
        last=len(steps) - 1,
        steps=f"{steps[-1]:,}",
        panels=join(*(_panel(panel, layout) for panel in panels)),
        maps=join(*(_maps(panel, layout) for panel in panels)),
        methods=markup.method_legend(labels),
        curves=join(
            *(chart(charts, curve_figure(lines, labels, name), 300) for name, lines in curves.items() if lines)
        ),
    )


def _measures_table(panels: Sequence[MazePanel | BodyPanel], measures: Mapping[str, MeasureLabel]) -> Html:
    """Measures of each method, and costs where they are known.

    Steps and seeds are columns only where they differ, since a phone has little room.
    """
    budgets = {(panel.steps, len(panel.seeds)) for panel in panels}
    heads, budget = ["steps", "seeds"], EMPTY
    if len(budgets) == 1:
        ((steps, seeds),) = budgets
        heads, budget = [], tag("p", f"{steps:,} steps and {counted(seeds, 'seed')} for every method.")
    costs = known_columns(panel.cost for panel in panels)
    rows = [
        [
            panel.label,
            *([f"{panel.steps:,}", len(panel.seeds)] if heads else []),
            *(_measure(name, panel.summaries.get(name), fixed=isinstance(panel, MazePanel)) for name in measures),
            *(panel.cost.cells().get(name, DASH) for name in costs),
        ]
        for panel in panels
    ]
    heads = ["", *heads, *(measure.column for measure in measures.values()), *costs]
    notes = [few_seeds_note(len(panel.seeds) for panel in panels), *(measure.note for measure in measures.values())]
    return join(budget, table(heads, rows), *map(note, notes), note(COST_NOTE if costs else ""))


def _measure(name: str, summary: Summary | None, *, fixed: bool) -> Html:
    """A measure to two decimals; elsewhere bins to one, and lengths, whose unit is not known, to three digits."""
    if fixed or summary is None:
        return with_interval(summary)
    return with_interval(summary, 1 if name.endswith("_coverage") else _digits(abs(summary.mean)))


def _panel(panel: MazePanel, layout: Layout) -> Html:
    width, height = (layout.bounds[1] - layout.bounds[0]).tolist()
    return tag(
        "figure",
        tag("h3", panel.label),
        tag("div", class_="scene", style=f"aspect-ratio:{width / height:.4f}"),
        tag("figcaption", panel.captions[-1]),
        small(f"seed {panel.shown_seed}"),
        class_="panel",
    )


def _packed(panel: MazePanel, layout: Layout) -> dict[str, Any]:
    """Episodes as 16-bit fractions of the maze's bounding box, little-endian: a third of the size of decimals."""
    low, high = layout.bounds
    fractions = np.clip((panel.frames - low) / (high - low), 0.0, 1.0)
    shorts = np.round(fractions * 65535).astype("<u2")
    return {
        "steps": [int(step) for step in panel.frame_steps],
        "shape": list(panel.frames.shape),
        "captions": list(panel.captions),
        "positions": base64.b64encode(shorts.tobytes()).decode(),
    }


def _maps(panel: MazePanel, layout: Layout) -> Html:
    parts = []
    for name, maps in {"visitation": panel.visits, "density of its model": panel.density}.items():
        if maps is not None:
            parts.append(tag("h4", f"{panel.label} ", small(f"{name}, seed {panel.shown_seed}")))
            parts.append(tag("div", *(_map(values, layout, skill) for skill, values in enumerate(maps)), class_="maps"))
    return join(*parts)


def _map(values: Float[np.ndarray, "h w"], layout: Layout, skill: int) -> Html:
    """A map with one pixel per square, and the walls over it."""
    (left, bottom), (right, top) = layout.bounds.tolist()
    width, height, margin = right - left, top - bottom, 0.02 * (right - left)
    lines = "".join(f"M{x:g} {-y:g}L{x_end:g} {-y_end:g}" for (x, y), (x_end, y_end) in layout.walls)
    box = f"{left - margin:g} {-top - margin:g} {width + 2 * margin:g} {height + 2 * margin:g}"
    place = {"x": f"{left:g}", "y": f"{-top:g}", "width": f"{width:g}", "height": f"{height:g}"}
    image = tag("image", **place, preserveAspectRatio="none", href=markup.data_uri("image/png", _png(values)))
    drawing = tag("svg", image, tag("path", d=lines), viewBox=box, role="img", aria_label=f"skill {skill}")
    return tag("figure", drawing, tag("figcaption", skill), class_="map", data_key=skill)


def _png(values: Float[np.ndarray, "h w"]) -> bytes:
    """A PNG of a map, transparent where it is NaN."""
    low, high = np.nanmin(values), np.nanmax(values)
    scaled = (values - low) / (high - low) if high > low else np.where(np.isnan(values), np.nan, 0.0)
    file = io.BytesIO()
    matplotlib.image.imsave(
        file, np.ma.masked_invalid(scaled), cmap="magma_r", vmin=0.0, vmax=1.0, origin="lower", format="png"
    )
    return file.getvalue()


# Bodies


def _body_section(section: BodySection, charts: list[Figure]) -> Html:
    panels, labels = section.panels, [panel.label for panel in section.panels]
    known = {**POSITION_MEASURES, **MODEL_MEASURES}
    shown = {name: label for name, label in known.items() if any(panel.summaries.get(name) for panel in panels)}
    curves = {
        measure.axis: {panel.label: panel.curves[name] for panel in panels if name in panel.curves}
        for name, measure in shown.items()
    }
    return fill(
        "body.html",
        env=section.env,
        table=_measures_table(panels, shown),
        panels=join(*(_paths(panel) for panel in panels)),
        methods=markup.method_legend(labels),
        curves=join(
            *(chart(charts, curve_figure(lines, labels, name), 300) for name, lines in curves.items() if lines)
        ),
    )


def _paths(panel: BodyPanel) -> Html:
    """The paths of one seed as a picture."""
    picture = paths_png([PathPanel("", panel.paths, "")])
    image = tag("img", src=markup.data_uri("image/png", picture), alt=f"paths of {panel.label}", style="width:100%")
    return tag("figure", tag("h3", panel.label), image, small(f"seed {panel.shown_seed}"), class_="panel")


# Tasks


def _task_section(section: TaskSection, charts: list[Figure]) -> Html:
    labels = list(section.budgets)
    notes = join(*(note(sentence) for sentence in section.notes))
    return fill(
        "tasks.html",
        images=" from images" * section.images,
        steps=f"{section.finetuning:,}",
        scores=join(_score_table(section), note(few_seeds_note(cell.seeds for cell in section.cells.values()))),
        aggregates=notes if section.board is None else _aggregates(section, section.board, notes, charts),
        methods=markup.method_legend(labels),
        curves=join(*(chart(charts, curve_figure(lines, labels, task), 300) for task, lines in section.curves.items())),
    )


def _score_table(section: TaskSection) -> Html:
    """One row per task: our methods, then the numbers of each published table under its own head and budget."""
    labels = list(section.budgets)
    columns = [(each, name) for each in section.published for name in each.methods]
    heads = [
        "",
        *(join(label, small(section.budgets[label])) for label in labels),
        *(join(name, small(each.source)) for each, name in columns),
    ]
    rows: list[list[object]] = []
    for task in section.tasks:
        cells = {label: section.cells[label, task] for label in labels if (label, task) in section.cells}
        digits = _digits(max((abs(cell.mean) for cell in cells.values()), default=0.0))
        ours = [_cell(cells[label], section.budgets[label], digits) if label in cells else DASH for label in labels]
        rows.append([task, *ours, *(_published(each.scores.get((name, task))) for each, name in columns)])
    for name in known_columns(section.costs.values(), [SECONDS]):
        rows.append(
            [name, *(section.costs[label].cells().get(name, DASH) for label in labels), *(EMPTY for _ in columns)]
        )
    groups = [(each.source, each.budget, len(each.methods)) for each in section.published]
    return table(heads, rows, markup.column_groups("ours", len(labels), groups))


def _published(cell: Published | None) -> Html:
    if cell is None:
        return DASH
    return tag("i", f"{cell.mean:.0f}" + ("" if cell.spread is None else f" ± {cell.spread:.0f}"))


def _digits(largest: float) -> int:
    """Decimals that give the largest number of a row three significant digits: 914, 39.2, 0.0512."""
    return max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0


def _cell(cell: TaskScore, budget: Budget, digits: int) -> Html:
    """Mean ± standard error and interval, with the number of seeds if it differs from the column's."""
    parts: list[object] = [f"{cell.mean:.{digits}f}"]
    if cell.error is not None:
        parts.append(f" ± {cell.error:.{digits}f}")
    if cell.low is not None and cell.high is not None:
        parts += [" ", small(f"[{cell.low:.{digits}f}, {cell.high:.{digits}f}]")]
    seeds = counted(cell.seeds, "seed")
    return join(*parts, *([" ", small(f"({seeds})")] if seeds != budget.seeds else []))


def _aggregates(section: TaskSection, board: Scoreboard, notes: Html, charts: list[Figure]) -> Html:
    labels = list(section.budgets)
    figures = [
        interval_figure({label: board.aggregates[label, name] for label in board.methods}, labels, name)
        for name in STATISTICS
    ]
    return fill(
        "aggregates.html",
        tasks=counted(len(board.tasks), "task"),
        notes=notes,
        table=_aggregate_table(section, board),
        methods=markup.method_legend(labels),
        charts=join(
            *(chart(charts, figure, 130 + 34 * len(board.methods)) for figure in figures),
            chart(charts, profile_figure(board, labels), 340),
        ),
        improvements=_improvements(board) if any(board.improvements.values()) else "",
    )


def _aggregate_table(section: TaskSection, board: Scoreboard) -> Html:
    paper = section.published_aggregates
    theirs = [name for name in STATISTICS if any(name in statistics for statistics in paper.values())]
    rows = []
    for label in board.methods:
        ours = [with_interval(board.aggregates[label, name]) for name in STATISTICS]
        published = [paper.get(label, {}).get(name) for name in theirs]
        rows.append([label, *ours, *(DASH if value is None else tag("i", f"{value:.2f}") for value in published)])
    tasks = f"ours, {counted(len(board.tasks), 'task')}"
    source, budget = PUBLISHED_TABLES["state"]
    above = markup.column_groups(tasks, len(STATISTICS), [(f"{source}, 12 tasks", budget, len(theirs))])
    return table(["", *STATISTICS, *theirs], rows, above)


def _improvements(board: Scoreboard) -> Html:
    rows = [
        [
            label,
            *(EMPTY if label == other else with_interval(board.improvements[label, other]) for other in board.methods),
        ]
        for label in board.methods
    ]
    text = (
        "Probability that a run of the row's method beats a run of the column's in a task, averaged over tasks. "
        "A dash: one of the two has a single seed."
    )
    return join(tag("h3", "Probability of improvement"), tag("p", text), table(["", *board.methods], rows))


# Videos


def _video_section(videos: Sequence[Videos]) -> Html:
    parts = [tag("h2", "Videos of the skills")]
    player = {"controls": "", "loop": "", "muted": "", "playsinline": "", "preload": "metadata"}
    for run in videos:
        parts.append(tag("h3", run.title))
        if not run.clips and not run.left_out:
            command = tag("code", f"skillscape video {run.run}")
            parts.append(tag("p", "No videos yet: ", command, " records one per skill."))
        clips = (
            tag("figure", tag("video", **player, src=markup.data_uri("video/mp4", clip)), tag("figcaption", name))
            for name, clip in run.clips
        )
        parts.append(tag("div", *clips, class_="videos"))
        if run.left_out:
            parts.append(note(f"{run.left_out} more in {run.run}/videos: too large for this page."))
    return tag("section", *parts)
