"""Pictures of captured profiles: where a step's time went, and what took it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from keras_gpukit.records.profile import Part, ProfileRecord
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.picture import (
    COLORS,
    PATTERNS,
    Picture,
    Table,
    Unknown,
    axis,
    draw,
    label,
    shortened,
)

_CAPTURES = "Captured steps"
_EACH_STEP = "Each step of the newest capture"
_MOST_DRAWN = 12
_MOST_ROWS = 10
_PARTS: dict[Part, str] = {
    "device compute": COLORS["compute"],
    "host compute": COLORS["first step"],
    "input wait": COLORS["input"],
    "collectives": COLORS["callbacks"],
    "host to device": COLORS["validation"],
    "other copies": "#5fa3a3",
    "kernel launch": COLORS["epoch starts"],
    "between steps": "#a58b6f",
    "idle": COLORS["other"],
}


def captures_picture(captures: Sequence[CaptureReport]) -> Picture | Unknown:
    """The mean step of each capture by where its time went."""
    if not captures:
        return Unknown(
            _CAPTURES, "nothing was captured; keras_gpukit.Profiler takes profiles of a few steps"
        )
    drawn = [each for each in captures if each.profile and each.profile.parts_s][-_MOST_DRAWN:]
    figure = _bars(drawn) if drawn else None
    newest = drawn[-1] if drawn else None
    return Picture(
        _CAPTURES,
        _words(captures, newest),
        figure,
        _captures_table(captures),
        tuple(_details(newest.profile)) if newest and newest.profile else (),
    )


def each_step_picture(captures: Sequence[CaptureReport]) -> Picture | Unknown:
    """The steps of the newest capture, one bar each."""
    profiles = [each.profile for each in captures if each.profile and each.profile.each_step]
    if not profiles:
        return Unknown(_EACH_STEP, "no capture has steps that can be told apart")
    profile = profiles[-1]
    numbers = [step.number for step in profile.each_step]
    names = [f"{place if number is None else number}" for place, number in enumerate(numbers, 1)]
    present = [part for part in _PARTS if any(step.parts_s.get(part) for step in profile.each_step)]
    traces = [
        _bar(
            part,
            place,
            x=list(range(len(names))),
            y=[_ms(step.parts_s.get(part)) for step in profile.each_step],
            hovertemplate="%{y:.3~f} ms",
        )
        for place, part in enumerate(present)
    ]
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names}
    figure = draw(
        traces,
        barmode="stack",
        xaxis=axis("step", **(ticks if len(names) <= _MOST_DRAWN else {"showticklabels": False})),
        yaxis=axis("ms", rangemode="tozero"),
    )
    rows = tuple(
        (
            name,
            units.duration(step.duration_s),
            *(_time(step.parts_s.get(part)) for part in present),
        )
        for name, step in zip(names, profile.each_step, strict=True)
    )
    slowest = max(step.duration_s for step in profile.each_step)
    fastest = min(step.duration_s for step in profile.each_step)
    words = f"From {units.duration(fastest)} to {units.duration(slowest)} a step."
    return Picture(_EACH_STEP, words, figure, Table(("step", "time", *present), rows))


def _bars(captures: Sequence[CaptureReport]) -> str:
    profiles = [each.profile for each in captures if each.profile]
    present = [part for part in _PARTS if any(profile.parts_s.get(part) for profile in profiles)]
    traces = [
        _bar(
            part,
            place,
            x=[_ms(profile.parts_s.get(part)) for profile in profiles],
            y=list(range(len(profiles))),
            orientation="h",
            hovertemplate="%{x:.3~f} ms",
        )
        for place, part in enumerate(present)
    ]
    return draw(
        traces,
        height=150 + 36 * len(profiles),
        barmode="stack",
        hovermode="y unified",
        xaxis=axis("ms a step", rangemode="tozero"),
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(profiles))),
            "ticktext": [label(each.name.split("/")[0], 26) for each in captures],
            "range": [len(profiles) - 0.4, -0.6],
            "automargin": True,
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
        },
    )


def _bar(part: Part, place: int, **data: Any) -> Any:
    from plotly import graph_objects as go

    pattern = {"shape": PATTERNS[place % len(PATTERNS)], "solidity": 0.2}
    return go.Bar(name=part, marker={"color": _PARTS[part], "pattern": pattern}, **data)


def _words(captures: Sequence[CaptureReport], newest: CaptureReport | None) -> str:
    count = "One profile" if len(captures) == 1 else f"{len(captures):,} profiles"
    if newest is None or newest.profile is None:
        return f"{count}, none with steps that could be read."
    profile = newest.profile
    parts = sorted(profile.parts_s.items(), key=lambda part: -part[1])[:3]
    told = ", ".join(f"{name} {units.duration(spent_s)}" for name, spent_s in parts)
    words = f"{count}. In the newest, a step went to: {told}."
    if profile.stall_fraction is not None:
        words += f" {units.percentage(profile.stall_fraction)} of its time was input stall."
    busy = [
        f"{each.device} was busy {units.percentage(each.busy_fraction)} of the time"
        for each in profile.devices
    ]
    return " ".join([words, *(f"{', '.join(busy)}." for _ in busy[:1])])


def _captures_table(captures: Sequence[CaptureReport]) -> Table:
    rows = tuple(
        (
            shortened(each.name),
            each.capture.reason if each.capture else "not by a Profiler",
            f"{each.profile.steps:,}" if each.profile else "",
            _time(each.profile.step_time_s) if each.profile else "",
            _share(each.profile.stall_fraction) if each.profile else "",
            units.duration(each.capture.held_up_s) if each.capture else "",
            "; ".join(_faults(each)),
        )
        for each in captures
    )
    heads = ("capture", "because", "steps", "step time", "stall", "held training up", "remarks")
    return Table(heads, rows)


def _faults(each: CaptureReport) -> Iterator[str]:
    capture, profile = each.capture, each.profile
    if each.unread_because:
        yield f"not read: {each.unread_because}"
    if capture:
        told = (capture.failed_because, capture.ended_early_because, capture.incomplete_because)
        yield from filter(None, told)
    if profile:
        yield from filter(None, (profile.incomplete_because, profile.steps_unknown_because))
        yield from profile.problems


def _details(profile: ProfileRecord) -> Iterator[tuple[str, Table]]:
    """Of the newest capture: what took the time, and what held the memory."""
    if profile.kinds_s:
        kinds = sorted(profile.kinds_s.items(), key=lambda kind: -kind[1])
        rows = tuple((kind, units.duration(spent_s)) for kind, spent_s in kinds)
        yield "Newest capture: computation by kind", Table(("kind", "a step"), rows)
    if profile.operations:
        rows = tuple(
            (
                shortened(each.name),
                each.kind,
                _time(each.time_s),
                f"{each.count:,}",
                _share(each.share),
            )
            for each in profile.operations[:_MOST_ROWS]
        )
        heads = ("operation", "kind", "time", "count", "share")
        yield "Newest capture: longest operations", Table(heads, rows)
    if profile.kernels:
        rows = tuple(
            (
                shortened(each.name),
                "yes" if each.tensor_core else "no",
                _time(each.time_s),
                f"{each.count:,}",
                _share(each.share),
            )
            for each in profile.kernels[:_MOST_ROWS]
        )
        heads = ("kernel", "Tensor Cores", "time", "count", "share")
        yield "Newest capture: longest kernels", Table(heads, rows)
    if profile.stages:
        rows = tuple(
            (
                shortened(each.name),
                each.kind,
                _time(each.blocked_s),
                _share(each.share),
                _time(each.own_s),
            )
            for each in profile.stages[:_MOST_ROWS]
        )
        heads = ("stage", "kind", "held a step up", "share of the wait", "at work a step")
        yield "Newest capture: stages that were waited for", Table(heads, rows)
    for memory in profile.memory:
        if memory.holdings:
            rows = tuple(
                (
                    shortened(each.operation),
                    units.size(each.bytes),
                    each.shape or "",
                    each.dtype or "",
                )
                for each in memory.holdings[:_MOST_ROWS]
            )
            title = (
                f"Newest capture: {memory.allocator} at its peak of {units.size(memory.peak_bytes)}"
            )
            yield title, Table(("held by", "size", "shape", "type"), rows)


def _ms(spent_s: float | None) -> float | None:
    return None if spent_s is None else round(spent_s * 1e3, 5)


def _time(spent_s: float | None) -> str:
    return "unknown" if spent_s is None else units.duration(spent_s)


def _share(fraction: float | None) -> str:
    return "unknown" if fraction is None else units.percentage(fraction)
