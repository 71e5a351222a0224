"""Reports a run to OpenTelemetry: metrics while it runs, then a span with its findings.

The GPU metrics have the names, instruments and units of OpenTelemetry's semantic conventions for
hardware, which are in development:
https://opentelemetry.io/docs/specs/semconv/hardware/gpu/
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.saved_runs.exporting.exporter import Exporter
from keras_gpukit.saved_runs.writing import Record
from keras_gpukit.version import __version__

STALL, STEP_TIME = "keras_gpukit.input.stall", "keras_gpukit.step.duration"
EXAMPLE_RATE, PEAK = "keras_gpukit.examples.rate", "keras_gpukit.memory.peak"
FINDING = "keras_gpukit.finding"

_GAUGE, _UP_DOWN = "create_observable_gauge", "create_observable_up_down_counter"
INSTRUMENTS = (
    (STALL, _GAUGE, "1", "Share of the step time in which steps waited for their next batch."),
    (STEP_TIME, _GAUGE, "s", "Mean step time."),
    (EXAMPLE_RATE, _GAUGE, "{example}/s", "Examples per second of this process."),
    (PEAK, _GAUGE, "By", "Peak of TensorFlow's allocator on a device."),
    ("hw.gpu.utilization", _GAUGE, "1", "Fraction of time in which a kernel ran."),
    ("hw.gpu.memory.usage", _UP_DOWN, "By", "GPU memory used, by all processes."),
    ("hw.gpu.memory.limit", _UP_DOWN, "By", "Size of the GPU memory."),
)
"""Name, instrument, unit and description of each metric."""

Readings = dict[tuple[tuple[str, Any], ...], float | None]
_readings: dict[str, Readings] = {}
"""Latest values of each metric, by attributes. Those of a process, as its instruments are: without
a monitored run, there are none."""


class OTelSignals(Exporter):
    """Reports to the providers that the user has configured globally; without any, to nothing.

    The context is that of the training thread: the parent of the span.
    """

    def __init__(self, context: Any) -> None:
        super().__init__()
        self._context = context
        self._gpus: dict[int, tuple[tuple[str, Any], ...]] = {}
        _create_instruments()

    @staticmethod
    def active() -> Any:
        """Returns the context of this thread; None before OpenTelemetry is loaded."""
        context = sys.modules.get("opentelemetry.context")
        return context.get_current() if context else None

    def write_records(self, records: Sequence[Record], /) -> None:
        """Keeps the latest readings of GPUs, in addition to points and summary."""
        for _, _, kind, record in records:
            if kind == "environment":
                self._gpus = {gpu.index: _attributes_of(gpu) for gpu in record.gpus}
            elif kind == "gpu":
                percent, of_gpu = record.utilization_percent, self._gpus.get(record.index)
                if of_gpu is not None:
                    fraction = None if percent is None else percent / 100
                    _set("hw.gpu.utilization", {of_gpu: fraction})
                    _set("hw.gpu.memory.usage", {of_gpu: record.memory_used_bytes})
                    _set("hw.gpu.memory.limit", {of_gpu: record.memory_total_bytes})
        super().write_records(records)

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Keeps the figures of the latest steps, until the user's reader collects them."""
        for name, value in _figures(summary).items():
            _set(name, {(): value})
        for memory in summary.allocators:
            _set(PEAK, {(("keras_gpukit.device", memory.device),): memory.peak_bytes})

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Makes a span of the run, with an event for each finding."""
        from opentelemetry import trace

        figures = {**_figures(summary), "keras_gpukit.steps": summary.steps}
        span = trace.get_tracer("keras_gpukit", __version__).start_span(
            "keras_gpukit.fit",
            context=self._context,
            start_time=_nanoseconds(self.began_s or time_s),
            attributes={name: value for name, value in figures.items() if value is not None},
        )
        for finding in summary.verdict.findings:
            span.add_event(FINDING, _event(finding), timestamp=_nanoseconds(time_s))
        if summary.ending != "completed":
            span.set_status(trace.StatusCode.ERROR, summary.ended_by)
        span.end(_nanoseconds(time_s))

    def close(self) -> None:
        """Forgets the readings: metrics must not go on after the run."""
        _readings.clear()


def _figures(summary: RunSummary) -> dict[str, float | None]:
    return {
        STALL: summary.input_stall_fraction,
        STEP_TIME: summary.step_time_s,
        EXAMPLE_RATE: summary.examples_per_s,
    }


def _event(finding: Finding) -> dict[str, str | float]:
    saving = finding.saving
    fields = {
        "code": finding.code,
        "title": finding.title,
        "severity": finding.severity,
        "saving_low_s": saving.low_s if saving else None,
        "saving_high_s": saving.high_s if saving else None,
    }
    return {f"{FINDING}.{name}": value for name, value in fields.items() if value is not None}


def _attributes_of(gpu: Any) -> tuple[tuple[str, Any], ...]:
    of_gpu = {
        "hw.type": "gpu",
        "hw.id": gpu.uuid or str(gpu.index),
        "hw.name": gpu.name,
        "hw.vendor": "NVIDIA",
    }
    return tuple((name, value) for name, value in of_gpu.items() if value is not None)


def _set(name: str, readings: Readings) -> None:
    _readings[name] = {**_readings.get(name, {}), **readings}  # others may be reading the old one


@functools.cache
def _create_instruments() -> None:
    """Creates the instruments, once: they cannot be removed again."""
    from opentelemetry import metrics

    meter = metrics.get_meter("keras_gpukit", __version__)
    for name, create, unit, description in INSTRUMENTS:
        getattr(meter, create)(name, [_observer(name)], unit, description)


def _observer(name: str) -> Callable[[Any], Iterable[Any]]:
    from opentelemetry.metrics import Observation

    def observe(options: Any) -> Iterable[Any]:
        for attributes, value in _readings.get(name, {}).items():
            if value is not None:
                yield Observation(value, dict(attributes))

    return observe


def _nanoseconds(time_s: float) -> int:
    return round(1e9 * time_s)
