"""Why steps became slower: what else changed when they did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import HOST_CPU, HOST_PROCESS_CPU, INPUT_WAIT
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.shift import Series, Shift
from keras_gpukit.rules.shifts import scale_of, series_of
from keras_gpukit.rules.slower_stages import slower_stage

MOSTLY = 0.5
"""The share of a change that explains it."""
# Of a drift, the parts at its ends that are compared.
_END_OF_DRIFT = 0.2
_OTHERS_PERCENT = 15.0
_CLOCK = "sm_clock_mhz"
SINCE_INPUT, SINCE_STEPS = "input wait since then", "step time since then"
"""What a saving rests on."""


@dataclass(frozen=True)
class Cause:
    """What changed with the step time.

    Attributes:
        words: What happened, after "when"; "" where nothing is known of it.
        basis: What a saving rests on.
        evidence: Figures before and after.
        advice: What to do.
    """

    words: str
    basis: str
    evidence: tuple[Figure, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spans:
    """Two stretches of a run, in seconds since it began: before a change, and after it."""

    before_s: tuple[float, float]
    after_s: tuple[float, float]


def _spans(shift: Shift, begin_s: float) -> Spans:
    """The stretches on both sides of a shift."""
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
        shift: Of its step time.
        begin_s: Where the level before it began, in seconds since the run did.
    """
    spans = _spans(shift, begin_s)
    waits = _levels(series_of(summary, INPUT_WAIT), spans)
    is_known = summary.input is not None and summary.input.confidence != "upper bound"
    captured = tuple(_captures(summary, shift))
    if waits is not None and is_known:
        if waits[1] - waits[0] >= MOSTLY * (shift.after - shift.before):
            return _input(summary, spans, waits, captured)
        found = next(_machine(summary, spans), None)
        if found is None:
            return _own_work(waits, captured)
        return found
    return next(
        _machine(summary, spans),
        Cause("", SINCE_STEPS, (), (*captured, *_look_into_steps(captured))),
    )


def _levels(series: Series | None, spans: Spans) -> tuple[float, float] | None:
    """The medians of a series before and after a change; None where it has no points there."""
    if series is None:
        return None
    found = []
    for begin_s, end_s in (spans.before_s, spans.after_s):
        means = [
            mean
            for elapsed_s, mean in zip(series.elapsed_s, series.mean, strict=True)
            if begin_s < elapsed_s <= end_s
        ]
        if not means:
            return None
        found.append(statistics.median(means))
    return found[0], found[1]


def _input(
    summary: RunSummary, spans: Spans, waits: tuple[float, float], captured: tuple[str, ...]
) -> Cause:
    evidence = [Figure("input wait before", waits[0], "ms"), Figure("after", waits[1], "ms")]
    stage = slower_stage(summary, spans.before_s, spans.after_s)
    python = summary.input.python if summary.input else None
    name = stage.name if stage else python.name if python else "the input pipeline"
    if stage is not None:
        evidence += [
            Figure(f"{stage.name} per batch before", 1e3 * stage.before_s, "ms"),
            Figure("after", 1e3 * stage.after_s, "ms"),
        ]
    where = f" ({stage.location})" if stage is not None and stage.location else ""
    return Cause(
        f"{name} slowed down{where}",
        SINCE_INPUT,
        tuple(evidence),
        (
            *captured,
            f"look for what changed in {name} then: larger examples, lists that it keeps and grows",
            "storage that slows down after a burst or is shared: copy the data to a local disk",
        ),
    )


def _machine(summary: RunSummary, spans: Spans) -> Iterator[Cause]:
    """What the machine shows, the most certain first."""
    for series in summary.series:
        clocks = _levels(series, spans) if series.tag.endswith(f"/{_CLOCK}") else None
        scale = scale_of(summary, series.tag)
        if clocks is None or scale is None or clocks[0] < clocks[1] or not scale.differ(*clocks):
            continue
        gpu = f"GPU:{series.tag.split('/')[1]}"
        yield Cause(
            f"the clock of {gpu} fell",
            SINCE_STEPS,
            (
                Figure(f"clock of {gpu} before", clocks[0], "MHz"),
                Figure("after", clocks[1], "MHz"),
            ),
            (
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER: says what holds the clock down",
                "cool the GPU, or compare its power limit with that of others",
            ),
        )
    busy, own = (_levels(series_of(summary, tag), spans) for tag in (HOST_CPU, HOST_PROCESS_CPU))
    if busy is not None and own is not None:
        before, after = busy[0] - own[0], busy[1] - own[1]
        if after - before >= _OTHERS_PERCENT:
            yield Cause(
                "other processes began to use the CPU",
                SINCE_STEPS,
                (
                    Figure("CPU used by other processes before", before, "%"),
                    Figure("after", after, "%"),
                ),
                ("find what else runs: top, or nvidia-smi for the GPU", "pin the run to its cores"),
            )


def _own_work(waits: tuple[float, float], captured: tuple[str, ...]) -> Cause:
    return Cause(
        "the steps' own work slowed down",
        SINCE_STEPS,
        (Figure("input wait before", waits[0], "ms"), Figure("after", waits[1], "ms")),
        (*captured, *_look_into_steps(captured)),
    )


def _look_into_steps(captured: tuple[str, ...]) -> tuple[str, ...]:
    advice = (
        "look for what grows: longer examples, lists kept between steps, memory that runs out",
        "profile a step before and one after: keras_gpukit.Profiler(log_dir, at_steps=...)",
    )
    return advice[:1] if captured else advice


def _captures(summary: RunSummary, shift: Shift) -> Iterator[str]:
    """Where to look: the first profile after the change, or how to make one."""
    captures = summary.captures.captures if summary.captures else ()
    after = [each for each in captures if each.path and each.first_step >= shift.step]
    before = [each for each in captures if each.path and each.first_step < shift.step]
    if not after:
        return
    told = f"see the profile of step {after[0].first_step:,} ({after[0].reason})"
    if before:
        told += f", and compare it with that of step {before[-1].first_step:,}"
    yield told
