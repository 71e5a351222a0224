"""Measures each place in a pipeline from several readings of its model.

Most iterators live as long as the pipeline. Their cost is the growth of their counters between the
first and the last reading, so filling buffers at the start does not count. Iterators under
`repeat`, `interleave` and the like come and go. The readings sample them, which gives the cost per
element; the number of elements comes from the stage that creates the iterators.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from keras_gpukit.input.wait.bottleneck import in_order
from keras_gpukit.input.wait.readings import (
    NESTING,
    REPEATING,
    SHUFFLING,
    MeasuredNode,
    ModelReading,
    Node,
)
from keras_gpukit.records.pipeline import PipelineCosts

MOST_PARTS = 32
"""Maximum number of parts of a run with separate costs."""
SHORTEST_S = 1.0
"""Minimum seconds of a run. A shorter one has at most one window, so no slowdown would show."""
_CHAINED = "Concatenate"
_RENEWING = REPEATING | {_CHAINED}
"""Stages whose inputs end before they do."""


@dataclass
class _Life:
    """One iterator over an interval of readings: its nodes in those that contain it, in order."""

    nodes: list[Node]
    from_start: bool
    to_end: bool

    @property
    def is_lasting(self) -> bool:
        return self.from_start and self.to_end

    @property
    def elements(self) -> int:
        return self.nodes[-1].elements - (self.nodes[0].elements if self.from_start else 0)

    @property
    def held(self) -> int:
        return self.nodes[-1].held - (self.nodes[0].held if self.from_start else 0)

    @property
    def work_s(self) -> float:
        return self.nodes[-1].work_s - (self.nodes[0].work_s if self.from_start else 0.0)


@dataclass
class _Interval:
    """Readings of one iterator of the whole pipeline, in order."""

    readings: Sequence[ModelReading]
    lives: dict[int, _Life] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, last = self.readings[0].nodes, self.readings[-1].nodes
        for reading in self.readings:
            for number, node in reading.nodes.items():
                if number not in self.lives:
                    self.lives[number] = _Life([], number in first, number in last)
                self.lives[number].nodes.append(node)

    def inputs(self, number: int) -> list[int]:
        """Returns the numbers of all inputs that an iterator ever had, oldest first."""
        known = {source for node in self.lives[number].nodes for source in node.inputs}
        return sorted(known & self.lives.keys())


_Place = list[tuple[_Interval, int]]


@dataclass(frozen=True)
class _Asker:
    """A stage, as seen by the places that it fetches from.

    It may take elements in turn from a cycle of iterators. If it shuffles, elements fetched but not
    yet produced are in its buffer.
    """

    elements: int
    per_batch: float
    lasting: bool
    cycle: int | None
    shuffles: bool = False


def measure(intervals: Sequence[Sequence[ModelReading]]) -> tuple[MeasuredNode, int] | None:
    """Returns the costs of the stages of a pipeline, and the number of batches fetched meanwhile.

    Each restart of the pipeline, as Keras does in each epoch, begins a new interval of readings.
    Batches count from the first to the last reading of each interval. None if there are none.
    """
    whole = [_whole(readings) for readings in intervals]
    known = [_Interval(readings) for readings in whole if len(readings) > 1]
    place = [(interval, interval.readings[0].output) for interval in known]
    batches = sum(interval.lives[number].elements for interval, number in place)
    if batches <= 0:
        return None
    return _measure(place, batches, _Asker(batches, 1.0, True, None)), batches


def measure_starts(readings: Sequence[ModelReading]) -> MeasuredNode | None:
    """Returns what stages did since their pipeline was started, per start; None without a reading.

    Unlike `measure`, it counts what fills buffers and what is dropped before the first element.
    """
    intervals = [_Interval([_not_begun(reading), reading]) for reading in readings]
    if not intervals:
        return None
    place = [(interval, interval.readings[0].output) for interval in intervals]
    return _measure(place, len(intervals), _Asker(len(intervals), 1.0, True, None))


def _not_begun(reading: ModelReading) -> ModelReading:
    """Returns the reading that lasting iterators would have given before they did any work."""
    lasting = _lasting(reading, reading.output)
    nodes = {
        number: reading.nodes[number]._replace(elements=0, work_s=0.0, held=0) for number in lasting
    }
    return ModelReading(nodes, reading.output)


def costs_over_time(
    passes: Sequence[Sequence[tuple[float, ModelReading]]], output: MeasuredNode
) -> tuple[PipelineCosts, ...]:
    """Returns the costs of the stages in parts of a run, leaving out parts with other stages.

    There are none for a short run, whose stages are not worth measuring twice.
    """
    times_s = [when for readings in passes for when, _ in readings]
    if not times_s or times_s[-1] - times_s[0] < SHORTEST_S:
        return ()
    kinds = [member.stage.kind for _, member in in_order(output)]
    most = max(1, MOST_PARTS // len(passes))
    parts = []
    for readings in passes:
        every = max(1, -(-(len(readings) - 1) // most))
        for (begin_s, first), (end_s, last) in pairwise([*readings[:-1:every], *readings[-1:]]):
            measured = measure([[first, last]])
            found = [member.stage for _, member in in_order(measured[0])] if measured else []
            if [stage.kind for stage in found] == kinds:
                costs_s = tuple(stage.cost_per_batch_s for stage in found)
                parts.append(PipelineCosts(round(begin_s, 3), round(end_s, 3), costs_s))
    return tuple(parts)


def _whole(readings: Sequence[ModelReading]) -> Sequence[ModelReading]:
    """Leaves out the last readings if an iterator that should last is missing from them.

    At the end of its data, a pipeline deletes exhausted iterators while batches that they made are
    still in buffers.
    """
    if not readings:
        return readings
    lasting = _lasting(readings[0], readings[0].output)
    end = len(readings)
    while end > 1 and not lasting <= readings[end - 1].nodes.keys():
        end -= 1
    return readings[:end]


def _lasting(reading: ModelReading, number: int) -> set[int]:
    """Returns the iterators from one back to the sources that last as long as the pipeline."""
    node = reading.nodes[number]
    sources = [
        child
        for child in node.inputs
        if child in reading.nodes and node.kind not in _RENEWING and not _is_nested(child, node)
    ]
    return {number}.union(*(_lasting(reading, child) for child in sources))


def _is_nested(child: int, asker: Node) -> bool:
    # A stage's source is created right after the stage, so it has the next number.
    return asker.kind in NESTING and child != asker.id + 1


def _measure(place: _Place, batches: int, asker: _Asker) -> MeasuredNode:
    """Measures one place, of which all iterators are given, and those before it."""
    lives = [interval.lives[number] for interval, number in place]
    elements = sum(life.elements for life in lives)
    work_s = sum(life.work_s for life in lives)
    cost_s = work_s / elements if elements else None
    intervals = {id(interval): interval for interval, _ in place}.values()
    lasting = len(intervals) == len(lives) and all(life.is_lasting for life in lives)
    if lasting:
        per_batch, cost_per_batch_s = elements / batches, work_s / batches
    else:
        # A stage that creates iterators passes on each of their elements. So does a shuffle, in the
        # long run.
        seen = not asker.lasting and asker.elements > 0
        per_asked = elements / asker.elements if seen and not asker.shuffles else 1.0
        per_batch = asker.per_batch * per_asked
        cost_per_batch_s = per_batch * (cost_s or 0.0)
    newest = lives[-1].nodes[-1]
    buffered = [node.buffered for life in lives for node in life.nodes if node.buffered is not None]
    times = sum(len(interval.readings) for interval in intervals)
    at_once = sum(len(life.nodes) for life in lives) / times
    shuffles = newest.kind in SHUFFLING
    asks = _Asker(elements, per_batch, lasting, newest.cycle, shuffles)
    measured: dict[bool, list[MeasuredNode]] = {False: [], True: []}
    for (_, is_nested, _), members in sorted(_by_role(place).items()):
        measured[is_nested].append(_measure(members, batches, asks))
    measured_node = MeasuredNode(
        kind=newest.kind,
        cost_s=cost_s,
        per_batch=per_batch,
        cost_per_batch_s=cost_per_batch_s,
        parallelism=newest.parallelism,
        buffered=statistics.fmean(buffered) if buffered else None,
        # Limited by the cycle: iterators that an interleave creates ahead soon have full buffers
        # and wait.
        copies=max(1.0, min(at_once, asker.cycle or at_once)),
        inputs=tuple(measured[False]),
        nested=tuple(measured[True]),
        pass_bytes=max(life.nodes[-1].size_bytes for life in lives),
        elements=elements,
        held=sum(life.held for life in lives),
    )
    return _with_chain(measured_node) if newest.kind == _CHAINED else measured_node


def _with_chain(node: MeasuredNode) -> MeasuredNode:
    """Returns a `concatenate` that stands for all those in a row that its elements pass through.

    Of the sources that it joins, all of a kind are one.
    """
    before = next((part for part in node.inputs if part.kind == _CHAINED), None)
    last = tuple(part for part in node.inputs if part is not before)
    sources: dict[str, MeasuredNode] = {}
    others = []
    for part in (*(before.inputs if before else ()), *last):
        if part.inputs or part.nested:
            others.append(part)
        else:
            sources[part.kind] = _sum(sources[part.kind], part) if part.kind in sources else part
    if before is not None:
        node = _sum(node, replace(before, per_batch=0.0, elements=0, pass_bytes=0))
    parts = (*sources.values(), *others)
    in_all = sum(part.elements for part in parts) or 1
    # Each of its elements is of one of them.
    inputs = (_with_elements(part, node.per_batch * part.elements / in_all) for part in parts)
    return replace(node, inputs=tuple(inputs))


def _with_elements(part: MeasuredNode, per_batch: float) -> MeasuredNode:
    """Returns a part of a pipeline of which so many elements are taken for a batch."""
    factor = per_batch / (part.per_batch or 1.0)
    return part.changed(
        lambda stage: replace(
            stage,
            per_batch=factor * stage.per_batch,
            cost_per_batch_s=factor * stage.cost_per_batch_s,
        )
    )


def _sum(a: MeasuredNode, b: MeasuredNode) -> MeasuredNode:
    per_batch, cost_per_batch_s = a.per_batch + b.per_batch, a.cost_per_batch_s + b.cost_per_batch_s
    return replace(
        a,
        cost_s=cost_per_batch_s / per_batch if per_batch else None,
        per_batch=per_batch,
        cost_per_batch_s=cost_per_batch_s,
        elements=a.elements + b.elements,
        pass_bytes=a.pass_bytes + b.pass_bytes,
    )


def _by_role(place: _Place) -> dict[tuple[int, bool, str], _Place]:
    """Groups the inputs of a place by their position, whether they are nested, and their kind."""
    grouped: dict[tuple[int, bool, str], _Place] = {}
    for interval, number in place:
        asker = interval.lives[number].nodes[0]
        for position, child in enumerate(interval.inputs(number)):
            is_nested = _is_nested(child, asker)
            alike = is_nested or asker.kind in _RENEWING
            role = (0 if alike else position, is_nested, interval.lives[child].nodes[0].kind)
            grouped.setdefault(role, []).append((interval, child))
    return grouped
