"""Tables of captured profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keras_gpukit.records.capture import MissedCapture
from keras_gpukit.records.profile import (
    KernelProfile,
    MemoryProfile,
    OperationProfile,
    ProfileRecord,
)
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import shortened
from keras_gpukit.reports.tables import Table

_MOST_ROWS = 10
_TENSOR_CORES = {True: "yes", False: "no", None: "unknown"}


def captures_table(captures: Sequence[CaptureReport]) -> Table:
    """Returns a table with a row per capture, including captures that could not be read."""
    heads = ("capture", "because", "steps", "step time", "stall", "training blocked", "remarks")
    return Table(heads, tuple(_capture_row(each) for each in captures))


def missed_table(missed: Sequence[MissedCapture]) -> Table:
    """Returns a table with a row per capture that was requested but not started."""
    rows = tuple((f"{each.step:,}", each.reason, each.because) for each in missed)
    return Table(("step", "because", "not started because"), rows)


def detail_tables(
    profile: ProfileRecord, stage_names: Mapping[str, str]
) -> Iterator[tuple[str, Table]]:
    """Yields the known tables of where a capture's time went, each with its heading."""
    steps = max(profile.steps, 1)
    if profile.kinds_s:
        yield "Newest capture: computation by kind", _kinds(profile)
    if profile.operations:
        kinds = [(each, each.kind) for each in profile.operations]
        yield "Newest capture: longest operations", _longest("operation", "kind", kinds, steps)
    if profile.kernels:
        uses = [(each, _TENSOR_CORES[each.tensor_core]) for each in profile.kernels]
        yield "Newest capture: longest kernels", _longest("kernel", "Tensor Cores", uses, steps)
    if profile.stages:
        yield "Newest capture: stages that training waited for", _stages(profile, stage_names)


def holdings_tables(memories: Sequence[MemoryProfile]) -> Iterator[tuple[str, Table]]:
    """Yields a table per allocator, with its heading: memory held by operations at its peak."""
    for memory in memories:
        if memory.holdings:
            rows = tuple(
                (shortened(each.operation), units.size(each.bytes), each.shape or "")
                for each in memory.holdings[:_MOST_ROWS]
            )
            yield f"{memory.allocator} at its peak", Table(("held by", "size", "shape"), rows)


def _capture_row(each: CaptureReport) -> tuple[str, ...]:
    capture, profile = each.capture, each.profile
    return (
        shortened(each.name),
        capture.reason if capture else "not by a Profiler",
        f"{profile.steps:,}" if profile else "",
        units.known(profile.step_time_s, units.duration) if profile else "",
        units.known(profile.stall_fraction, units.percentage) if profile else "",
        units.duration(capture.held_up_s) if capture else "",
        "; ".join(_remarks(each)),
    )


def _remarks(each: CaptureReport) -> Iterator[str]:
    capture, profile = each.capture, each.profile
    if each.unread_because:
        yield f"not read: {each.unread_because}"
    if capture:
        told = (capture.failed_because, capture.ended_early_because, capture.incomplete_because)
        yield from filter(None, told)
    if profile:
        yield from filter(None, (profile.incomplete_because, profile.steps_unknown_because))
        yield from profile.problems


def _kinds(profile: ProfileRecord) -> Table:
    longest = sorted(profile.kinds_s.items(), key=lambda kind: -kind[1])
    rows = tuple((str(kind), units.duration(spent_s)) for kind, spent_s in longest)
    return Table(("kind", "time per step"), rows)


def _longest(
    what: str,
    remark: str,
    found: Sequence[tuple[OperationProfile | KernelProfile, str]],
    steps: int,
) -> Table:
    rows = tuple(
        (
            shortened(each.name),
            remarked,
            units.duration(each.time_s / steps),
            units.number(each.count / steps),
            units.percentage(each.share),
        )
        for each, remarked in found[:_MOST_ROWS]
    )
    return Table((what, remark, "time per step", "count per step", "share"), rows)


def _stages(profile: ProfileRecord, names: Mapping[str, str]) -> Table:
    rows = tuple(
        (
            shortened(names.get(each.name, each.name)),
            each.kind,
            units.duration(each.blocked_s),
            units.percentage(each.share),
            units.duration(each.own_s),
        )
        for each in profile.stages[:_MOST_ROWS]
    )
    return Table(("stage", "kind", "blocked per step", "share of the wait", "busy per step"), rows)
