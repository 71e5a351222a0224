"""Finds where steps start and end in a profile, and divides their time into parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, get_args

import numpy as np

from keras_gpukit.profiling.reading.events import NOTHING, PS, Events, Mask, Numbers, Spans
from keras_gpukit.profiling.reading.gpu import GPU, GPUs, kind_of
from keras_gpukit.profiling.reading.host_activity import Host, operation_name
from keras_gpukit.records.profile import Kind, StepPart, StepProfile, StepSource

T = TypeVar("T", StepPart, Kind)
MOST_ROWS = 50

# Keras' train functions, as its TensorFlow trainer names them: seen with Keras 3.12, 3.15, 3.16.
_TRAIN_FUNCTIONS = frozenset({"multi_step_on_iterator", "one_step_on_iterator", "one_step_on_data"})
# Event of a pipeline's start, at the start of an epoch or a validation. The time there belongs to
# no step. No other sign is reliable: a pause may also be long because a callback is slow.
_PIPELINE_BEGINS = "MakeIterator::Root"


@dataclass(frozen=True)
class Steps:
    """Steps, or executions of several steps, in order of time.

    Attributes:
        numbers: Step numbers from the markers; None if the steps are not marked.
        end_ps: End of each step, which is the start of the next one; a lone step ends with its own
            event.
        inside: Time within the steps' own events; the rest is between steps.
        counted: Time from the first start to the last end, without the pauses between epochs.
        per_execution: Steps per execution, derived from the markers' numbers; None if the numbers
            do not show it.
    """

    source: StepSource | None
    numbers: tuple[int, ...] | None
    begin_ps: Numbers
    end_ps: Numbers
    inside: Spans
    counted: Spans
    per_execution: int | None = None

    def __len__(self) -> int:
        return len(self.begin_ps)


def find_steps(host: Events) -> Steps:
    """Finds the steps that were captured completely.

    Steps are found by markers that xprof takes for roots (`_r`), else by other markers, else by
    Keras' own train function. If one mark lies within another, the inner one counts. A step lasts
    until the next one starts. If there are several steps, the last one is left out, since no step
    follows it. If there are more than two, the first one is left out too, since it was captured
    while the profiler was starting.
    """
    marks, source = _marks(host)
    chosen = _one_for_each_step(host, np.flatnonzero(marks))
    chosen = chosen[np.argsort(host.begin_ps[chosen], kind="stable")]
    begin_ps, end_ps = host.begin_ps[chosen], host.end_ps[chosen]
    inside = Spans.union(begin_ps, end_ps)
    if not len(chosen):
        return Steps(None, None, begin_ps, end_ps, NOTHING, NOTHING)
    numbers = None
    if source == "marker":
        marked = [host.stats[index].get("step_num") for index in chosen]
        numbers = [number if isinstance(number, int) else 0 for number in marked]
    per_execution = _stride(numbers or [])
    if len(chosen) > 1:
        kept = _in_one_epoch(end_ps[:-1], begin_ps[1:], host)
        begin_ps, end_ps = begin_ps[:-1], begin_ps[1:]
        kept[0] &= len(chosen) == 2
        begin_ps, end_ps = begin_ps[kept], end_ps[kept]
        numbers = numbers and [n for n, keep in zip(numbers, kept, strict=False) if keep]
    counted = Spans.union(begin_ps, end_ps)
    named = None if numbers is None else tuple(numbers)
    return Steps(source, named, begin_ps, end_ps, inside, counted, per_execution)


def _marks(host: Events) -> tuple[Mask, StepSource | None]:
    """Returns a mask of the events that mark steps, and their source.

    If several kinds of event mark steps, the most frequent one counts.
    """
    counts = np.bincount(host.kind, minlength=len(host.names))
    for wanted, source in (
        (lambda stats, _: {"step_num", "_r"} <= stats, "marker"),
        (lambda stats, _: "step_num" in stats, "marker"),
        (lambda _, name: name in _TRAIN_FUNCTIONS, "train function"),
    ):
        kinds = [
            kind
            for kind, (stats, name) in enumerate(zip(host.stat_names, host.names, strict=True))
            if wanted(stats, name)
        ]
        if kinds:
            most = max(kinds, key=lambda kind: counts[kind])
            return host.kind == most, source  # type: ignore[return-value]
    return np.zeros(len(host.kind), bool), None


def _one_for_each_step(host: Events, marks: Numbers) -> Numbers:
    """Keeps the marks that contain no other mark on their line.

    Several markers may be independent, such as those of two callbacks, or of a callback and the
    code around it. And a mark around several steps marks no step; it may mark an epoch.
    """
    line, begin_ps, end_ps = host.line, host.begin_ps, host.end_ps
    marks = marks[np.lexsort((-end_ps[marks], begin_ps[marks], line[marks]))]
    # In this order, each mark is directly followed by the marks within it.
    contains = line[marks[1:]] == line[marks[:-1]]
    contains &= end_ps[marks[1:]] <= end_ps[marks[:-1]]
    kept: Numbers = marks[np.append(~contains, True)] if len(marks) else marks
    return kept


def _in_one_epoch(since_ps: Numbers, until_ps: Numbers, host: Events) -> Mask:
    """Returns a mask of the pauses between two marks in which no pipeline starts."""
    begins_ps = np.sort(host.begin_ps[host.of(lambda name: name.startswith(_PIPELINE_BEGINS))])
    none: Mask = np.searchsorted(begins_ps, since_ps) == np.searchsorted(begins_ps, until_ps)
    return none


def _stride(numbers: list[int]) -> int | None:
    """Returns the distance between step numbers if it is constant and above 1, else None.

    A distance of 1 may mean that the numbers count executions, whose length is then unknown.
    """
    strides = np.diff(numbers)
    return int(strides[0]) if len(strides) and strides[0] > 1 and np.ptp(strides) == 0 else None


def exposed_waits(host: Host, gpus: GPUs) -> Spans:
    """Returns when the run waited for its next batch and computed nothing.

    A copy from the host does not count as computation, since it brings the batch. On a CPU, an
    execution of one step fetches first and then computes. Several steps per execution run in a
    loop, which fetches the next batch while it computes.
    """
    if gpus.members:
        return host.waits - gpus.computing
    return host.waits - Spans.union(*host.computations) if host.loops else host.waits


def part_spans(steps: Steps, host: Host, gpus: GPUs) -> dict[StepPart, Spans]:
    """Divides the time of the steps into parts; each moment belongs to exactly one."""
    layers: dict[StepPart, Spans] = {
        "device compute": gpus.compute,
        "collectives": gpus.collectives if gpus.members else host.collectives,
        "other copies": gpus.other_copies,
        "input wait": exposed_waits(host, gpus),
        "host to device": gpus.from_host | host.staging,
        "kernel launch": host.launches if gpus.members else NOTHING,
        "host compute": host.computed,
        "between steps": steps.counted - steps.inside,
    }
    return _one_after_the_other(layers, steps.counted, rest="idle")


def kind_spans(host: Host, gpus: GPUs, computed: Spans) -> dict[Kind, Spans]:
    """Divides computation time by kind; each moment belongs to exactly one."""
    layers: dict[Kind, Spans] = dict.fromkeys(get_args(Kind), NOTHING)
    sources = [(gpu.plane.events, gpu.computing) for gpu in gpus.members]
    for events, chosen in sources or [(host.events, host.operations)]:
        for kind, spans in _by_kind(events, chosen, of_gpu=bool(sources)).items():
            layers[kind] = layers[kind] | spans
    return _one_after_the_other(layers, computed, rest="other")


def rows(steps: Steps, parts: dict[StepPart, Spans]) -> tuple[StepProfile, ...]:
    """Returns the breakdown of each of the first 50 steps."""
    begin_ps, end_ps = steps.begin_ps[:MOST_ROWS], steps.end_ps[:MOST_ROWS]
    each_ps = {part: spans.covered_ps(begin_ps, end_ps) for part, spans in parts.items()}
    return tuple(
        StepProfile(
            number=None if steps.numbers is None else steps.numbers[row],
            duration_s=float(end_ps[row] - begin_ps[row]) * PS,
            parts_s={part: float(of_part[row]) * PS for part, of_part in each_ps.items()},
        )
        for row in range(len(begin_ps))
    )


def exposed_collectives_s(gpu: GPU, steps: Steps) -> tuple[float, ...]:
    """Returns a GPU's time in collectives without computation, for each of the first 50 steps."""
    exposed = gpu.collectives - gpu.compute
    begin_ps, end_ps = steps.begin_ps[:MOST_ROWS], steps.end_ps[:MOST_ROWS]
    return tuple(float(each_ps) * PS for each_ps in exposed.covered_ps(begin_ps, end_ps))


def _by_kind(events: Events, chosen: Mask, *, of_gpu: bool) -> dict[Kind, Spans]:
    """Returns when each kind of computation ran."""
    _, firsts = np.unique(events.kind, return_index=True)
    named = events.names if of_gpu else [operation_name(events.operation(at))[1] for at in firsts]
    kinds = np.array([kind_of(name) for name in named], object)
    return {
        kind: Spans.of(events, chosen & (kinds == kind)[events.kind])
        for kind in dict.fromkeys(kinds)
    }


def _one_after_the_other(layers: dict[T, Spans], whole: Spans, *, rest: T) -> dict[T, Spans]:
    """Gives each layer the time that the layers before it left, and `rest` the remainder.

    Layers without time are left out.
    """
    parts: dict[T, Spans] = {}
    left = whole
    for part, spans in layers.items():
        parts[part] = left & spans
        left = left - spans
    parts[rest] = parts.get(rest, NOTHING) | left
    return {part: spans for part, spans in parts.items() if spans.total_ps}
