"""A chart of the wait for input and of the pipeline's buffer over time."""

from __future__ import annotations

from keras_gpukit.records.report import Band, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Flat, Unknown, axis, draw, scaled
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.timeline_chart import TOO_SHORT
from keras_gpukit.reports.html.windows import WindowAreas
from keras_gpukit.reports.phrases import correction

_STALL = "Wait for input over the run"
# In percent: a stall below this would only be a line on the axis.
_LEAST = 0.5


def input_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Returns a chart of the input stall of steps and of the fill of the pipeline's last buffer."""
    series = run.steps
    if series is None or len(series.time_s) < 2:
        return Unknown(_STALL, TOO_SHORT)
    stall, buffered = series.figures["stall_fraction"], series.figures["buffered_batches"]
    if stall.overall is None:
        record = run.summary.input
        return Unknown(_STALL, (record and record.unknown_because) or "it was not measured")
    highest = 100 * (stall.highest or 0.0)
    if highest < _LEAST:
        return Flat(_STALL, f"the wait for input stayed below {_LEAST} % of the step time")
    areas, values, hover = WindowAreas(series, time), scaled(stall.mean, 1e-2), "%{y:.1f} %"
    traces = [
        time.whereabouts(series.time_s, series.step, highest),
        areas.area(values, "input stall", COLORS["input"]),
        areas.reading(values, "input stall", COLORS["input"], hover),
    ]
    if series.readings_per_point > 1:
        high, low = scaled(stall.high, 1e-2), scaled(stall.low, 1e-2)
        traces += areas.edges(("worst window", high), ("best window", low), hover)
    layout = {"xaxis": time.layout(), "yaxis": axis("input stall, %", range=[0, 101])}
    figures = [("stall (%)", "stall_fraction", 1e2)]
    has_buffer = bool(buffered.highest)
    if has_buffer:
        below, name, color = WindowAreas(series, time, "y2"), "batches buffered", COLORS["other"]
        traces.append(below.area(buffered.mean, name, color))
        traces.append(below.reading(buffered.mean, name, color, "%{y:.2~f}"))
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.42, 1]
        layout["yaxis2"] = axis("batches", domain=[0, 0.3], rangemode="tozero", nticks=4)
        figures.append(("buffered batches", "buffered_batches", 1.0))
    return Chart(
        _STALL,
        " ".join(filter(None, (_words(stall, buffered), correction(run.summary)))),
        draw(traces, height=380 if has_buffer else 300, **layout),
        time.table(series, figures),
        over_time=True,
    )


def _words(stall: Band, buffered: Band) -> str:
    words = (
        f"Steps spent {units.percentage(stall.overall or 0.0)} of their time waiting for their "
        f"next batch; in the worst window {units.percentage(stall.highest or 0.0)}."
    )
    if buffered.overall is None:
        return words
    if not buffered.highest:
        return f"{words} The pipeline's last buffer was always empty."
    mean = units.number(buffered.overall)
    return f"{words} The pipeline's last buffer held {mean} batches on average."
