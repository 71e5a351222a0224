"""Why steps became slower: what else changed at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import BETWEEN_STEPS, INPUT_WAIT
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Shift
from keras_gpukit.rules.slowdown.machine_causes import (
    MOSTLY,
    SINCE_CALLBACKS,
    SINCE_INPUT,
    SINCE_STEPS,
    Cause,
    Spans,
    busy_neighbours,
    changed,
    levels,
    slower_clock,
)
from keras_gpukit.rules.slowdown.shifts import series_of
from keras_gpukit.rules.slowdown.slower_stages import slower_stage

# Share of a drift at each of its ends; the two parts are compared with each other.
_END_OF_DRIFT = 0.2
_LOOK_INTO_STEPS = (
    "look for what grows: longer examples, lists kept between steps, memory that runs out",
    "profile a step before and one after: `keras_gpukit.Profiler(log_dir, at_steps=...)`",
)


def _spans(shift: Shift, begin_s: float) -> Spans:
    """Returns the stretches of the run before and after a shift."""
    before_s, after_s = (begin_s, shift.elapsed_s), (shift.elapsed_s, shift.end_s)
    if shift.kind == "drift":
        end_s = _END_OF_DRIFT * (shift.end_s - shift.elapsed_s)
        after_s = (shift.end_s - end_s, shift.end_s)
        if shift.elapsed_s <= begin_s:
            before_s = (shift.elapsed_s, shift.elapsed_s + end_s)
    return Spans(before_s, after_s)


def cause_of(summary: RunSummary, shift: Shift, begin_s: float = 0.0) -> Cause:
    """Returns what changed when steps became slower.

    Args:
        summary: The run.
        shift: Change of the step time.
        begin_s: Start of the level before the shift, in seconds since the run began.
    """
    spans = _spans(shift, begin_s)
    waits = levels(series_of(summary, INPUT_WAIT), spans)
    record = summary.input
    is_refuted = record is None or record.live_stall_fraction is not None
    is_known = record is not None and record.confidence != "upper bound" and not is_refuted
    captured = tuple(_captures(summary, shift))
    words = ""
    evidence: tuple[Figure, ...] = ()
    if waits is not None and is_known:
        if waits[1] - waits[0] >= MOSTLY * (shift.after - shift.before):
            return _input(summary, spans, waits, captured)
        words, evidence = "the steps' own work slowed down", changed("input_wait", waits, "ms")
    look = _LOOK_INTO_STEPS[:1] if captured else _LOOK_INTO_STEPS
    return (
        _callbacks(summary, shift, spans)
        or slower_clock(summary, spans)
        or busy_neighbours(summary, spans)
        or Cause(words, SINCE_STEPS, evidence, (*captured, *look))
    )


def _input(
    summary: RunSummary, spans: Spans, waits: tuple[float, float], captured: tuple[str, ...]
) -> Cause:
    evidence = changed("input_wait", waits, "ms")
    slower = slower_stage(summary, spans.before_s, spans.after_s)
    python = summary.input.python if summary.input else None
    name, where = python.name if python else "the input pipeline", ""
    if slower is not None:
        name, where = slower.stage.name, slower.stage.where
        costs_ms = 1e3 * slower.before_s, 1e3 * slower.after_s
        evidence += changed("time_per_batch_of", costs_ms, "ms", name)
    neighbours = busy_neighbours(summary, spans)
    if neighbours is not None:
        evidence += neighbours.evidence
    return Cause(
        f"{name} slowed down{where}",
        SINCE_INPUT,
        evidence,
        (
            *captured,
            *(neighbours.advice if neighbours else ()),
            f"look for what changed in {name} then: larger examples, lists that it keeps and grows",
            "storage that slows down after a burst or is shared: copy the data to a local disk",
        ),
    )


def _callbacks(summary: RunSummary, shift: Shift, spans: Spans) -> Cause | None:
    """Returns callbacks as the cause if most of the extra step time is between steps, else None."""
    between = levels(series_of(summary, BETWEEN_STEPS), spans)
    if between is None or between[1] - between[0] < MOSTLY * (shift.after - shift.before):
        return None
    parts = summary.breakdown
    name, longest_s = next(iter(parts.by_callback.items()), ("", 0.0)) if parts else ("", 0.0)
    is_named = parts is not None and longest_s >= MOSTLY * parts.callbacks_s
    return Cause(
        f"the callback {name} slowed down" if is_named else "callbacks slowed down",
        SINCE_CALLBACKS,
        changed("between_steps", between, "ms"),
        (
            "look for what grows in callbacks: lists of losses, files that they rewrite",
            "do less at each batch: every tenth or hundredth, or at the end of epochs",
        ),
    )


def _captures(summary: RunSummary, shift: Shift) -> Iterator[str]:
    """Yields where to look: the first profile after the change, and the last one before it."""
    captures = summary.captures.captures if summary.captures else ()
    after = [each for each in captures if each.path and each.first_step >= shift.step]
    before = [each for each in captures if each.path and each.first_step < shift.step]
    if not after:
        return
    told = f"see the profile of step {after[0].first_step:,} ({after[0].reason})"
    if before:
        told += f", and compare it with that of step {before[-1].first_step:,}"
    yield told
