"""Building blocks of the page: escaped text, elements, templates, tables, legends."""

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from skillscape.evaluation.aggregate import Estimate
from skillscape.evaluation.summary import Summary
from skillscape.plots.charts import Figure, chart_style


class Html(str):
    """Text that is already HTML; all other text is escaped when it enters the page."""


EMPTY, DASH = Html(), Html("–")


def join(*parts: object) -> Html:
    """Concatenate parts, escaping those that are not HTML."""
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element: ``tag("td", 1, class_="wide", data_key=2)`` is ``<td class="wide" data-key="2">1</td>``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def small(text: object) -> Html:
    """Secondary text."""
    return tag("small", text)


def fill(name: str, **values: object) -> Html:
    """The template ``data/name`` with its placeholders replaced."""
    return Html(Template(data_file(name)).substitute({key: join(value) for key, value in values.items()}))


def data_file(name: str) -> Html:
    """The text of a file in ``data/``."""
    return Html((files("skillscape.reporting") / "data" / name).read_text(encoding="utf-8"))


def script_json(values: Any) -> Html:  # noqa: ANN401  anything that JSON can hold
    """JSON for the inside of a script element: no text in it can close the element."""
    return Html(json.dumps(values, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def data_uri(kind: str, content: bytes) -> str:
    """A file as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def chart(charts: list[Figure], figure: Figure, height: int) -> Html:
    """The element of a chart; its figure is appended to ``charts``, which the script draws."""
    charts.append(figure)
    return tag("div", class_="chart", id=f"chart-{len(charts) - 1}", style=f"height:{height}px")


def legend(name: str, entries: Iterable[tuple[str, str]]) -> Html:
    """Buttons that highlight their entry; entries are (label, colour), keyed by their index."""
    buttons = (
        tag("button", tag("i", style=f"background:{colour}"), label, type="button", data_key=key, aria_pressed="false")
        for key, (label, colour) in enumerate(entries)
    )
    return tag("div", tag("span", name), *buttons, class_="legend", role="group", aria_label=name)


def method_legend(labels: Sequence[str]) -> Html:
    """The legend of charts with one line per method."""
    return legend("method", [(label, chart_style(index)[0]) for index, label in enumerate(labels)])


def table(heads: Sequence[object], rows: Sequence[Sequence[object]], above: Html = EMPTY) -> Html:
    """A table; the first cell of each row is its head. ``above``: a row over the column heads."""
    head = tag("tr", *(tag("th", cell, scope="col") for cell in heads))
    lines = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows]
    return tag("div", tag("table", tag("thead", above, head), tag("tbody", *lines)), class_="wide")


def column_groups(ours: str, columns: int, theirs: Iterable[tuple[str, str, int]]) -> Html:
    """The row over the column heads of a table with published numbers beside ours.

    ``theirs``: source, budget and number of columns of each published table; one without columns has no head.
    """
    heads = [tag("td"), tag("th", ours, scope="colgroup", colspan=columns)]
    for source, budget, number in theirs:
        if number:
            head = join(f"{source} ", small(budget))
            heads.append(tag("th", head, scope="colgroup", class_="paper", colspan=number))
    return tag("tr", *heads)


def with_interval(estimate: Estimate | Summary | None, digits: int = 2) -> Html:
    """A value with its interval, if it has one, to so many decimals; a dash if it is undefined."""
    if estimate is None:
        return DASH
    value, interval = estimate[0], estimate.interval
    ends = [] if interval is None else [" ", small("[" + ", ".join(f"{end:.{digits}f}" for end in interval) + "]")]
    return join(f"{value:.{digits}f}", *ends)


def note(sentence: str) -> Html:
    """A sentence in small print; nothing for an empty one."""
    return tag("p", sentence, class_="note") if sentence else EMPTY
