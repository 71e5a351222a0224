"""The building blocks of charts: figures for Plotly, bars, and their numbers as tables."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.reports.tables import Table

# Contrast of each colour: at least 3:1 to white and to near black, 4.5:1 to black text on it.
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
# Lines and areas must differ by more than their colour.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "\\", "-", "|", "+")
_LONGEST = 60


@dataclass(frozen=True)
class Chart:
    """A chart of the report.

    Attributes:
        title: Heading of the chart.
        caption: Description of the result in words.
        figure: JSON of the Plotly figure; None for a table without a figure.
        table: Numbers of the chart.
        more: Further tables, each with its heading.
        shown: Table that is open from the start; None without one.
        shown_title: Heading of the open table.
        over_time: Whether the x-axis is the run's time; such charts share their cursor and zoom.
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
    """A chart that cannot be drawn."""

    title: str
    because: str


@dataclass(frozen=True)
class Flat:
    """A sentence in place of a chart that would only show flat lines.

    Attributes:
        title: Heading of the chart.
        says: The sentence, such as "the wait for input stayed below 0.5 % of the step time".
    """

    title: str
    says: str


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Returns a long name without its middle: paths differ at the end, kernels at the start."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def label(text: str, longest: int = _LONGEST) -> str:
    """Returns a short, escaped name for Plotly, which parses some markup, such as links."""
    return html.escape(shortened(text, longest), quote=False)


def draw(traces: Sequence[Any], *, height: int = 300, **layout: Any) -> str:
    """Returns a figure's JSON, without colours for text and axes, which the page sets."""
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
            "maxheight": 400,  # pixels: the page makes room for each line
        },
        "showlegend": len(traces) > 1,
    }
    text: str = go.Figure(data=list(traces), layout={**common, **layout}).to_json()
    return text


def step_time_unit(longest_s: float | None) -> tuple[float, str]:
    """Returns a unit that suits step times: its size in seconds, and its name."""
    if longest_s is not None and longest_s < 1e-3:
        return 1e-6, "µs"
    return (1e-3, "ms") if longest_s is None or longest_s < 1 else (1.0, "s")


def scaled(values: Sequence[float | None], size: float) -> list[float | None]:
    """Converts values to a unit that is `size` times as large as theirs; None stays None."""
    return [None if value is None else round(value / size, 4) for value in values]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Returns a Plotly axis with a title."""
    font = {"size": 13}
    return {
        "title": {"text": title, "font": font, "standoff": 8},
        "automargin": True,
        "zeroline": False,
        **more,
    }


def marked_line(x: float, text: str, yref: str, *, on_right: bool, **line: Any) -> dict[str, Any]:
    """Returns a labelled vertical line, as a Plotly shape.

    Args:
        x: Position on the x-axis.
        text: Text of the label.
        yref: Plotly's `yref`: "paper" spans the figure, "y domain" the panel of the first y-axis.
        on_right: Whether the label is on the right of the line; otherwise it is on the left.
        **line: Plotly's line properties, such as `dash` and `color`.
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
    """Returns a y-axis that labels the rows 0, 1, 2 and so on with names, the first on top.

    A categorical axis would merge rows with equal names.
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


def bar(name: str, place: int, color: str | None = None, **data: Any) -> Any:
    """Returns a bar trace that differs from its neighbours by colour and by pattern."""
    from plotly import graph_objects as go

    pattern = {"shape": PATTERNS[place % len(PATTERNS)], "solidity": 0.2}
    marker = {"color": color or PALETTE[place % len(PALETTE)], "pattern": pattern}
    # Plotly measures texts in this weight; the style sheet's would make them wider than it knows.
    return go.Bar(name=name, marker=marker, textfont={"weight": 600}, **data)


def row_bars(
    name: str,
    place: int,
    values: Sequence[float | None],
    hover: str,
    color: str | None = None,
) -> Any:
    """Returns a trace of horizontal bars in rows at 0, 1, 2 and so on."""
    rows = list(range(len(values)))
    return bar(name, place, color, x=values, y=rows, orientation="h", hovertemplate=hover)


def draw_bars(
    traces: Sequence[Any],
    names: Sequence[str],
    heading: str,
    *,
    height: int,
    hovermode: str = "closest",
    barmode: str = "stack",
) -> str:
    """Returns the JSON of a figure of horizontal bars, with a row for each name.

    Args:
        traces: Traces with their bars in rows at 0, 1, 2 and so on.
        names: Names of the rows, top row first.
        heading: Title of the value axis, with its unit.
        height: Height of the figure in pixels.
        hovermode: Plotly's `hovermode`.
        barmode: Plotly's `barmode`: the bars of a row are stacked, or in a group.
    """
    return draw(
        traces,
        height=height,
        barmode=barmode,
        hovermode=hovermode,
        xaxis=axis(heading, rangemode="tozero"),
        yaxis=names_axis(names),
    )
