"""Charts of the machine: utilization of GPUs and CPU cores, disks, device and host memory."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Flat, Unknown, axis
from keras_gpukit.reports.html.reading_lines import NO_READINGS, Line, are_enough, lines_chart
from keras_gpukit.reports.html.time_axis import TimeAxis

_BUSY = "How busy GPUs and host were"
_DISK = "Disk reads"
_MIB = 2**20
# Reading logs and libraries causes this much; it limits neither local nor network disks.
_LEAST_BYTES_PER_S = _MIB
GIB = 2**30
_DEVICES = "Memory of the devices"
_HOST = "Memory of the host"


def utilization_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Returns a chart of the utilization of each GPU and of the host's CPU cores."""
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
    told = f"Busy on average: {', '.join(words)}."
    if not run.gpus:
        record = run.summary.utilization
        because = record.gpus_unknown_because if record else None
        told += f" GPUs could not be read: {because}" if because else " No GPU was read."
    yaxis = axis("busy, %", range=[0, 101])
    return lines_chart(_BUSY, told, lines, time, yaxis, size=1, unit="%")


def disk_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Returns a chart of the bytes read per second, from all disks and by all processes."""
    if run.host is None:
        return Unknown(_DISK, NO_READINGS)
    line = Line("all disks", run.host, "disk_read_bytes_per_s")
    if not line.is_known or not are_enough([line]):
        return Unknown(_DISK, NO_READINGS)
    mean, most = (f"{units.size(each or 0)}/s" for each in (line.band.overall, line.band.highest))
    if (line.band.highest or 0) < _LEAST_BYTES_PER_S:
        return Flat(_DISK, f"never more than {most}")
    told = f"All disks of the machine, all processes: {mean} on average, {most} at most."
    yaxis = axis("MiB/s", rangemode="tozero")
    return lines_chart(_DISK, told, [line], time, yaxis, size=_MIB, unit="MiB/s")


def device_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Returns a chart of memory in TensorFlow's allocators and on whole GPUs.

    The caption gives the limits, because drawing them would flatten the lines.
    """
    lines: list[Line] = []
    words: list[str] = []
    for device, series in run.memory.items():
        lines.append(Line(f"{device} in use", series, "current_bytes"))
        lines.append(Line(f"{device} peak so far", series, "peak_bytes"))
        words += _at_most(f"{device} held", series, "peak_bytes", "limit_bytes")
    for index, series in run.gpus.items():
        name = f"GPU {index}, all processes"
        lines.append(Line(name, series, "memory_used_bytes"))
        words += _at_most(f"{name} held", series, "memory_used_bytes", "memory_total_bytes")
    record = run.summary.memory
    because = (record and record.unknown_because) or NO_READINGS
    return _memory(_DEVICES, lines, time, words, because)


def host_memory_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Returns a chart of the host memory that this process holds."""
    if run.host is None:
        return Unknown(_HOST, NO_READINGS)
    lines = [Line("this process", run.host, "memory_bytes")]
    words = _at_most("this process held", run.host, "memory_bytes", "memory_total_bytes")
    return _memory(_HOST, lines, time, words, NO_READINGS)


def _memory(
    title: str, lines: list[Line], time: TimeAxis, words: list[str], because: str
) -> Chart | Flat | Unknown:
    lines = [line for line in lines if line.is_known]
    if not are_enough(lines):
        return Unknown(title, because)
    if all(line.is_flat for line in lines):
        return Flat(title, f"hardly changed: {'; '.join(words)}")
    most = max(line.band.highest or 0 for line in lines)
    size, unit = (GIB, "GiB") if most >= GIB else (2**20, "MiB")
    told = "; ".join(words)
    told = f"{told[:1].upper()}{told[1:]}."
    yaxis = axis(unit, rangemode="tozero")
    return lines_chart(title, told, lines, time, yaxis, size=size, unit=unit)


def _at_most(what: str, series: TimeSeries, used: str, limit: str) -> list[str]:
    most, total = series.figures[used].highest, series.figures[limit].highest
    if most is None:
        return []
    return [f"{what} at most {units.size(most)}" + (f" of {units.size(total)}" if total else "")]
