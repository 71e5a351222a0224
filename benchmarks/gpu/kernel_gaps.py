"""How long the GPU idled while a fit ran: what an input stall is measured against.

Read from the profile's own schema; nothing of keras_gpukit is in it.
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.xplane_truth import (
    FETCH,
    MARK,
    Capture,
    Span,
    read_host_events,
    subtract,
    union,
)

PS = 1e12
"""Picoseconds in a second."""


class KernelGaps(Capture):
    """Profiles a fit, marks its executions, and reads what ran on the GPU.

    All figures are from the second execution's begin to the last one's.

    Attributes:
        on_gpu: Whether the profile shows a GPU at all.
    """

    def on_train_end(self, logs: object = None) -> None:
        tf.profiler.experimental.stop()
        [path] = Path(self._folder.name).rglob("*.xplane.pb")
        self._events = read_host_events(path)
        busy = read_gpu_spans(path)
        self._folder.cleanup()
        marks = sorted(self._events[MARK])
        self._executions = len(marks) - 2
        self._whole = [(marks[1][0], marks[-1][0])]
        self._idle = subtract(self._whole, busy)
        self.on_gpu = bool(busy)

    @property
    def execution_s(self) -> float:
        """Mean time from an execution's begin to the next one's."""
        return seconds(self._whole) / self._executions

    @property
    def idle_s(self) -> float:
        """Mean time of an execution in which neither a kernel nor a copy ran."""
        return seconds(self._idle) / self._executions

    @property
    def idle_while_fetching(self) -> float:
        """Share of the time in which the GPU idled and the host was inside `IteratorGetNext`."""
        fetching = union(
            span for name, spans in self._events.items() if name.startswith(FETCH) for span in spans
        )
        not_fetching = subtract(self._idle, fetching)
        return (seconds(self._idle) - seconds(not_fetching)) / seconds(self._whole)


def read_gpu_spans(path: Path) -> list[Span]:
    """When a kernel or a copy ran on any stream of any GPU, without overlaps."""
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return union(
        (begin, begin + event.duration_ps)
        for plane in space.planes
        if plane.name.startswith("/device:GPU:")
        for line in plane.lines
        if line.name.startswith("Stream")  # other lines are drawn up from these
        for event in line.events
        for begin in [line.timestamp_ns * 1000 + event.offset_ps]
    )


def idle_between_kernels(path: Path) -> float | None:
    """Share of the time in which the GPU idled, from its first kernel to its last.

    None without a GPU in the profile.
    """
    busy = read_gpu_spans(path)
    return 1 - seconds(busy) * PS / (busy[-1][1] - busy[0][0]) if busy else None


def seconds(spans: list[Span]) -> float:
    """Sum of spans that do not overlap."""
    return sum(end - begin for begin, end in spans) / PS
