"""A chart of what the machine's disks were read."""

from __future__ import annotations

from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Flat, Unknown, axis
from keras_gpukit.reports.html.reading_lines import NO_READINGS, Line, are_enough, lines_chart
from keras_gpukit.reports.html.time_axis import TimeAxis

_DISK = "Disk reads"
_MIB = 2**20
# Logs and libraries; no disk and no network disk is limited by so little.
_LEAST_BYTES_PER_S = _MIB


def disk_chart(run: RunReport, time: TimeAxis) -> Chart | Flat | Unknown:
    """Bytes read each second, from all disks together and by all processes."""
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
