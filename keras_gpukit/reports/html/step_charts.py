"""Chart of the steps' wait for input over a run."""

from __future__ import annotations

from keras_gpukit.records.report import Band, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, axis, draw, scaled
from keras_gpukit.reports.html.over_time import TOO_SHORT, TimeAxis, WindowAreas
from keras_gpukit.reports.phrases import correction

# In percent: a stall below this would only be a line on the axis.
_LEAST_STALL = 0.5


def input_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the input stall of steps and of the fill of the pipeline's last buffer."""
    series = run.steps
    if series is None or len(series.time_s) < 2:
        return Omitted(TOO_SHORT)
    stall, buffered = series.figures["stall_fraction"], series.figures["buffered_batches"]
    if stall.overall is None:
        record = run.summary.input
        return Omitted((record and record.unknown_because) or "it was not measured")
    highest = 100 * (stall.highest or 0.0)
    if highest < _LEAST_STALL:
        words = f"the wait for input stayed below {_LEAST_STALL} % of the step time"
        return Omitted(words, is_flat=True)
    areas, hover = WindowAreas(series, time), "%{y:.1f} %"
    traces = [
        time.whereabouts(series, highest),
        *areas.layer(scaled(stall.mean, 1e-2), "input stall", COLORS["input"], hover),
        *areas.edges(stall, 1e-2, ("worst window", "best window"), hover),
    ]
    layout = {"xaxis": time.layout(), "yaxis": axis("input stall, %", range=[0, 101])}
    figures = [("stall (%)", "stall_fraction", 1e-2)]
    has_buffer = bool(buffered.highest)
    if has_buffer:
        below, hover = WindowAreas(series, time, "y2"), "%{y:.2~f}"
        traces += below.layer(buffered.mean, "batches buffered", COLORS["other"], hover)
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.42, 1]
        layout["yaxis2"] = axis("batches", domain=[0, 0.3], rangemode="tozero", nticks=4)
        figures.append(("buffered batches", "buffered_batches", 1.0))
    return Chart(
        " ".join(filter(None, (_stall_words(stall, buffered), correction(run.summary)))),
        time.table(series, figures),
        draw(traces, height=380 if has_buffer else 300, **layout),
        over_time=True,
    )


def _stall_words(stall: Band, buffered: Band) -> str:
    worst = units.percentage(stall.highest or 0.0)
    words = f"In the worst window, steps waited {worst} of their time."
    if buffered.overall is None:
        return words
    if not buffered.highest:
        return f"{words} The pipeline's last buffer was always empty."
    mean = units.number(buffered.overall)
    return f"{words} The pipeline's last buffer held {mean} batches on average."
