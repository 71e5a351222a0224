"""A chart of how busy GPUs and host were."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Flat, Unknown, axis, draw
from keras_gpukit.reports.html.reading_lines import (
    NO_READINGS,
    Line,
    are_enough,
    table_of,
    tables_of_others,
    traces_of,
    whereabouts,
)
from keras_gpukit.reports.html.time_axis import TimeAxis

_BUSY = "How busy GPUs and host were"


def utilization_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Each GPU's utilization, and that of the host's processors."""
    lines = [
        Line(f"GPU {index}", series, "utilization_percent") for index, series in run.gpus.items()
    ]
    if run.host:
        lines.append(Line("all cores", run.host, "cpu_percent"))
        lines.append(Line("this process", run.host, "process_cpu_percent"))
    lines = [line for line in lines if line.is_known]
    if not are_enough(lines):
        return Unknown(_BUSY, NO_READINGS)
    words = [f"{line.name} {units.number(line.band.overall or 0)} %" for line in lines]
    if all(line.is_flat for line in lines):
        return Flat(_BUSY, f"hardly changed: {', '.join(words)}")
    traces = [whereabouts(lines, time, 1)]
    traces += [
        trace for place, line in enumerate(lines) for trace in traces_of(line, place, time, 1, "%")
    ]
    note = _gpus_unknown(run)
    return Chart(
        _BUSY,
        f"Busy on average: {', '.join(words)}. {note}".strip(),
        draw(traces, xaxis=time.layout(), yaxis=axis("busy, %", range=[0, 101])),
        table_of(lines, time, 1, "%"),
        tables_of_others(lines, time, 1, "%"),
        over_time=True,
    )


def _gpus_unknown(run: RunReport) -> str:
    record = run.summary.utilization
    if run.gpus or record is None or record.gpus_unknown_because is None:
        return "" if run.gpus else "No GPU was read."
    return f"GPUs could not be read: {record.gpus_unknown_because}"
