"""A chart of the report, and the parts of its Plotly figure."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import RunReport
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
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_OVER_COLOR = {"fillmode": "overlay", "fgcolor": "#fff", "fgopacity": 0.4}  # texts are black
_PATTERNS = ("", "/", ".", "x", "\\", "-", "|", "+")
_LONGEST = 60
Trace = dict[str, Any]
"""A trace of Plotly, as in its JSON."""
Values = Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """A chart of the report. Its title stands in the list of charts of `page`.

    Attributes:
        caption: Description of the result in words.
        table: Numbers of the chart.
        figure: Plotly's figure; None for a table without a figure.
        more: Further tables, each with its heading.
        shown: Heading and table that is open from the start; None without one.
        over_time: Whether the x-axis is the run's time; such charts share their cursor and zoom.
    """

    caption: str
    table: Table
    figure: dict[str, Any] | None = None
    more: tuple[tuple[str, Table], ...] = ()
    shown: tuple[str, Table] | None = None
    over_time: bool = False


@dataclass(frozen=True)
class Omitted:
    """Why a chart is left out: it cannot be drawn, or it would only show flat lines."""

    because: str
    is_flat: bool = False


def unrecorded(run: RunReport, because: str) -> str:
    """Explains a missing figure that runs record at their end and after their first seconds.

    `because` is the explanation for a run that ended with a summary.
    """
    if run.state == "unfinished":
        return "the run ended before it was recorded"
    return "it is not known yet" if run.state == "running" else because


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Returns a long name without its middle: paths differ at the end, kernels at the start."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def label(text: str, longest: int = _LONGEST) -> str:
    """Returns a short, escaped name for Plotly, which parses some markup, such as links."""
    return html.escape(shortened(text, longest), quote=False)


def draw(traces: Iterable[Trace], *, height: int = 300, **layout: Any) -> dict[str, Any]:
    """Returns a figure without colours for text and axes, which the page sets."""
    # Plotly's JavaScript takes a null for a value in places.
    data = [{key: value for key, value in trace.items() if value is not None} for trace in traces]
    common = {
        "height": height,
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
        "showlegend": len(data) > 1,
    }
    return {"data": data, "layout": {**common, **layout}}


def step_time_unit(longest_s: float | None) -> tuple[float, str]:
    """Returns a unit that suits step times: its size in seconds, and its name."""
    if longest_s is not None and longest_s < 1e-3:
        return 1e-6, "µs"
    return (1e-3, "ms") if longest_s is None or longest_s < 1 else (1.0, "s")


def scaled(values: Values, size: float) -> list[float | None]:
    """Converts values to a unit that is `size` times as large as theirs; None stays None."""
    return [None if value is None else round(value / size, 4) for value in values]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Returns a Plotly axis with a title."""
    heading = {"text": title, "font": {"size": 13}, "standoff": 8}
    return {"title": heading, "automargin": True, "zeroline": False, **more}


def names_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
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
        **more,
    }


def dashed(place: int) -> dict[str, Any]:
    """Returns the line of the curve at a place, which differs by its colour and by its dashes."""
    color, dash = PALETTE[place % len(PALETTE)], _DASHES[place % len(_DASHES)]
    return {"width": 2, "color": color, "dash": dash}


def bar(name: str, place: int, color: str | None = None, **data: Any) -> Trace:
    """Returns a bar trace that differs from its neighbours by colour and by pattern."""
    pattern = {"shape": _PATTERNS[place % len(_PATTERNS)], "solidity": 0.2, **_OVER_COLOR}
    marker = {"color": color or PALETTE[place % len(PALETTE)], "pattern": pattern}
    # Plotly measures texts in this weight; the style sheet's would make them wider than it knows.
    return {"type": "bar", "name": name, "marker": marker, "textfont": {"weight": 600}, **data}


def row_bars(name: str, place: int, values: Values, hover: str, color: str | None = None) -> Trace:
    """Returns a trace of horizontal bars in rows at 0, 1, 2 and so on."""
    rows = list(range(len(values)))
    return bar(name, place, color, x=values, y=rows, orientation="h", hovertemplate=hover)


def draw_bars(
    traces: Iterable[Trace],
    names: Sequence[str],
    heading: str,
    hovermode: str = "closest",
) -> dict[str, Any]:
    """Returns a figure of stacked bars, with a row for each name, the first one on top."""
    return draw(
        traces,
        height=150 + 26 * len(names),
        barmode="stack",
        hovermode=hovermode,
        xaxis=axis(heading, rangemode="tozero"),
        yaxis=names_axis([label(name, 24) for name in names]),
    )
