"""What several readings of a pipeline say together about each place in it.

Most iterators live as long as the pipeline, and cost what their counters grew by between the first
reading and the last; so filling buffers at the start does not count. Those under `repeat`,
`interleave` and the like come and go: the readings are a sample of them, which gives the cost of an
element, and the stage that makes them gives their number.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from keras_gpukit.input_wait.stages.readings import (
    NESTING,
    REPEATING,
    SHUFFLING,
    MeasuredNode,
    ModelReading,
    Node,
)


@dataclass
class _Life:
    """One iterator over a stretch of readings."""

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
    def work_s(self) -> float:
        return self.nodes[-1].work_s - (self.nodes[0].work_s if self.from_start else 0.0)


@dataclass
class _Stretch:
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
        """All inputs that an iterator ever had, oldest first."""
        known = {each for node in self.lives[number].nodes for each in node.inputs}
        return sorted(known & self.lives.keys())


_Place = list[tuple[_Stretch, int]]


@dataclass(frozen=True)
class _Asker:
    """The stage that asks a place.

    Attributes:
        elements: What it produced.
        per_batch: The same for each batch that left the pipeline.
        lasting: Whether it lived as long as the pipeline.
        cycle: From how many iterators it takes elements in turn.
        shuffles: Whether what it asked for beyond what it produced stays in its buffer.
    """

    elements: int
    per_batch: float
    lasting: bool
    cycle: int | None
    shuffles: bool = False


def measure(stretches: Sequence[Sequence[ModelReading]]) -> tuple[MeasuredNode, int] | None:
    """Returns what the stages of a pipeline cost.

    Args:
        stretches: Readings of the same pipeline, in order; a stretch for each time it was
            restarted, as Keras does each epoch.

    Returns:
        The stage that training asks, and the batches that were fetched between the first and the
        last reading of each stretch. None where there were none.
    """
    whole = [_whole(readings) for readings in stretches]
    known = [_Stretch(readings) for readings in whole if len(readings) > 1]
    place = [(stretch, stretch.readings[0].output) for stretch in known]
    batches = sum(stretch.lives[number].elements for stretch, number in place)
    if batches <= 0:
        return None
    return _measure(place, batches, _Asker(batches, 1.0, True, None)), batches


def _whole(readings: Sequence[ModelReading]) -> Sequence[ModelReading]:
    """Leaves out the last readings that lack a lasting iterator.

    At the end of its data a pipeline lets the iterators go that have no more, while the batches
    they made are still in buffers.
    """
    if not readings:
        return readings
    lasting = _lasting(readings[0], readings[0].output)
    end = len(readings)
    while end > 1 and not lasting <= readings[end - 1].nodes.keys():
        end -= 1
    return readings[:end]


def _lasting(reading: ModelReading, number: int) -> set[int]:
    """The iterators from one on that are not rebuilt while the pipeline runs."""
    node = reading.nodes[number]
    # The source of a stage is made with it, and so has the next number.
    sources = [
        child
        for child in node.inputs
        if child in reading.nodes
        and node.kind not in REPEATING
        and (node.kind not in NESTING or child == number + 1)
    ]
    return {number}.union(*(_lasting(reading, child) for child in sources))


def _measure(place: _Place, batches: int, asker: _Asker) -> MeasuredNode:
    """Measures one place and those before it.

    Args:
        place: The iterators that stood here.
        batches: Batches that left the pipeline.
        asker: What asks for their elements.
    """
    lives = [stretch.lives[number] for stretch, number in place]
    elements = sum(life.elements for life in lives)
    work_s = sum(life.work_s for life in lives)
    cost_s = work_s / elements if elements else None
    stretches = {id(stretch): stretch for stretch, _ in place}.values()
    lasting = len(stretches) == len(lives) and all(life.is_lasting for life in lives)
    if lasting:
        per_batch, cost_per_batch_s = elements / batches, work_s / batches
    else:
        # A stage that makes iterators hands their elements on, one for one; so does a shuffle, in
        # the end.
        seen = not asker.lasting and asker.elements > 0
        per_asked = elements / asker.elements if seen and not asker.shuffles else 1.0
        per_batch = asker.per_batch * per_asked
        cost_per_batch_s = per_batch * (cost_s or 0.0)
    newest = lives[-1].nodes[-1]
    buffered = [node.buffered for life in lives for node in life.nodes if node.buffered is not None]
    at_once = sum(len(life.nodes) for life in lives) / sum(len(s.readings) for s in stretches)
    shuffles = newest.kind in SHUFFLING
    asks = _Asker(elements, per_batch, lasting, newest.cycle, shuffles)
    measured: dict[bool, list[MeasuredNode]] = {False: [], True: []}
    for (_, is_nested, _), members in sorted(_by_role(place).items()):
        measured[is_nested].append(_measure(members, batches, asks))
    return MeasuredNode(
        kind=newest.kind,
        cost_s=cost_s,
        per_batch=per_batch,
        cost_per_batch_s=cost_per_batch_s,
        parallelism=newest.parallelism,
        buffered=statistics.fmean(buffered) if buffered else None,
        # Iterators that an interleave makes ahead soon have full buffers, and wait.
        copies=max(1.0, min(at_once, asker.cycle or at_once)),
        inputs=tuple(measured[False]),
        nested=tuple(measured[True]),
    )


def _by_role(place: _Place) -> dict[tuple[int, bool, str], _Place]:
    """Groups what is asked from a place by its position, whether it is nested, and its kind."""
    grouped: dict[tuple[int, bool, str], _Place] = {}
    for stretch, number in place:
        asker = stretch.lives[number].nodes[0]
        for position, child in enumerate(stretch.inputs(number)):
            # The source of a stage is made with it, and so has the next number.
            is_nested = asker.kind in NESTING and child != number + 1
            alike = is_nested or asker.kind in REPEATING
            role = (0 if alike else position, is_nested, stretch.lives[child].nodes[0].kind)
            grouped.setdefault(role, []).append((stretch, child))
    return grouped
