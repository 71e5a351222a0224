"""Rebuilds the time series of a summary from a run's lines, if the run wrote no summary."""

from __future__ import annotations

from keras_gpukit.records import names
from keras_gpukit.records.report import RunReport, TimeSeries
from keras_gpukit.records.shift import Series
from keras_gpukit.sensors.series import SeriesCollector

# TensorBoard tag of each figure, and the factor that converts the figure to the tag's unit.
_STEPS = {
    "step_time_s": (names.STEP_TIME, 1e3),
    "examples_per_s": (names.EXAMPLE_RATE, 1.0),
    "between_s": (names.BETWEEN_STEPS, 1e3),
    "wait_s": (names.INPUT_WAIT, 1e3),
    "stall_fraction": (names.INPUT_STALL, 1e2),
}
_HOST = {
    "cpu_percent": (names.HOST_CPU, 1.0),
    "process_cpu_percent": (names.HOST_PROCESS_CPU, 1.0),
    "memory_bytes": (names.HOST_MEMORY, 1.0),
}


def partial_series(run: RunReport) -> tuple[Series, ...]:
    """Returns the series that the run's summary would contain."""
    collector = SeriesCollector()
    sources = [(run.steps, _STEPS), (run.host, _HOST)]
    sources += [
        (series, {name: (names.gpu_tag(index, name), 1.0) for name in names.GPU_FIGURES})
        for index, series in run.gpus.items()
    ]
    sources += [
        (series, {name: (names.memory_tag(device, name), 1.0) for name in names.MEMORY_FIGURES})
        for device, series in run.memory.items()
    ]
    for series, tags in sources:
        if series is not None:
            for name, (tag, factor) in tags.items():
                _collect(collector, run.began_s or 0.0, series, name, tag, factor)
    return collector.record()


def _collect(
    collector: SeriesCollector,
    began_s: float,
    series: TimeSeries,
    name: str,
    tag: str,
    factor: float,
) -> None:
    band = series.figures[name]
    for time_s, step, mean, weight in zip(
        series.time_s, series.step, band.mean, band.weight, strict=True
    ):
        if mean is not None:
            collector.add(tag, step or 0, time_s - began_s, mean * factor, weight)
