"""Charts of the steps: step time by cause, and the wait for input with the buffer's fill."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.report import Band, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Unknown, axis, draw
from keras_gpukit.reports.html.time_axis import TimeAxis

TOO_SHORT = "the run has fewer than two windows of steps, which are about a second each"
_STEP_TIME = "Step time over the run"
_STALL = "Wait for input over the run"


def step_time_chart(run: RunReport, time: TimeAxis) -> Chart | Unknown:
    """The step time, split into the wait for input and the rest if that is known."""
    from plotly import graph_objects as go

    if run.steps is None or len(run.steps.time_s) < 2:
        return Unknown(_STEP_TIME, TOO_SHORT)
    places = time.places(run.steps)
    times, waits = run.steps.figures["step_time_s"], run.steps.figures["wait_s"]
    is_split = waits.overall is not None

    def area(name: str, values: Sequence[float | None], color: str, pattern: str) -> go.Scatter:
        return go.Scatter(
            x=places,
            y=values,
            name=name,
            stackgroup="step",
            line={"width": 1, "color": color},
            fillpattern={"shape": pattern, "fgcolor": color, "size": 6, "solidity": 0.35},
            hovertemplate="%{y:.3~f} ms",
        )

    rest = [_less(step, wait) for step, wait in zip(times.mean, waits.mean, strict=True)]
    traces = [area("the step's own work", rest, COLORS["compute"], "")] if is_split else []
    if is_split:
        traces.append(area("waiting for input", _ms(waits.mean), COLORS["input"], "/"))
    else:
        traces.append(area("whole step", _ms(times.mean), COLORS["compute"], ""))
    if run.steps.readings_per_point > 1:
        traces += [
            _edge(places, _ms(times.high), "slowest second", "dot"),
            _edge(places, _ms(times.low), "fastest second", "dash"),
        ]
    figures = [("step (ms)", "step_time_s", 1e3)]
    figures += [("wait (ms)", "wait_s", 1e3)] if is_split else []
    return Chart(
        _STEP_TIME,
        _step_words(times, waits),
        draw(traces, xaxis=time.layout(), yaxis=axis("ms per step", rangemode="tozero")),
        time.table(run.steps, figures),
    )


def stall_chart(run: RunReport, time: TimeAxis) -> Chart | Unknown:
    """The share of the time that steps waited, and how full the pipeline's buffer was."""
    from plotly import graph_objects as go

    if run.steps is None or len(run.steps.time_s) < 2:
        return Unknown(_STALL, TOO_SHORT)
    stall = run.steps.figures["stall_fraction"]
    buffered = run.steps.figures["buffered_batches"]
    if stall.overall is None:
        record = run.summary.input
        return Unknown(_STALL, (record and record.unknown_because) or "it was not measured")
    places = time.places(run.steps)
    traces = [
        go.Scatter(
            x=places,
            y=_percent(stall.mean),
            name="input stall",
            fill="tozeroy",
            line={"width": 2, "color": COLORS["input"]},
            hovertemplate="%{y:.1f} %",
        )
    ]
    if run.steps.readings_per_point > 1:
        traces += [
            _edge(places, _percent(stall.high), "worst second", "dot"),
            _edge(places, _percent(stall.low), "best second", "dash"),
        ]
    layout = {"xaxis": time.layout(), "yaxis": axis("input stall, %", range=[0, 101])}
    figures = [("stall (%)", "stall_fraction", 1e2)]
    if buffered.overall is not None:
        traces.append(
            go.Scatter(
                x=places,
                y=buffered.mean,
                name="batches in the buffer",
                yaxis="y2",
                line={"width": 2, "color": COLORS["validation"], "dash": "dash"},
                hovertemplate="%{y:.2~f}",
            )
        )
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis"]["domain"] = [0.42, 1]
        layout["yaxis2"] = axis("batches", domain=[0, 0.3], rangemode="tozero", anchor="x")
        figures.append(("buffered batches", "buffered_batches", 1.0))
    return Chart(
        _STALL,
        _stall_words(stall, buffered),
        draw(
            traces,
            height=380 if buffered.overall is not None else 300,
            **layout,
        ),
        time.table(run.steps, figures),
    )


def _edge(places: list[float], values: list[float | None], name: str, dash: str) -> object:
    from plotly import graph_objects as go

    return go.Scatter(
        x=places,
        y=values,
        name=name,
        mode="lines",
        line={"width": 1, "dash": dash, "color": COLORS["other"]},
        hovertemplate="%{y:.3~f}",
    )


def _step_words(times: Band, waits: Band) -> str:
    if times.overall is None or times.lowest is None or times.highest is None:
        return ""
    words = (
        f"A step took {units.duration(times.overall)} on average; "
        f"{units.duration(times.lowest)} in the fastest second, "
        f"{units.duration(times.highest)} in the slowest."
    )
    if waits.overall is None or not times.overall:
        return f"{words} How much of it was input wait is unknown."
    return f"{words} {units.duration(waits.overall)} of it was input wait."


def _stall_words(stall: Band, buffered: Band) -> str:
    words = (
        f"Steps spent {units.percentage(stall.overall or 0.0)} of their time waiting for their "
        f"next batch; in the worst second {units.percentage(stall.highest or 0.0)}."
    )
    if buffered.overall is None:
        return words
    mean = units.number(buffered.overall)
    return f"{words} The pipeline's last buffer held {mean} batches on average."


def _ms(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value * 1e3, 5) for value in values]


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value * 1e2, 3) for value in values]


def _less(step: float | None, wait: float | None) -> float | None:
    return None if step is None or wait is None else round((step - wait) * 1e3, 5)
