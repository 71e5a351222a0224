"""The input stall as a profile of the same steps shows it.

Each step is marked with TensorFlow's own `Trace`, so that a profile shows where it began. What of
the time from the second mark to the last is inside `IteratorGetNext`, and alongside no step's
operations, is stall. Nothing of keras_gpukit is in it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import keras
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

MARK = "benchmark_step"
FETCH = "IteratorGetNext"
# What sends a fetched batch on to a device is named after the operation that fetched it.
SEND = ":_Send"
# Keras' function of one step, as it is inlined: it is in the name of each of the step's operations.
STEP = "StatefulPartitionedCall/"
# What a whole step compiled by XLA is on a CPU.
XLA = "CpuExecutable::ExecuteAsyncOnStream"

Span = tuple[int, int]
"""Begin and end, in picoseconds."""


class Capture(keras.callbacks.Callback):
    """Profiles a fit of some dozen executions, and marks each of them."""

    def on_train_begin(self, logs=None):
        self._folder = tempfile.TemporaryDirectory()
        tf.profiler.experimental.start(self._folder.name)

    def on_train_batch_begin(self, batch, logs=None):
        self._mark = tf.profiler.experimental.Trace(MARK, step_num=batch, _r=1)
        self._mark.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        self._mark.__exit__(None, None, None)

    def on_train_end(self, logs=None):
        tf.profiler.experimental.stop()
        [path] = Path(self._folder.name).rglob("*.xplane.pb")
        self._events = read_host_events(path)
        self._folder.cleanup()

    def stall(self, *, overlapping: bool) -> float | None:
        """Returns the stall fraction, as `stall_of` does."""
        return stall_of(self._events, overlapping=overlapping)


def stall_of(events: dict[str, list[Span]], *, overlapping: bool) -> float | None:
    """Returns the stall fraction from the second mark to the last.

    It is `overlapping` if a batch is fetched while the step before it is computed, as where several
    steps make one execution. If then no operation of a step is found, as on a GPU, it is unknown.
    """
    marks = sorted(events[MARK])
    begin, end = marks[1][0], marks[-1][0]
    stalled = fetches(events)
    if overlapping:
        if not (computed := union(computed_steps(events))):
            return None
        stalled = subtract(stalled, computed)
    return sum(max(0, min(b, end) - max(a, begin)) for a, b in stalled) / (end - begin)


def fetches(events: Mapping[str, list[Span]]) -> list[Span]:
    """Returns when batches were fetched, without overlaps."""
    names = (name for name in events if name.startswith(FETCH) and not name.endswith(SEND))
    return union(span for name in names for span in events[name])


def read_host_events(path: Path) -> dict[str, list[Span]]:
    """Spans of what the host did, by name."""
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    [host] = (plane for plane in space.planes if plane.name == "/host:CPU")
    spans: dict[str, list[Span]] = defaultdict(list)
    for line in host.lines:
        for event in line.events:
            begin = line.timestamp_ns * 1000 + event.offset_ps
            name = host.event_metadata[event.metadata_id].name
            spans[name].append((begin, begin + event.duration_ps))
    return spans


def computed_steps(events: dict[str, list[Span]]) -> Iterator[Span]:
    """From the first operation of each step to its last.

    The n-th time that each of a step's operations ran was in the n-th step. Between them lie
    operations that do not carry the step's name, among them the one that sleeps.
    """
    runs = [sorted(spans) for name, spans in events.items() if STEP in name or name == XLA]
    steps = max((len(spans) for spans in runs), default=0)
    for step in zip(*(spans for spans in runs if len(spans) == steps), strict=True):
        yield min(begin for begin, _ in step), max(end for _, end in step)


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time, in spans that do not overlap."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def subtract(spans: list[Span], others: list[Span]) -> list[Span]:
    """What of the spans lies in none of the others; neither overlap among themselves."""
    left = []
    for begin, end in spans:
        for other_begin, other_end in others:
            if other_begin < end and other_end > begin:
                if other_begin > begin:
                    left.append((begin, other_begin))
                begin = other_end
        if begin < end:
            left.append((begin, end))
    return left
