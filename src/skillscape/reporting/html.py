"""A report as one HTML page that opens offline: data in, text out. Nothing is read or written here.

The charts are Plotly's; its script is put into the page once. The page makes no requests, and its own content policy
makes the browser refuse if it did. Words, behaviour and look are in ``data/``: ``*.html``, ``page.js``, ``page.css``.
"""

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib.image
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_hex

from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.aggregate import STATISTICS
from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.evaluation.scores import Cell
from skillscape.evaluation.summary import few_seeds_note
from skillscape.plots.charts import Figure, curve_figure, interval_figure, profile_figure
from skillscape.plots.curves import MEASURES
from skillscape.plots.style import skill_colours
from skillscape.reporting.markup import (
    DASH,
    EMPTY,
    Html,
    chart,
    data_file,
    data_uri,
    filled,
    joined,
    legend,
    method_legend,
    note,
    ours_and_theirs,
    script_json,
    small,
    table,
    tag,
    with_interval,
)
from skillscape.reporting.model import Budget, MazePanel, MazeSection, Report, TaskSection, Videos
from skillscape.words import counted

LIBRARY_COMMAND = "pip install 'skillscape[report]'"
VERSIONS_SHOWN = ("skillscape", "python", "jax", "numpy", "mujoco", "dm_control")


def plotly_script() -> str:
    """The source of plotly.js, or one sentence about how to get it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError(f"The page needs plotly, which is not installed; say `{LIBRARY_COMMAND}`.") from error
    script: str = get_plotlyjs()
    return script


def build_page(report: Report, plotly: str) -> str:
    """The whole page; ``plotly`` is the source of plotly.js."""
    charts: list[Figure] = []
    scenes: list[dict[str, Any]] = []
    sections = [
        *(_maze_section(section, charts, scenes) for section in report.mazes),
        *(_task_section(section, charts) for section in report.tasks),
        *([_video_section(report.videos)] if report.videos else []),
    ]
    return filled(
        "page.html",
        title=report.title,
        style=data_file("page.css"),
        facts=joined(*(tag("div", tag("dt", name), tag("dd", text)) for name, text in facts(report))),
        sections=joined(*sections),
        plotly=Html(plotly),
        charts=script_json(charts),
        scenes=script_json(scenes),
        script=data_file("page.js"),
    )


def facts(report: Report) -> list[tuple[str, str]]:
    """What the page is about: name and text, line by line."""
    places = [
        *(f"{section.env}: {counted(len(section.panels), 'method')}" for section in report.mazes),
        *(
            f"{counted(len(section.tasks), 'task')}: {counted(len(section.budgets), 'method')}"
            for section in report.tasks
        ),
    ]
    budgets = [
        *(f"{panel.steps:,} steps" for section in report.mazes for panel in section.panels),
        *(
            f"{budget.pretraining:,} + {budget.finetuning:,} steps"
            for section in report.tasks
            for budget in section.budgets.values()
        ),
    ]
    versions = [name for name in VERSIONS_SHOWN if name in report.versions]
    commits = [commit[:10] for commit in report.versions.get("git", [])]
    unfinished = f", and {len(report.unfinished)} unfinished ones left out" if report.unfinished else ""
    lines = {
        "runs": f"{len(report.runs)}{unfinished}",
        "left out": " ".join(reason for _, reason in report.left_out),
        "where": "; ".join(places) or "pre-training only",
        "budget": "; ".join(dict.fromkeys(budgets)) or f"{report.steps:,} steps",
        "versions": ", ".join(f"{name} {'/'.join(report.versions[name])}" for name in versions),
        "commit": ", ".join(commits[:4]) + (f" and {len(commits) - 4} more" if len(commits) > 4 else ""),
    }
    return [(name, text) for name, text in lines.items() if text]


# Mazes


def _maze_section(section: MazeSection, charts: list[Figure], scenes: list[dict[str, Any]]) -> Html:
    labels = [panel.label for panel in section.panels]
    skills = max(panel.frames.shape[1] for panel in section.panels)
    colours = [to_hex(colour) for colour in skill_colours(skills)]
    steps = sorted({step for panel in section.panels for step in panel.frame_steps})
    scenes.append(
        {
            "walls": section.layout.walls,
            "bounds": section.layout.bounds.tolist(),
            "start": list(section.layout.evaluation_start),
            "colours": colours,
            "steps": steps,
            "panels": [_packed(panel, section.layout) for panel in section.panels],
        }
    )
    curves = {
        measure.axis: {panel.label: panel.curves[name] for panel in section.panels if name in panel.curves}
        for name, measure in MEASURES.items()
    }
    return filled(
        "maze.html",
        env=section.env,
        table=joined(_maze_table(section.panels), note(few_seeds_note(len(panel.seeds) for panel in section.panels))),
        scene=len(scenes) - 1,
        skills=legend("skill", [(str(skill), colour) for skill, colour in enumerate(colours)]),
        last=len(steps) - 1,
        steps=f"{steps[-1]:,}",
        panels=joined(*(_panel(panel, section.layout) for panel in section.panels)),
        maps=joined(*(_maps(panel, section.layout) for panel in section.panels)),
        methods=method_legend(labels),
        curves=joined(
            *(chart(charts, curve_figure(lines, labels, name), 300) for name, lines in curves.items() if lines)
        ),
    )


def _maze_table(panels: Sequence[MazePanel]) -> Html:
    """Budget and seeds get columns only where they differ; a phone has little room."""
    budgets = {(panel.steps, len(panel.seeds)) for panel in panels}
    heads, words = ["steps", "seeds"], EMPTY
    if len(budgets) == 1:
        ((steps, seeds),) = budgets
        heads, words = [], tag("p", f"All after {steps:,} steps, {counted(seeds, 'seed')} each.")
    rows = [
        [
            panel.label,
            *([f"{panel.steps:,}", len(panel.seeds)] if heads else []),
            *(
                DASH if (summary := panel.summaries[name]) is None else with_interval(summary.mean, summary.interval)
                for name in MEASURES
            ),
        ]
        for panel in panels
    ]
    return joined(words, table(["", *heads, *(measure.column for measure in MEASURES.values())], rows))


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
    """Episodes as 16-bit fractions of the maze's bounding box, little-endian: a third of what decimals would take."""
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
    rows = {"time spent": panel.visits, "density by its own model": panel.density}
    parts = [
        (
            tag("h4", f"{panel.label} ", small(f"{name}, seed {panel.shown_seed}")),
            tag("div", *(_map(skill_map, layout, skill) for skill, skill_map in enumerate(maps)), class_="maps"),
        )
        for name, maps in rows.items()
        if maps is not None
    ]
    return joined(*(part for pair in parts for part in pair))


def _map(values: Float[np.ndarray, "h w"], layout: Layout, skill: int) -> Html:
    """A picture of one pixel per square with the walls over it."""
    (left, bottom), (right, top) = layout.bounds.tolist()
    width, height, margin = right - left, top - bottom, 0.02 * (right - left)
    lines = "".join(f"M{x:g} {-y:g}L{x_end:g} {-y_end:g}" for (x, y), (x_end, y_end) in layout.walls)
    box = f"{left - margin:g} {-top - margin:g} {width + 2 * margin:g} {height + 2 * margin:g}"
    place = {"x": f"{left:g}", "y": f"{-top:g}", "width": f"{width:g}", "height": f"{height:g}"}
    picture = tag("image", **place, preserveAspectRatio="none", href=data_uri("image/png", _picture(values)))
    drawing = tag("svg", picture, tag("path", d=lines), viewBox=box, role="img", aria_label=f"skill {skill}")
    return tag("figure", drawing, tag("figcaption", skill), class_="map", data_key=skill)


def _picture(values: Float[np.ndarray, "h w"]) -> bytes:
    """A PNG of a map, transparent where it is NaN."""
    low, high = np.nanmin(values), np.nanmax(values)
    shares = (values - low) / (high - low) if high > low else np.where(np.isnan(values), np.nan, 0.0)
    picture = io.BytesIO()
    matplotlib.image.imsave(
        picture, np.ma.masked_invalid(shares), cmap="magma_r", vmin=0.0, vmax=1.0, origin="lower", format="png"
    )
    return picture.getvalue()


# Tasks


def _task_section(section: TaskSection, charts: list[Figure]) -> Html:
    labels = list(section.budgets)
    notes = joined(*(note(sentence) for sentence in section.notes))
    aggregates = notes if section.board is None else _aggregates(section, section.board, notes, charts)
    return filled(
        "tasks.html",
        images=" from images" * section.images,
        steps=f"{section.finetuning:,}",
        scores=joined(_score_table(section), note(few_seeds_note(cell.seeds for cell in section.cells.values()))),
        aggregates=aggregates,
        methods=method_legend(labels),
        curves=joined(
            *(chart(charts, curve_figure(lines, labels, task), 300) for task, lines in section.curves.items())
        ),
    )


def _score_table(section: TaskSection) -> Html:
    """Tasks down; our methods across, then the paper's numbers under a head of their own with their budget."""
    labels = list(section.budgets)
    theirs = list(dict.fromkeys(name for name, _ in section.published))
    heads = [
        "",
        *(joined(label, small(section.budgets[label])) for label in labels),
        *(joined(name, small("paper")) for name in theirs),
    ]
    rows = []
    for task in section.tasks:
        cells = {label: section.cells[label, task] for label in labels if (label, task) in section.cells}
        paper = [section.published.get((name, task)) for name in theirs]
        digits = _digits(max((abs(cell.mean) for cell in cells.values()), default=0.0))
        rows.append(
            [
                task,
                *(_cell(cells[label], section.budgets[label], digits) if label in cells else DASH for label in labels),
                *(DASH if cell is None else tag("i", f"{cell.mean:.0f} ± {cell.spread:.0f}") for cell in paper),
            ]
        )
    return table(heads, rows, ours_and_theirs("ours", len(labels), "paper", len(theirs), section.published_budget))


def _digits(largest: float) -> int:
    """Decimals that leave the largest number of a row three digits: 914, 39.2, 0.0512."""
    return max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0


def _cell(cell: Cell, budget: Budget, digits: int) -> Html:
    """Mean ± standard error and interval; the seeds are told where they are not those of the column."""
    parts: list[object] = [f"{cell.mean:.{digits}f}"]
    if cell.error is not None:
        parts.append(f" ± {cell.error:.{digits}f}")
    if cell.low is not None and cell.high is not None:
        parts += [" ", small(f"[{cell.low:.{digits}f}, {cell.high:.{digits}f}]")]
    own = counted(cell.seeds, "seed")
    return joined(*parts, *([" ", small(f"({own})")] if own != budget.seeds else []))


def _aggregates(section: TaskSection, board: Scoreboard, notes: Html, charts: list[Figure]) -> Html:
    labels = list(section.budgets)
    figures = [
        interval_figure({label: board.aggregates[label, name] for label in board.methods}, labels, name)
        for name in STATISTICS
    ]
    return filled(
        "aggregates.html",
        tasks=counted(len(board.tasks), "task"),
        notes=notes,
        table=_aggregate_table(section, board),
        methods=method_legend(labels),
        charts=joined(
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
        ours = [board.aggregates[label, name] for name in STATISTICS]
        published = [paper.get(label, {}).get(name) for name in theirs]
        rows.append(
            [
                label,
                *(with_interval(estimate.value, estimate.interval) for estimate in ours),
                *(DASH if value is None else tag("i", f"{value:.2f}") for value in published),
            ]
        )
    tasks = f"ours, {counted(len(board.tasks), 'task')}"
    above = ours_and_theirs(tasks, len(STATISTICS), "paper, 12 tasks", len(theirs), section.published_budget)
    return table(["", *STATISTICS, *theirs], rows, above)


def _improvements(board: Scoreboard) -> Html:
    def cell(label: str, other: str) -> Html:
        if label == other:
            return EMPTY
        estimate = board.improvements[label, other]
        return DASH if estimate is None else with_interval(estimate.value, estimate.interval)

    rows = [[label, *(cell(label, other) for other in board.methods)] for label in board.methods]
    words = (
        "How likely a run of the row beats a run of the column in a task, averaged over the tasks. A dash: one of the "
        "two has a single seed."
    )
    return joined(tag("h3", "Probability of improvement"), tag("p", words), table(["", *board.methods], rows))


# Videos


def _video_section(videos: Sequence[Videos]) -> Html:
    parts = [tag("h2", "Videos of the skills")]
    for run in videos:
        parts.append(tag("h3", run.title))
        if not run.clips and not run.left_out:
            parts.append(
                tag("p", "None yet: ", tag("code", f"skillscape video {run.run}"), " makes one of each skill.")
            )
        player = {"controls": "", "loop": "", "muted": "", "playsinline": "", "preload": "metadata"}
        clips = (
            tag("figure", tag("video", **player, src=data_uri("video/mp4", clip)), tag("figcaption", name))
            for name, clip in run.clips
        )
        parts.append(tag("div", *clips, class_="videos"))
        if run.left_out:
            parts.append(note(f"{run.left_out} more in {run.run}/videos: too large for this page."))
    return tag("section", *parts)
