"""What a captured profile needs so that TensorBoard's Profile tab finds the steps in it.

The tab takes a step from an event that says it is the root of one (`_r=1`), and what belongs to
the step from what follows from that event. But where a TensorFlow loop runs in a step, as Keras'
own does with several steps to an execution, and that of a recurrent layer, each turn of the loop
becomes a root of its own, events that say they are roots are passed over, and no step is found. So
all turns of a loop become its first one, which the tab does not take for a loop. Seen on xprof
2.24: `ProcessTensorFlowLoop` and `CreateEventGroups` in `group_events.cc`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

MARK = "train"
"""Name of the event around a step. The tab knows steps by names that begin so."""

# A larger profile is left as it is: parsing one takes several times its size.
LARGEST_AMENDED_BYTES = 256 * 2**20

_HOST = "/host:CPU"
_STEP_NUMBER = "step_num"
_TURN = "iter_num"
# What carries the number of a loop's turn, and is grouped by it.
_IN_LOOPS = (
    "ExecutorState::Process",
    "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute",
)


def step_marker() -> tuple[Callable[[], bool], Callable[[int], AbstractContextManager[Any]]]:
    """Returns whether a profile is recorded, and what makes a step's mark in it from its number.

    Private name, seen on TensorFlow 2.21: `trace.enabled`. Without it, steps are always marked,
    which costs a microsecond or more where no profile is recorded.
    """
    import tensorflow as tf
    from tensorflow.python.profiler import trace

    mark = functools.partial(tf.profiler.experimental.Trace, MARK, _r=1)
    return getattr(trace, "enabled", lambda: True), lambda number: mark(step_num=number)


def amend(content: bytes, steps: range | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Makes of a captured profile one whose steps the Profile tab finds.

    Args:
        content: Of an `.xplane.pb`.
        steps: Numbers of the steps that were captured whole. The marks of others go: one may lie
            around the vain look for a batch at an epoch's end. None leaves all.

    Returns:
        What it becomes, the same object if there is nothing to amend; and what TensorFlow's
        profiler says it could not record.
    """
    if len(content) > LARGEST_AMENDED_BYTES:
        return content, ()
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(content)
    amended = [_amend_host(plane, steps) for plane in space.planes if plane.name == _HOST]
    return space.SerializeToString() if any(amended) else content, tuple(space.errors)


def _amend_host(plane: Any, steps: range | None) -> bool:
    """Amends what the host did; returns whether there was anything to amend."""
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
