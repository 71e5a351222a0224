"""What the host did: which of its events are operations of a step, launches, fetches."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Mask, Numbers
from keras_gpukit.profiling.reading.kinds import kind_of
from keras_gpukit.profiling.reading.spans import NOTHING, Spans

COLLECTIVE = "collective"
# Keras' function of one step, as it is inlined: it is in the name of each of the step's operations.
STEP = "StatefulPartitionedCall/"
# A whole step, compiled by XLA for a CPU.
_XLA_STEP = "CpuExecutable::ExecuteAsyncOnStream"
_LOOP = "while/body/"
_LAUNCHES = ("cuLaunch", "cudaLaunch", "cuGraphLaunch", "cudaGraphLaunch")
_DATA_THREADS = "tf_data"
_EAGER = "EagerLocalExecute: "
# "sequential/dense/MatMul:MatMul": the name in the graph, and the type.
_OPERATION = re.compile(r"^[^:\s]+:_?[A-Z]\w*$")
_ASYNC_OPERATION = re.compile(r"^(?!Iterator)\w+Op::DoCompute$")
# These contain others, or wait for others.
_CONTAINERS = re.compile(
    r":(Stateful|Stateless)?(PartitionedCall|While|If|Case)$|:_?(Host)?(Send|Recv|Retval|Arg)$"
    r"|^EagerLocalExecute: (_*inference_|\w*Iterator)"
)


@dataclass(frozen=True)
class Host:
    """Events of the host, sorted out.

    Attributes:
        events: All of them.
        waits: Time in which a fetch of the next batch was under way.
        nested_fetches: Time in which the pipeline fetched from another pipeline, as
            `prefetch_to_device` does.
        launches: Time in which kernels were being launched.
        operations: Which events are operations of steps.
        collectives: Time in which operations exchanged data with other workers, or waited for
            them, while no other operation ran.
        computed: Time from a step's first operation to its last, and that of operations which do
            not tell whose they are.
        computations: When each step's first operation began, and its last one ended.
        loops: Whether the steps of an execution run in a loop of TensorFlow's, where the next batch
            is fetched while a step is computed.
    """

    events: Events
    waits: Spans
    nested_fetches: Spans
    launches: Spans
    operations: Mask
    collectives: Spans
    computed: Spans
    computations: tuple[Numbers, Numbers]
    loops: bool


def sort_out(events: Events) -> Host:
    """Classifies the host's events."""
    operations, computed = _operations(events), computations(events)
    fetches = events.of(lambda name: name.startswith("IteratorGetNext"))
    nested = _nested(events, fetches)
    exchanges = operations & events.of(lambda name: kind_of(operation_name(name)[1]) == COLLECTIVE)
    return Host(
        events,
        waits=Spans.of(events, fetches & ~nested),
        nested_fetches=Spans.of(events, nested),
        launches=Spans.of(events, events.of(lambda name: name.startswith(_LAUNCHES))),
        operations=operations,
        collectives=Spans.of(events, exchanges) - Spans.of(events, operations & ~exchanges),
        computed=Spans.of(events, operations) | Spans.union(*computed),
        computations=computed,
        loops=any(name.startswith(_LOOP) for name in events.names),
    )


def operation_name(event: str) -> tuple[str, str]:
    """Returns an operation's name and its type, from an event's name."""
    if event.startswith(_EAGER):
        kind = event.removeprefix(_EAGER)
        return kind, kind
    if event.endswith("Op::DoCompute"):
        kind = event.removesuffix("Op::DoCompute")
        return kind, kind
    name, _, kind = event.rpartition(":")
    return short_name(name or event), kind if name else re.sub(r"[._]\d+$", "", event)


def short_name(operation: str) -> str:
    """Returns an operation's name without those of the functions it was inlined from."""
    return operation.rsplit(STEP, 1)[-1]


def computations(events: Events) -> tuple[Numbers, Numbers]:
    """Returns when each step's first operation began, and when its last one ended.

    The n-th time that each of a step's operations ran was in the n-th step. Between them lie
    operations that do not carry the step's name, such as those that wait for something. Most of a
    step's operations run once in it; those that run more often, or not in each, are left out.
    """
    chosen = events.of(lambda name: STEP in name or name == _XLA_STEP)
    if not chosen.any():
        return NOTHING.begin_ps, NOTHING.end_ps
    kinds, runs = np.unique(events.kind[chosen], return_counts=True)
    steps = int(np.bincount(runs).argmax())
    once = np.flatnonzero(chosen & np.isin(events.kind, kinds[runs == steps]))
    begin_ps, end_ps = (
        times_ps[once][np.lexsort((times_ps[once], events.kind[once]))].reshape(-1, steps)
        for times_ps in (events.begin_ps, events.end_ps)
    )
    return begin_ps.min(axis=0), end_ps.max(axis=0)


def _nested(events: Events, fetches: Mask) -> Mask:
    """Returns which fetches a pipeline makes from another one.

    A fetch has the identifier of the function call that it belongs to. A step's function is called
    by the thread that runs Python; a function called by a thread of tf.data is part of a pipeline.
    """
    called = events.of(lambda name: name == "FunctionRun")
    called &= events.on(lambda name: name.startswith(_DATA_THREADS))
    calls = {events.stats[index].get("id") for index in np.flatnonzero(called)} - {None}
    nested = np.zeros(len(fetches), bool)
    for index in np.flatnonzero(fetches) if calls else ():
        nested[index] = events.stats[index].get("id") in calls
    return nested


def _operations(events: Events) -> Mask:
    """Chooses the operations of steps.

    A graph's carry the name of the step's function, XLA's say what they were compiled from, eager
    ones run on the thread that runs Python. Operations of the input pipeline are none of them.
    Where nothing is known of how steps are made, any operation counts that no thread of tf.data
    ran.
    """
    contains = events.of(lambda name: bool(_CONTAINERS.search(name)))
    steps = events.of(lambda name: STEP in name and bool(_OPERATION.match(name)))
    compiled = events.carrying("hlo_op")
    eager = events.of(lambda name: name.startswith(_EAGER))
    waiting = events.of(lambda name: bool(_ASYNC_OPERATION.match(name)))
    known: Mask = (steps | compiled | eager) & ~contains
    if not known.any():
        of_input = events.on(lambda name: name.startswith(_DATA_THREADS))
        known = events.of(lambda name: bool(_OPERATION.match(name))) & ~of_input & ~contains
    return known | waiting
