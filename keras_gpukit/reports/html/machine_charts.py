"""Charts of the machine's utilization: GPUs, CPU cores and disks."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Flat, Unknown, axis
from keras_gpukit.reports.html.reading_lines import NO_READINGS, Line, are_enough, lines_chart
from keras_gpukit.reports.html.time_axis import TimeAxis

_BUSY = "How busy GPUs and host were"
_DISK = "Disk reads"
_MIB = 2**20
# Reading logs and libraries causes this much; it limits neither local nor network disks.
_LEAST_BYTES_PER_S = _MIB


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
