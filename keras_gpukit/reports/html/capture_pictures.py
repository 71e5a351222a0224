"""Pictures of captured profiles: where a step's time went, and what took it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_gpukit.records.profile import Part
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.capture_tables import (
    captures_table,
    detail_tables,
    holdings_tables,
    time_text,
)
from keras_gpukit.reports.html.picture import (
    COLORS,
    DASHES,
    PALETTE,
    PATTERNS,
    Picture,
    Table,
    Unknown,
    axis,
    draw,
    label,
)

_CAPTURES = "Captured steps"
_EACH_STEP = "Each captured step"
_MEMORY = "Memory during the newest capture"
_MOST_DRAWN = 12
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
        captures_table(captures),
        tuple(detail_tables(newest.profile)) if newest and newest.profile else (),
    )


def each_step_picture(captures: Sequence[CaptureReport]) -> Picture | Unknown:
    """The steps of the newest capture that has several, one bar each."""
    several = [each for each in captures if each.profile and len(each.profile.each_step) > 1]
    if not several or several[-1].profile is None:
        return Unknown(_EACH_STEP, "no capture has several steps that can be told apart")
    name, profile = several[-1].name, several[-1].profile
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
            *(time_text(step.parts_s.get(part)) for part in present),
        )
        for number, step in zip(names, profile.each_step, strict=True)
    )
    slowest = max(step.duration_s for step in profile.each_step)
    fastest = min(step.duration_s for step in profile.each_step)
    words = f"From {units.duration(fastest)} to {units.duration(slowest)} a step, in {name}."
    return Picture(_EACH_STEP, words, figure, Table(("step", "time", *present), rows))


def capture_memory_picture(captures: Sequence[CaptureReport]) -> Picture | Unknown:
    """What each allocator held while the newest capture was taken, and what held its peak."""
    from plotly import graph_objects as go

    memories = [each.profile.memory for each in captures if each.profile and each.profile.memory]
    if not memories:
        return Unknown(_MEMORY, "no profile has readings of an allocator")
    traces = [
        go.Scatter(
            x=[round(point.time_s * 1e3, 3) for point in memory.timeline],
            y=[round(point.used_bytes / 2**20, 3) for point in memory.timeline],
            name=label(memory.allocator),
            line={
                "width": 2,
                "shape": "hv",
                "color": PALETTE[place % len(PALETTE)],
                "dash": DASHES[place % len(DASHES)],
            },
            hovertemplate="%{y:.4~f} MiB",
        )
        for place, memory in enumerate(memories[-1])
    ]
    figure = draw(
        traces,
        xaxis=axis("ms since the first captured step began"),
        yaxis=axis("MiB", rangemode="tozero"),
    )
    rows = tuple(
        (
            memory.allocator,
            units.size(memory.peak_bytes),
            "" if memory.total_bytes is None else units.size(memory.total_bytes),
            "" if memory.before_bytes is None else units.size(memory.before_bytes),
        )
        for memory in memories[-1]
    )
    heads = ("allocator", "peak", "all there is", "of the peak, from before the capture")
    words = [
        f"{memory.allocator} held at most {units.size(memory.peak_bytes)}"
        for memory in memories[-1]
    ]
    more = tuple(holdings_tables(memories[-1]))
    return Picture(_MEMORY, f"{'; '.join(words)}.", figure, Table(heads, rows), more)


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


def _ms(spent_s: float | None) -> float | None:
    return None if spent_s is None else round(spent_s * 1e3, 5)
