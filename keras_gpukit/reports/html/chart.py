"""A chart: a caption, the figure for Plotly, and the numbers as a table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Each stands out from white and from near black by 3 to 1 at least, and black text on it by 4.5.
COLORS = {
    "input": "#d9772b",
    "compute": "#2a8f86",
    "callbacks": "#9a82cc",
    "epoch starts": "#cf6690",
    "first step": "#8c8c3a",
    "validation": "#4a7fc1",
    "other": "#7d8790",
}
PALETTE = ("#2a8f86", "#d9772b", "#4a7fc1", "#cf6690", "#9a82cc", "#8c8c3a", "#7d8790")
# So that lines and areas differ by more than their colour.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "\\", "-", "|", "+")
_LONGEST = 60


@dataclass(frozen=True)
class Table:
    """Numbers of a chart, formatted.

    Attributes:
        columns: Headings.
        rows: Cells; the first one of each row is its heading.
        note: What the rows are, where that is not plain.
        filtered_by: What its rows can be filtered by, as an example of words; empty for a table
            without a filter.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    filtered_by: str = ""


@dataclass(frozen=True)
class Chart:
    """One figure of the report.

    Attributes:
        title: Its heading.
        caption: What it shows, in words.
        figure: JSON as Plotly takes it; None where there is only the table.
        table: Its numbers.
        more: Further tables, by heading.
        shown: A table that is open from the start.
        shown_title: Its heading.
        over_time: Whether its axis is the run's time, and so shares cursor and zoom.
    """

    title: str
    caption: str
    figure: str | None
    table: Table
    more: tuple[tuple[str, Table], ...] = ()
    shown: Table | None = None
    shown_title: str = ""
    over_time: bool = False


@dataclass(frozen=True)
class Unknown:
    """A chart that is not there.

    Attributes:
        title: Its heading.
        because: Why it is missing.
    """

    title: str
    because: str


@dataclass(frozen=True)
class Flat:
    """A chart that would show one level line, and is a sentence instead.

    Attributes:
        title: Its heading.
        says: What stayed as it was, such as "the host's memory stayed at 1.2 GiB".
    """

    title: str
    says: str


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Keeps both ends of a long name: paths differ at the end, kernels at the begin."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def label(text: str, longest: int = _LONGEST) -> str:
    """A name for Plotly, which takes some markup in what it writes, links among it."""
    return html.escape(shortened(text, longest), quote=False)


def draw(traces: Sequence[Any], *, height: int = 300, **layout: Any) -> str:
    """Returns a figure's JSON, without colours for text and lines: those are the page's."""
    from plotly import graph_objects as go

    common = {
        "height": height,
        "template": None,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 12, "b": 48},
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "showlegend": len(traces) > 1,
    }
    text: str = go.Figure(data=list(traces), layout={**common, **layout}).to_json()
    return text


def step_time_unit(longest_s: float | None) -> tuple[float, str]:
    """The unit that fits step times: its size in seconds, and its name."""
    if longest_s is not None and longest_s < 1e-3:
        return 1e-6, "µs"
    return (1e-3, "ms") if longest_s is None or longest_s < 1 else (1.0, "s")


def scaled(values: Sequence[float | None], size: float) -> list[float | None]:
    """Values in a unit of another size."""
    return [None if value is None else round(value / size, 4) for value in values]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with a title."""
    font = {"size": 13}
    return {
        "title": {"text": title, "font": font, "standoff": 8},
        "automargin": True,
        "zeroline": False,
        **more,
    }


def marked_line(x: float, text: str, yref: str, *, on_right: bool, **line: Any) -> dict[str, Any]:
    """A line from top to bottom with a label, as a shape of Plotly.

    Args:
        x: Where.
        text: Of the label.
        yref: What top and bottom are of.
        on_right: Whether the label is on the right of the line, or on the left.
        **line: How it is drawn.
    """
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "yref": yref,
        "y0": 0,
        "y1": 1,
        "line": {"width": 1.5, **line},
        "label": {
            "text": text,
            "textposition": "end",
            "textangle": 0,
            "xanchor": "left" if on_right else "right",
            "yanchor": "top",
        },
    }


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """Names down the side, the first on top; those of bars at 0, 1, 2 and so on.

    Names themselves would do only if no two were the same.
    """
    return {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [len(names) - 0.4, -0.6],
        "automargin": True,
        "fixedrange": True,
        "zeroline": False,
        "showgrid": False,
    }
