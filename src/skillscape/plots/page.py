"""One HTML page about a set of runs that opens offline: data in, text out. Nothing is read or written here.

The charts are Plotly's; its script is put into the page once. The page asks nobody for anything, and its own content
policy makes the browser refuse if it did. Behaviour and look are in ``data/page.js`` and ``data/page.css``.
"""

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

import matplotlib.image
import numpy as np
from jaxtyping import Float
from matplotlib.colors import to_hex

from skillscape.envs.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.aggregate import STATISTICS
from skillscape.evaluation.scoreboard import Scoreboard
from skillscape.evaluation.scores import Cell, Published
from skillscape.evaluation.summary import Summary, few_seeds_note
from skillscape.plots.charts import Figure, chart_look, curve_figure, interval_figure, profile_figure
from skillscape.plots.mazes import MEASURE_LABELS, Curve
from skillscape.plots.style import skill_colours

MEASURES = {
    "reach": "reach",
    "coverage": "coverage",
    "distinguishability": "I(S;Z), nats",
    "skill_accuracy": "accuracy",
}
LIBRARY_COMMAND = "pip install 'skillscape[report]'"
VIDEO_COMMAND = "skillscape video"


@dataclass(frozen=True)
class MazePanel:
    """What one method did in a maze: measures over all its seeds, and the episodes of one of them."""

    label: str
    steps: int
    """Environment steps of training."""
    seeds: Sequence[int]
    summaries: Mapping[str, Summary | None]
    """Measure → mean and interval over the seeds; None where it says nothing of the method."""
    curves: Mapping[str, Curve]
    """Measure → (steps [m], values [seeds, m]); without those that say nothing of the method."""
    shown_seed: int
    frame_steps: Sequence[int]
    """Steps of training at which the episodes were played, ascending."""
    frames: Float[np.ndarray, "f k r t 2"]
    """Episodes at each of these steps."""
    captions: Sequence[str]
    """A line of numbers for each of these steps."""
    visits: Float[np.ndarray, "k h w"]
    """Share of its time that each skill spends in each square, row 0 at the bottom, NaN outside of the maze."""
    density: Float[np.ndarray, "k h w"] | None
    """p(s|z) by the method's own model, where it has one."""


@dataclass(frozen=True)
class MazeSection:
    """All methods in one maze."""

    env: str
    """As it is called on the page."""
    layout: Layout
    panels: Sequence[MazePanel]


class Budget(NamedTuple):
    """Environment steps without reward and with it, and the number of seeds, in words where it varies by task."""

    pretraining: int
    finetuning: int
    seeds: str

    def __str__(self) -> str:
        """As it stands over a column."""
        return f"{self.pretraining:,} + {self.finetuning:,} steps, {self.seeds}"


@dataclass(frozen=True)
class TaskSection:
    """All methods on the tasks of environments with a reward, at one budget of fine-tuning."""

    finetuning: int
    images: bool
    """Whether the agent saw images, not the state."""
    tasks: Sequence[str]
    budgets: Mapping[str, Budget]
    """Method → what was spent on it; the order of the columns."""
    cells: Mapping[tuple[str, str], Cell]
    """(method, task) → return of the last evaluation."""
    published: Mapping[tuple[str, str], Published]
    """(method, task) → the paper's number; methods by their plain names, however many ways they were run here."""
    published_budget: str
    published_aggregates: Mapping[str, Mapping[str, float]]
    """Method → statistic → the paper's number."""
    board: Scoreboard | None
    """Aggregates over what is complete; None where nothing is."""
    notes: Sequence[str]
    """What was left out of the aggregates, and why."""
    curves: Mapping[str, Mapping[str, Curve]]
    """Task → method → (steps [m], returns [seeds, m])."""


@dataclass(frozen=True)
class Videos:
    """The videos of one run, one per skill; none if there are none yet."""

    title: str
    run: str
    clips: Sequence[tuple[str, bytes]]
    """Name and MP4."""
    left_out: int = 0
    """Clips that would have made the page too large."""


@dataclass(frozen=True)
class Page:
    """All that the page shows."""

    title: str
    facts: Sequence[tuple[str, str]]
    """What this is: name and text, line by line."""
    mazes: Sequence[MazeSection]
    tasks: Sequence[TaskSection]
    videos: Sequence[Videos]


def plotly_script() -> str:
    """The source of plotly.js, or one sentence about how to get it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError(f"The page needs plotly, which is not installed; say `{LIBRARY_COMMAND}`.") from error
    script: str = get_plotlyjs()
    return script


def build_page(page: Page, script: str) -> str:
    """The whole page as HTML text; ``script`` is the source of plotly.js."""
    charts: list[dict[str, Any]] = []
    scenes: list[dict[str, Any]] = []
    body = [
        f"<header><h1>{escape(page.title)}</h1><dl>",
        *(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in page.facts),
        "</dl></header>",
        *(_maze_section(section, charts, scenes) for section in page.mazes),
        *(_task_section(section, charts) for section in page.tasks),
        _video_section(page.videos) if page.videos else "",
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            # The browser refuses every request that the page might make: all that it shows is inside it.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
            "style-src 'unsafe-inline'; img-src data:; media-src data:\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(page.title)}</title>",
            f"<style>{_part('page.css')}</style></head><body>",
            *body,
            f"<script>{script}</script>",
            f'<script type="application/json" id="charts">{_json(charts)}</script>',
            f'<script type="application/json" id="scenes">{_json(scenes)}</script>',
            f"<script>{_part('page.js')}</script>",
            "</body></html>",
        ]
    )


def _part(name: str) -> str:
    return (files("skillscape.plots") / "data" / name).read_text(encoding="utf-8")


def _json(values: Any) -> str:  # noqa: ANN401  anything that JSON can hold
    """JSON that may stand inside a script element: no text in it can end the element."""
    return json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _chart(charts: list[dict[str, Any]], figure: Figure, height: int) -> str:
    """A place on the page for a chart, whose figure is kept for the script."""
    charts.append(figure)
    return f'<div class="chart" id="chart-{len(charts) - 1}" style="height:{height}px"></div>'


def _legend(entries: Sequence[tuple[str, str]], name: str) -> str:
    """Buttons that highlight what they name; entries are (label, colour), the key is their place."""
    buttons = "".join(
        f'<button type="button" data-key="{key}" aria-pressed="false"><i style="background:{colour}"></i>'
        f"{escape(label)}</button>"
        for key, (label, colour) in enumerate(entries)
    )
    return f'<div class="legend" role="group" aria-label="{escape(name)}"><span>{escape(name)}</span>{buttons}</div>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], above: str = "") -> str:
    """A table of ready HTML cells; the first of each row is its head. ``above``: a row of heads over the heads."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    lines = [
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    ]
    return (
        f'<div class="wide"><table><thead>{above}<tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


# Mazes


def _maze_section(section: MazeSection, charts: list[dict[str, Any]], scenes: list[dict[str, Any]]) -> str:
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
    number = len(scenes) - 1
    panels = "".join(
        f'<figure class="panel"><h3>{escape(panel.label)}</h3>'
        f'<div class="scene" style="aspect-ratio:{_aspect(section.layout):.4f}"></div>'
        f"<figcaption>{escape(panel.captions[-1])}</figcaption><small>seed {panel.shown_seed}</small></figure>"
        for panel in section.panels
    )
    slider = (
        f'<div class="slider"><span>training</span><button type="button" class="play" aria-label="play">▶</button>'
        f'<input type="range" aria-label="steps of training" min="0" max="{len(steps) - 1}" value="{len(steps) - 1}">'
        f"<output>{steps[-1]:,} steps</output></div>"
    )
    curves = {
        MEASURE_LABELS[name]: {panel.label: panel.curves[name] for panel in section.panels if name in panel.curves}
        for name in MEASURES
    }
    return "\n".join(
        [
            f"<section><h2>{escape(section.env)}</h2>",
            "<p>Mean [95 % bootstrap interval] over the seeds, after training. <b>reach</b>: how far into the maze, "
            "<b>coverage</b>: share of quarter-cells visited, <b>I(S;Z)</b>: information a state carries about its "
            "skill, <b>accuracy</b>: how often a state names its skill. A dash: there are no skills to tell apart.</p>",
            _maze_table(section.panels),
            _note(few_seeds_note(len(panel.seeds) for panel in section.panels)),
            f'<div class="scope" data-scene="{number}">',
            "<h3>Where each skill goes</h3>",
            "<p>Episodes of one seed, the one in the middle by I(S;Z), not the prettiest; by coverage where there are "
            "no skills to tell apart. Point at a skill to highlight it; click or tap to keep it.</p>",
            f'<div class="controls">{_legend([(str(one), colour) for one, colour in enumerate(colours)], "skill")}'
            f"{slider}</div>",
            f'<div class="panels">{panels}</div>',
            "<h3>Density of each skill</h3>",
            "<p>After training, each map from its own lowest (pale) to its own highest value (dark).</p>",
            *(_maps(panel, section.layout) for panel in section.panels),
            "</div>",
            '<div class="scope"><h3>Learning curves</h3><p>Mean over the seeds and its 95 % bootstrap band.</p>',
            _legend([(label, chart_look(place)[0]) for place, label in enumerate(labels)], "method"),
            '<div class="charts">',
            *(_chart(charts, curve_figure(lines, labels, name), 300) for name, lines in curves.items() if lines),
            "</div></div></section>",
        ]
    )


def _maze_table(panels: Sequence[MazePanel]) -> str:
    """Budget and seeds get columns only where they differ; a phone has little room."""
    budgets = {(panel.steps, len(panel.seeds)) for panel in panels}
    rows = [
        [
            escape(panel.label),
            *([f"{panel.steps:,}", str(len(panel.seeds))] if len(budgets) > 1 else []),
            *(
                "–" if (summary := panel.summaries[name]) is None else _interval(summary.mean, summary.interval)
                for name in MEASURES
            ),
        ]
        for panel in panels
    ]
    heads = ["", *(["steps", "seeds"] if len(budgets) > 1 else []), *MEASURES.values()]
    steps, seeds = next(iter(budgets))
    words = (
        "" if len(budgets) > 1 else f"<p>All after {steps:,} steps, {seeds} seed{'s' if seeds > 1 else ''} each.</p>"
    )
    return words + _table(heads, rows)


def _interval(value: float, interval: tuple[float, float] | None) -> str:
    """A number with its interval; one seed has none."""
    return f"{value:.2f}" + ("" if interval is None else " <small>[{:.2f}, {:.2f}]</small>".format(*interval))


def _note(sentence: str) -> str:
    return f'<p class="note">{escape(sentence)}</p>' if sentence else ""


def _aspect(layout: Layout) -> float:
    (left, bottom), (right, top) = layout.bounds.tolist()
    return float((right - left) / (top - bottom))


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


def _maps(panel: MazePanel, layout: Layout) -> str:
    rows = [("time spent", panel.visits)]
    if panel.density is not None:
        rows.append(("density by its own model", panel.density))
    return "".join(
        f'<h4>{escape(panel.label)} <small>{name}, seed {panel.shown_seed}</small></h4><div class="maps">'
        + "".join(_map(one, layout, skill) for skill, one in enumerate(maps))
        + "</div>"
        for name, maps in rows
    )


def _map(values: Float[np.ndarray, "h w"], layout: Layout, skill: int) -> str:
    """A picture of one pixel per square with the walls over it."""
    (left, bottom), (right, top) = layout.bounds.tolist()
    lines = "".join(f"M{x:g} {-y:g}L{x_end:g} {-y_end:g}" for (x, y), (x_end, y_end) in layout.walls)
    margin = 0.02 * (right - left)
    box = f"{left - margin:g} {-top - margin:g} {right - left + 2 * margin:g} {top - bottom + 2 * margin:g}"
    return (
        f'<figure class="map" data-key="{skill}"><svg viewBox="{box}" role="img" aria-label="skill {skill}">'
        f'<image x="{left:g}" y="{-top:g}" width="{right - left:g}" height="{top - bottom:g}" '
        f'preserveAspectRatio="none" href="{_data_uri("image/png", _picture(values))}"/>'
        f'<path d="{lines}"/></svg><figcaption>{skill}</figcaption></figure>'
    )


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


def _task_section(section: TaskSection, charts: list[dict[str, Any]]) -> str:
    labels = list(section.budgets)
    legend = _legend([(label, chart_look(place)[0]) for place, label in enumerate(labels)], "method")
    parts = [
        f"<section><h2>Tasks{' from images' * section.images} after {section.finetuning:,} steps with reward</h2>",
        "<p>Return of the last evaluation, mean ± standard error [95 % bootstrap interval] over the seeds. Budgets are "
        "steps without reward + steps with it. The paper's numbers come from its own budget and stand apart.</p>",
        _score_table(section),
        _note(few_seeds_note(cell.seeds for cell in section.cells.values())),
    ]
    if section.board is not None:
        parts += [
            "<h3>Aggregates</h3>",
            f"<p>Scores from a random policy's (0) to the expert's (1) over {_tasks(section.board)}, 95 % "
            "stratified-bootstrap intervals; a random policy counts as 0 where its return is not given. IQM is the "
            "mean of the middle half of all runs; the optimality gap is how far below the expert, so less is "
            "better.</p>",
        ]
    parts += [_note(note) for note in section.notes]
    if section.board is not None:
        board = section.board
        figures = {
            name: interval_figure({label: board.aggregates[label, name] for label in board.methods}, labels, name)
            for name in STATISTICS
        }
        parts += [
            _aggregate_table(section, board),
            f'<div class="scope">{legend}<div class="charts">',
            *(_chart(charts, figure, 130 + 34 * len(board.methods)) for figure in figures.values()),
            _chart(charts, profile_figure(board, labels), 340),
            "</div></div>",
        ]
        if any(board.improvements.values()):
            parts += [
                "<h3>Probability of improvement</h3>",
                "<p>How likely a run of the row beats a run of the column in a task, averaged over the tasks. A dash: "
                "one of the two has a single seed.</p>",
                _improvement_table(board),
            ]
    parts += [
        f'<div class="scope"><h3>Learning curves</h3><p>Return by steps with reward.</p>{legend}<div class="charts">',
        *(_chart(charts, curve_figure(lines, labels, task), 300) for task, lines in section.curves.items()),
        "</div></div></section>",
    ]
    return "\n".join(parts)


def _score_table(section: TaskSection) -> str:
    """Tasks down; our methods across, then the paper's numbers under a head of their own with their budget."""
    labels = list(section.budgets)
    theirs = list(dict.fromkeys(name for name, _ in section.published))
    above = f'<tr><td></td><th scope="colgroup" colspan="{len(labels)}">ours</th>'
    if theirs:
        above += (
            f'<th scope="colgroup" class="paper" colspan="{len(theirs)}">paper '
            f"<small>{escape(section.published_budget)}</small></th>"
        )
    heads = [
        "",
        *(f"{escape(label)}<small>{escape(str(section.budgets[label]))}</small>" for label in labels),
        *(f"{escape(name)}<small>paper</small>" for name in theirs),
    ]
    rows = []
    for task in section.tasks:
        cells = [section.cells.get((label, task)) for label in labels]
        published = [section.published.get((name, task)) for name in theirs]
        digits = _digits(max((abs(cell.mean) for cell in cells if cell is not None), default=0.0))
        rows.append(
            [
                escape(task),
                *(
                    "–" if cell is None else _cell(cell, section.budgets[label], digits)
                    for label, cell in zip(labels, cells, strict=True)
                ),
                *("–" if cell is None else f"<i>{cell.mean:.0f} ± {cell.spread:.0f}</i>" for cell in published),
            ]
        )
    return _table(heads, rows, f"{above}</tr>")


def _digits(largest: float) -> int:
    """Decimals that leave the largest number of a row three digits: 914, 39.2, 0.0512."""
    return max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0


def _cell(cell: Cell, budget: Budget, digits: int) -> str:
    """Mean ± standard error and interval; the seeds are told where they are not those of the column."""
    text = f"{cell.mean:.{digits}f}"
    if cell.error is not None:
        text += f" ± {cell.error:.{digits}f}"
    if cell.low is not None and cell.high is not None:
        text += f" <small>[{cell.low:.{digits}f}, {cell.high:.{digits}f}]</small>"
    own = f"{cell.seeds} seed{'s' if cell.seeds > 1 else ''}"
    return text + (f" <small>({own})</small>" if own != budget.seeds else "")


def _tasks(board: Scoreboard) -> str:
    return f"{len(board.tasks)} task{'s' if len(board.tasks) > 1 else ''}"


def _aggregate_table(section: TaskSection, board: Scoreboard) -> str:
    theirs = [name for name in STATISTICS if any(name in one for one in section.published_aggregates.values())]
    above = f'<tr><td></td><th scope="colgroup" colspan="{len(STATISTICS)}">ours, {_tasks(board)}</th>'
    if theirs:
        above += (
            f'<th scope="colgroup" class="paper" colspan="{len(theirs)}">paper, 12 tasks '
            f"<small>{escape(section.published_budget)}</small></th>"
        )
    rows = [
        [
            escape(label),
            *(_interval(one.value, one.interval) for one in (board.aggregates[label, name] for name in STATISTICS)),
            *(
                f"<i>{section.published_aggregates[label][name]:.2f}</i>"
                if name in section.published_aggregates.get(label, {})
                else "–"
                for name in theirs
            ),
        ]
        for label in board.methods
    ]
    return _table(["", *STATISTICS, *theirs], rows, f"{above}</tr>")


def _improvement_table(board: Scoreboard) -> str:
    def cell(label: str, other: str) -> str:
        if label == other:
            return ""
        found = board.improvements[label, other]
        return "–" if found is None else _interval(found.value, found.interval)

    rows = [[escape(label), *(cell(label, other) for other in board.methods)] for label in board.methods]
    return _table(["", *(escape(label) for label in board.methods)], rows)


# Videos


def _video_section(videos: Sequence[Videos]) -> str:
    parts = ["<section><h2>Videos of the skills</h2>"]
    for one in videos:
        parts.append(f"<h3>{escape(one.title)}</h3>")
        if not one.clips and not one.left_out:
            parts.append(f"<p>None yet: <code>{VIDEO_COMMAND} {escape(one.run)}</code> makes one of each skill.</p>")
        parts.append('<div class="videos">')
        parts += [
            f'<figure><video controls loop muted playsinline preload="metadata" src="{_data_uri("video/mp4", clip)}">'
            f"</video><figcaption>{escape(name)}</figcaption></figure>"
            for name, clip in one.clips
        ]
        parts.append("</div>")
        if one.left_out:
            parts.append(
                f'<p class="note">{one.left_out} more in {escape(one.run)}/videos: too large for this page.</p>'
            )
    return "\n".join([*parts, "</section>"])
