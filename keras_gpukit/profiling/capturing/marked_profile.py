"""Marks steps, and amends captured profiles, so that TensorBoard's Profile tab finds the steps.

The tab recognizes a step by an event that is marked as its root (`_r=1`), and assigns to the step
all events that follow from that one. A TensorFlow loop within a step breaks this. Keras runs such a
loop if there are several steps per execution, and so does a recurrent layer. Each iteration of the
loop then becomes a root of its own, events marked as roots are ignored, and no step is found. So
all iterations of a loop are renumbered to its first one (0), which the tab does not take for a
loop. Seen on xprof 2.24: `ProcessTensorFlowLoop` and `CreateEventGroups` in `group_events.cc`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

MARK = "train"
"""Name of the event around a step. The tab recognizes steps by names that begin with it."""

# A larger profile is left unchanged: parsing one takes several times its size in memory.
LARGEST_AMENDED_BYTES = 256 * 2**20

_HOST = "/host:CPU"
_STEP_NUMBER = "step_num"
_TURN = "iter_num"
# Events that carry the number of a loop's iteration. The tab groups them by that number.
_IN_LOOPS = (
    "ExecutorState::Process",
    "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute",
)


def step_marker() -> tuple[Callable[[], bool], Callable[[int], AbstractContextManager[Any]]]:
    """Returns two functions: one says whether a profile is being recorded, one marks a step.

    The second function takes the step's number, and returns a context manager to run the step in.

    Private name, seen on TensorFlow 2.21: `trace.enabled`. Without it, steps are always marked,
    which costs a microsecond or more even if no profile is recorded.
    """
    import tensorflow as tf
    from tensorflow.python.profiler import trace

    mark = functools.partial(tf.profiler.experimental.Trace, MARK, _r=1)
    return getattr(trace, "enabled", lambda: True), lambda number: mark(step_num=number)


def amend(content: bytes, steps: range | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Amends a captured profile so that the Profile tab finds its steps.

    Args:
        content: Content of an `.xplane.pb` file.
        steps: Numbers of the steps that were captured completely. The marks of other steps are
            removed: one may surround the unsuccessful fetch of a batch at an epoch's end. None
            keeps all marks.

    Returns:
        The amended content, or the same object if nothing had to change; and the messages of
        TensorFlow's profiler on what it could not record. A profile that is too large to be amended
        is returned unchanged, without messages.
    """
    if len(content) > LARGEST_AMENDED_BYTES:
        return content, ()
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(content)
    amended = [_amend_host(plane, steps) for plane in space.planes if plane.name == _HOST]
    return space.SerializeToString() if any(amended) else content, tuple(space.errors)


def _amend_host(plane: Any, steps: range | None) -> bool:
    """Amends the host's plane; returns whether anything had to change."""
    marks = set() if steps is None else _ids(plane.event_metadata, (MARK,))
    in_loops = _ids(plane.event_metadata, _IN_LOOPS)
    step_number = _ids(plane.stat_metadata, (_STEP_NUMBER,))
    turn = _ids(plane.stat_metadata, (_TURN,))
    amended = False
    for line in plane.lines:
        strangers = []
        for index, event in enumerate(line.events):
            if event.metadata_id in in_loops:
                for stat in event.stats:
                    if stat.metadata_id in turn and stat.int64_value:
                        stat.int64_value = 0
                        amended = True
            elif event.metadata_id in marks:
                told = [stat.int64_value for stat in event.stats if stat.metadata_id in step_number]
                if steps is not None and (not told or told[0] not in steps):
                    strangers.append(index)
        for index in reversed(strangers):
            del line.events[index]
            amended = True
    return amended


def _ids(metadata: Any, names: Iterable[str]) -> set[int]:
    return {each.id for each in metadata.values() if each.name in names}
