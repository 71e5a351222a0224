"""Activity of the host: operations of steps, kernel launches and fetches of batches."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from keras_gpukit.profiling.reading.events import NOTHING, Events, Mask, Numbers, Spans
from keras_gpukit.profiling.reading.gpu import kind_of
from keras_gpukit.records.placement import PYTHON_OPERATIONS

# Name of Keras' inlined step function, which is part of the names of all the step's operations.
STEP = "StatefulPartitionedCall/"
# A whole step, compiled by XLA for a CPU.
_XLA_STEP = "CpuExecutable::ExecuteAsyncOnStream"
_XLA_ENDED = "end: "
_LOOP = "while/body/"
_LAUNCHES = ("cuLaunch", "cudaLaunch", "cuGraphLaunch", "cudaGraphLaunch")
_FETCH, _SEND = "IteratorGetNext", ":_Send"
# How TensorFlow 2.21 names what it does before it copies memory that is not pinned to a GPU.
_STAGING = "Staging CPU buffer to pinned memory"
_DATA_THREADS = "tf_data"
_EAGER = "EagerLocalExecute: "
_FUNCTION = f"{_EAGER}__inference_"
# "sequential/dense/MatMul:MatMul": the name in the graph, and the type.
_OPERATION = re.compile(r"^[^:\s]+:_?[A-Z]\w*$")
_ASYNC_OPERATION = re.compile(r"^(?!Iterator)\w+Op::DoCompute$")
# Operations that contain other operations, or wait for them.
_CONTAINERS = re.compile(
    r":(Stateful|Stateless)?(PartitionedCall|While|If|Case)$|:_?(Host)?(Send|Recv|Retval|Arg)$"
    r"|^EagerLocalExecute: (_*inference_|\w*Iterator)|^(while|call|conditional)([._]\d+)*$"
)


@dataclass(frozen=True)
class Host:
    """Classified events of the host.

    Attributes:
        waits: Time in which the next batch was being fetched.
        staging: Time in which memory was copied to pinned memory, and from there to a GPU after.
        nested_fetches: Time in which the input pipeline fetched from another pipeline, as
            `prefetch_to_device` does.
        launches: Time in which Python had called a graph, as a step's function, and none of its
            operations was seen to compute on the host: on a GPU, the time that launches kernels.
        operations: Mask of the events that are operations of steps.
        python: Time in which such operations called Python functions.
        collectives: Time in which operations exchanged data with other workers, or waited for
            them, while no other operation ran.
        computed: Time from each step's first operation to its last, plus the time of operations
            whose names do not show which step they belong to.
        computations: Start of each step's first operation, and end of its last one.
        loops: Whether the steps of an execution run in a TensorFlow loop, which fetches the next
            batch while a step is computed.
    """

    events: Events
    waits: Spans
    staging: Spans
    nested_fetches: Spans
    launches: Spans
    operations: Mask
    python: Spans
    collectives: Spans
    computed: Spans
    computations: tuple[Numbers, Numbers]
    loops: bool


def sort_out(events: Events) -> Host:
    """Classifies the host's events."""
    events = _until_they_ended(events)
    operations, computed = _operations(events), computations(events)
    fetches = events.of(lambda name: name.startswith(_FETCH) and not name.endswith(_SEND))
    nested = _nested(events, fetches)
    launches = events.of(lambda name: name.startswith((*_LAUNCHES, _FUNCTION)))
    exchanges = operations & events.of(
        lambda name: kind_of(operation_name(name)[1]) == "collective"
    )
    in_python = operations & events.of(lambda name: operation_name(name)[1] in PYTHON_OPERATIONS)
    return Host(
        events,
        waits=Spans.of(events, fetches & ~nested),
        staging=Spans.of(events, events.of(_STAGING.__eq__)),
        nested_fetches=Spans.of(events, nested),
        launches=Spans.of(events, launches) - Spans.of(events, operations),
        operations=operations,
        python=Spans.of(events, in_python),
        collectives=Spans.of(events, exchanges) - Spans.of(events, operations & ~exchanges),
        computed=Spans.of(events, operations) | Spans.union(*computed),
        computations=computed,
        loops=any(name.startswith(_LOOP) for name in events.names),
    )


def _until_they_ended(events: Events) -> Events:
    """Returns the events, those of XLA's instructions until the instructions ended.

    XLA for CPUs hands large ones, such as products, to other threads. Their own events last until
    they are handed over; another event marks the end of each (`thunk_executor.cc`).
    """
    kinds = {name: kind for kind, name in enumerate(events.names)}
    pairs = [
        (kinds.get(name.removeprefix(_XLA_ENDED)), kind)
        for name, kind in kinds.items()
        if name.startswith(_XLA_ENDED)
    ]
    if not pairs:
        return events
    order = np.lexsort((events.begin_ps, events.kind))
    edges = np.searchsorted(events.kind[order], np.arange(len(events.names) + 1))
    end_ps = events.end_ps.copy()
    for begun, ended in pairs:
        if begun is None:
            continue
        runs, marks = (order[edges[kind] : edges[kind + 1]] for kind in (begun, ended))
        begin_ps, ends_ps = events.begin_ps[runs], events.end_ps[marks]
        places = np.searchsorted(ends_ps, begin_ps)
        runs, places, begin_ps = (
            column[places < len(ends_ps)] for column in (runs, places, begin_ps)
        )
        # A capture may lack an end: then the next one belongs to a later run.
        own = ends_ps[places] <= np.append(begin_ps[1:], ends_ps[-1:])
        end_ps[runs[own]] = np.maximum(end_ps[runs[own]], ends_ps[places[own]])
    return replace(events, end_ps=end_ps)


def operation_name(event: str) -> tuple[str, str]:
    """Returns the name and the type of the operation that an event's name describes."""
    if event.startswith(_EAGER):
        kind = event.removeprefix(_EAGER)
        return kind, kind
    if event.endswith("Op::DoCompute"):
        kind = event.removesuffix("Op::DoCompute")
        return kind, kind
    name, _, kind = event.rpartition(":")
    own = (name or event).rsplit(STEP, 1)[-1]  # without the functions it was inlined from
    return own, kind if name else re.sub(r"[._]\d+$", "", event)


def computations(events: Events) -> tuple[Numbers, Numbers]:
    """Returns the start of each step's first operation, and the end of its last one.

    The n-th run of each of the step's operations belongs to the n-th step. Operations that do not
    carry the step's name lie between them, such as those that wait for something. Most operations
    run once per step. Those that run more often, or not in every step, are ignored.
    """
    chosen = _in_steps(events) | events.of(_XLA_STEP.__eq__)
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


def _in_steps(events: Events) -> Mask:
    """Returns a mask of what runs within the step's function.

    Where Python calls that function itself, as Keras does from 3.16 on with one step per execution,
    its name is not part of its operations' names: these are all that no tf.data thread runs.
    """
    inlined = events.of(lambda name: STEP in name)
    if inlined.any() or not any(name.startswith(_FUNCTION) for name in events.names):
        return inlined
    operations = events.of(
        lambda name: bool(_OPERATION.match(name)) and not _CONTAINERS.search(name)
    )
    return operations & ~events.on(lambda name: name.startswith(_DATA_THREADS))


def _nested(events: Events, fetches: Mask) -> Mask:
    """Returns a mask of the fetches that one pipeline makes from another.

    A fetch carries the id of the function call that it belongs to. The thread that runs Python
    calls a step's function. A function that a tf.data thread calls is part of a pipeline.
    """
    called = events.of(lambda name: name == "FunctionRun")
    called &= events.on(lambda name: name.startswith(_DATA_THREADS))
    calls = {events.stats[index].get("id") for index in np.flatnonzero(called)} - {None}
    nested = np.zeros(len(fetches), bool)
    for index in np.flatnonzero(fetches) if calls else ():
        nested[index] = events.stats[index].get("id") in calls
    return nested


def _operations(events: Events) -> Mask:
    """Returns a mask of the operations of steps.

    Operations of a graph carry the name of the step's function. Operations compiled by XLA carry
    the name of their HLO operation. Eager operations run on the thread that runs Python. Operations
    of the input pipeline do not count. If no operation is found in these ways, all operations that
    did not run on a tf.data thread count.
    """
    contains = events.of(lambda name: bool(_CONTAINERS.search(name)))
    steps = _in_steps(events) & events.of(lambda name: bool(_OPERATION.match(name)))
    compiled = events.carrying("hlo_op")
    eager = events.of(lambda name: name.startswith(_EAGER))
    waiting = events.of(lambda name: bool(_ASYNC_OPERATION.match(name)))
    known: Mask = (steps | compiled | eager) & ~contains
    if not known.any():
        of_input = events.on(lambda name: name.startswith(_DATA_THREADS))
        known = events.of(lambda name: bool(_OPERATION.match(name))) & ~of_input & ~contains
    return known | waiting
