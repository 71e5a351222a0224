"""How long the GPU idled while a fit ran: what an input stall is measured against.

Read from the profile's own schema; nothing of keras_gpukit is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.xplane_truth import MARK, Capture, Span, fetches, read_host_events, subtract, union

PS = 1e12
"""Picoseconds in a second."""


@dataclass(frozen=True)
class Gaps:
    """How a GPU idled, from the second execution's start to the last one's; None without a GPU."""

    execution_s: float
    """Mean time from an execution's start to the next one's."""
    idle_s: float | None = None
    """Mean time of an execution in which neither a kernel nor a copy ran."""
    idle_while_fetching: float | None = None
    """Share of the time in which it idled and the host was inside `IteratorGetNext`."""


class GapCapture(Capture):
    """Profiles a fit, and marks where its executions start; then it has its `gaps`.

    If `async_safe`, as all callbacks, Keras starts executions before it has the last one's loss.
    """

    def __init__(self, *, async_safe: bool) -> None:
        super().__init__()
        self.async_safe = async_safe

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        with tf.profiler.experimental.Trace(MARK, step_num=batch, _r=1):
            pass

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Not left to Keras, which would not ask whether this is `async_safe`."""

    def on_train_end(self, logs: object = None) -> None:
        tf.profiler.experimental.stop()
        [path] = Path(self._folder.name).rglob("*.xplane.pb")
        self.gaps = gaps_of(read_host_events(path), read_gpu_spans(path))
        self._folder.cleanup()


def gaps_of(events: Mapping[str, list[Span]], busy: list[Span]) -> Gaps:
    """Returns how a GPU idled."""
    marks = sorted(events[MARK])
    executions, whole = len(marks) - 2, [(marks[1][0], marks[-1][0])]
    if not busy:
        return Gaps(seconds(whole) / executions)
    idle = subtract(whole, busy)
    while_fetching_s = seconds(idle) - seconds(subtract(idle, fetches(events)))
    return Gaps(
        seconds(whole) / executions, seconds(idle) / executions, while_fetching_s / seconds(whole)
    )


def read_gpu_spans(path: Path) -> list[Span]:
    """When a kernel or a copy ran on any stream of any GPU, without overlaps."""
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return union(
        (start, start + event.duration_ps)
        for plane in space.planes
        if plane.name.startswith("/device:GPU:")
        for line in plane.lines
        if line.name.startswith("Stream")  # other lines are drawn up from these
        for event in line.events
        for start in [line.timestamp_ns * 1000 + event.offset_ps]
    )


def idle_between_kernels(path: Path) -> float | None:
    """Share of the time from its first kernel to its last in which the GPU idled; None without."""
    busy = read_gpu_spans(path)
    return 1 - seconds(busy) * PS / (busy[-1][1] - busy[0][0]) if busy else None


def seconds(spans: list[Span]) -> float:
    """Sum of spans that do not overlap."""
    return sum(end - start for start, end in spans) / PS
