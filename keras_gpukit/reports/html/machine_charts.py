"""Charts of the machine: utilization of GPUs and CPU cores, device and host memory."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Omitted, axis, draw
from keras_gpukit.reports.html.over_time import Curve, TimeAxis
from keras_gpukit.reports.tables import Table

NO_READINGS = "the run was over before two readings, which come about once a second"
_MIB, _GIB = 2**20, 2**30


def utilization_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the utilization of each GPU and of the host's CPU cores."""
    curves = [
        Curve(f"GPU {index}", series, "utilization_percent") for index, series in run.gpus.items()
    ]
    if run.host:
        curves.append(Curve("all cores", run.host, "cpu_percent"))
        curves.append(Curve("this process", run.host, "process_cpu_percent"))
    curves = _known(curves)
    each = ", ".join(f"{one.name} {units.number(one.band.overall or 0)} %" for one in curves)
    words = f"Busy on average: {each}."
    if not run.gpus:
        record = run.summary.utilization
        because = record.gpus_unknown_because if record else None
        words += f" GPUs could not be read: {because}" if because else " No GPU was read."
    flat = f"hardly changed: {each}" if all(one.is_flat for one in curves) else None
    return _draw(curves, time, words, flat, "busy, %", 1, "%", range=[0, 101])


def device_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of memory in TensorFlow's allocators and on whole GPUs.

    The caption gives the limits, because drawing them would flatten the lines.
    """
    curves: list[Curve] = []
    words: list[str] = []
    for device, series in run.memory.items():
        curves.append(Curve(f"{device} in use", series, "current_bytes"))
        curves.append(Curve(f"{device} peak so far", series, "peak_bytes"))
        words += _at_most(f"{device} held", series, "peak_bytes", "limit_bytes")
    for index, series in run.gpus.items():
        name = f"GPU {index}, all processes"
        curves.append(Curve(name, series, "memory_used_bytes"))
        words += _at_most(f"{name} held", series, "memory_used_bytes", "memory_total_bytes")
    record = run.summary.memory
    return _memory(curves, time, words, (record and record.unknown_because) or NO_READINGS)


def host_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Omitted:
    """Returns a chart of the host memory that this process holds."""
    if run.host is None:
        return Omitted(NO_READINGS)
    words = _at_most("this process held", run.host, "memory_bytes", "memory_total_bytes")
    return _memory([Curve("this process", run.host, "memory_bytes")], time, words)


def _memory(
    curves: list[Curve], time: TimeAxis, words: list[str], because: str = NO_READINGS
) -> Chart | Omitted:
    curves, each = _known(curves), "; ".join(words)
    most = max((curve.band.highest or 0 for curve in curves), default=0)
    size, unit = (_GIB, "GiB") if most >= _GIB else (_MIB, "MiB")
    flat = f"hardly changed: {each}" if all(curve.is_flat for curve in curves) else None
    caption = f"{each[:1].upper()}{each[1:]}."
    return _draw(curves, time, caption, flat, unit, size, unit, because, rangemode="tozero")


def _at_most(what: str, series: TimeSeries, used: str, limit: str) -> list[str]:
    most, total = series.figures[used].highest, series.figures[limit].highest
    if most is None:
        return []
    return [f"{what} at most {units.size(most)}" + (f" of {units.size(total)}" if total else "")]


def _known(curves: list[Curve]) -> list[Curve]:
    return [curve for curve in curves if curve.band.overall is not None]


def _draw(
    curves: list[Curve],
    time: TimeAxis,
    caption: str,
    flat: str | None,
    heading: str,
    size: float,
    unit: str,
    because: str = NO_READINGS,
    **yaxis: object,
) -> Chart | Omitted:
    """Returns a chart of curves over time, with a table for each of their time series.

    `flat` are words in place of flat curves, None if they are not; `because` are words in place of
    curves without two points. The shown `unit` is `size` times as large as that of the figures.
    """
    if not any(len(curve.series.time_s) > 1 for curve in curves):
        return Omitted(because)
    if flat is not None:
        return Omitted(flat, is_flat=True)
    traces = [time.whereabouts(curves[0].series, (curves[0].band.overall or 0.0) / size)]
    tables: dict[int, tuple[str, Table]] = {}  # a time series has a table, named by its first curve
    for place, curve in enumerate(curves):
        traces += curve.draw(place, time, size, unit)
        those = [each for each in curves if each.series is curve.series]
        columns = [(f"{each.name} ({unit})", each.figure, size) for each in those]
        tables.setdefault(id(curve.series), (curve.name, time.table(curve.series, columns)))
    (_, table), *more = tables.values()
    figure = draw(traces, xaxis=time.layout(), yaxis=axis(heading, **yaxis))
    return Chart(caption, table, figure, tuple(more), over_time=True)
