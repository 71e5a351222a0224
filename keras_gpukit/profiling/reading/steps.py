"""Where steps begin and end in a profile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Mask, Numbers
from keras_gpukit.profiling.reading.spans import NOTHING, Spans
from keras_gpukit.records.profile import StepSource

# Keras' train functions, as its TensorFlow trainer names them (seen with Keras 3.12 and 3.15).
_TRAIN_FUNCTIONS = frozenset({"multi_step_on_iterator", "one_step_on_iterator"})
# A pipeline starts with an epoch or a validation, and the time there belongs to no step.
# Nothing else shows it: a pause may be long because a callback is slow.
_PIPELINE_BEGINS = "MakeIterator::Root"


@dataclass(frozen=True)
class Steps:
    """Steps, or executions of several steps, one after the other.

    Attributes:
        source: How they were identified; None where there are none.
        numbers: What their markers say; None where they are not marked.
        begin_ps: When each began.
        end_ps: When the next one began.
        inside: The time within their functions; the rest is between them.
        counted: From the first begin to the last end, pauses of an epoch's end left out.
        per_execution: Steps that the host starts together, as the markers' numbers tell; None where
            they do not.
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
    """Finds the steps that were captured whole.

    Markers are best, those that xprof takes for roots (`_r`) before others; else Keras' own train
    function. A step that is marked twice, one mark within the other, is one step. A step
    lasts until the next one begins. Of more than two, the first is left out, since it was captured
    while the profiler got going; and of more than one the last, which nothing follows.
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
        said = [host.stats[index].get("step_num") for index in chosen]
        numbers = [number if isinstance(number, int) else 0 for number in said]
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
    """Chooses the kind of event that marks steps; of several, the one that marks most of them."""
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
    """Leaves one mark for each step, where marks lie within others on the same line.

    Several markers may be independent: a callback and the code around it, two callbacks. The
    outermost covers the whole step, and has the number that its user gave. But one that holds
    several others side by side marks no step: an epoch, say.
    """
    if not len(marks):
        return marks
    line, begin_ps, end_ps = host.line, host.begin_ps, host.end_ps
    marks = marks[np.lexsort((-end_ps[marks], begin_ps[marks], line[marks]))]
    # In this order each is followed by those within it, so that one of them is next.
    within_last = line[marks[1:]] == line[marks[:-1]]
    within_last &= end_ps[marks[1:]] <= end_ps[marks[:-1]]
    innermost = np.flatnonzero(np.append(~within_last, True))
    first = np.searchsorted(innermost, np.arange(len(marks)))
    second = marks[innermost[np.minimum(first + 1, len(innermost) - 1)]]
    several = (first + 1 < len(innermost)) & (line[second] == line[marks])
    several &= end_ps[second] <= end_ps[marks]
    _, outermost = np.unique(first[~several], return_index=True)
    kept: Numbers = marks[~several][outermost]
    return kept


def _in_one_epoch(since_ps: Numbers, until_ps: Numbers, host: Events) -> Mask:
    """Returns in which of the pauses between two marks no pipeline begins."""
    begins_ps = np.sort(host.begin_ps[host.of(lambda name: name.startswith(_PIPELINE_BEGINS))])
    none: Mask = np.searchsorted(begins_ps, since_ps) == np.searchsorted(begins_ps, until_ps)
    return none


def _stride(numbers: list[int]) -> int | None:
    """How far apart the numbers of steps are; this is unknown if executions are counted."""
    strides = np.diff(numbers)
    return int(strides[0]) if len(strides) and strides[0] > 1 and np.ptp(strides) == 0 else None
