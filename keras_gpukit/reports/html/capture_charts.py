"""Charts of captured profiles: the parts of a step's time, and the allocators' memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from keras_gpukit.records.capture import MissedCapture
from keras_gpukit.records.profile import Part, ProfileRecord, StepProfile
from keras_gpukit.records.report import CaptureReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.capture_tables import (
    captures_table,
    detail_tables,
    holdings_tables,
    missed_table,
)
from keras_gpukit.reports.html.chart import (
    COLORS,
    DASHES,
    PALETTE,
    Chart,
    Unknown,
    axis,
    bar,
    draw,
    draw_bars,
    label,
    row_bars,
)
from keras_gpukit.reports.tables import Table

_CAPTURES = "Captured steps"
_EACH_STEP = "Each captured step"
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
_MEMORY = "Memory during the newest capture"


def captures_chart(
    captures: Sequence[CaptureReport],
    missed: Sequence[MissedCapture] = (),
    stage_names: Mapping[str, str] = MappingProxyType({}),
) -> Chart | Unknown:
    """Returns a chart of each capture's mean step time, split into its parts.

    `stage_names` are the stages' names in the page, by their names in the profiles.
    """
    if not captures and missed:
        return Unknown(_CAPTURES, f"no capture was started: {missed[0].because}")
    if not captures:
        return Unknown(
            _CAPTURES, "nothing was captured; keras_gpukit.Profiler takes profiles of a few steps"
        )
    drawn = [each for each in captures if each.profile and each.profile.parts_s][-_MOST_DRAWN:]
    figure = _bars(drawn) if drawn else None
    newest = drawn[-1] if drawn else None
    more = [("Captures that were not started", missed_table(missed))] if missed else []
    if newest and newest.profile:
        more += detail_tables(newest.profile, stage_names)
    words, table = _words(captures, newest), captures_table(captures)
    return Chart(_CAPTURES, words, figure, table, tuple(more))


def each_step_chart(captures: Sequence[CaptureReport]) -> Chart | Unknown:
    """Returns a chart with a bar per step of the newest capture that has several steps."""
    several = [each for each in captures if each.profile and len(each.profile.each_step) > 1]
    if not several or several[-1].profile is None:
        return Unknown(_EACH_STEP, "no capture has several distinguishable steps")
    name, profile = several[-1].name, several[-1].profile
    numbers = [step.number for step in profile.each_step]
    names = [f"{place if number is None else number}" for place, number in enumerate(numbers, 1)]
    parts_ms = _parts_ms(profile.each_step)
    places = list(range(len(names)))
    traces = [
        bar(part, place, _PARTS[part], x=places, y=spent_ms, hovertemplate="%{y:.3~f} ms")
        for place, (part, spent_ms) in enumerate(parts_ms.items())
    ]
    ticks = {"tickmode": "array", "tickvals": places, "ticktext": names}
    figure = draw(
        traces,
        barmode="stack",
        xaxis=axis("step", **(ticks if len(names) <= _MOST_DRAWN else {"showticklabels": False})),
        yaxis=axis("ms", rangemode="tozero"),
    )
    rows = tuple(
        (
            number,
            units.duration(step.duration_s),
            *(units.known(step.parts_s.get(part), units.duration) for part in parts_ms),
        )
        for number, step in zip(names, profile.each_step, strict=True)
    )
    slowest = max(step.duration_s for step in profile.each_step)
    fastest = min(step.duration_s for step in profile.each_step)
    newest = several[-1].capture
    told = newest.reason if newest else name
    words = f"From {units.duration(fastest)} to {units.duration(slowest)} a step ({told})."
    return Chart(_EACH_STEP, words, figure, Table(("step", "time", *parts_ms), rows))


def _bars(captures: Sequence[CaptureReport]) -> str:
    profiles = [each.profile for each in captures if each.profile]
    traces = [
        row_bars(part, place, spent_ms, "%{x:.3~f} ms", _PARTS[part])
        for place, (part, spent_ms) in enumerate(_parts_ms(profiles).items())
    ]
    names = [_short(each) for each in captures]
    height = 150 + 36 * len(profiles)
    return draw_bars(traces, names, "ms a step", height=height, hovermode="y unified")


def _short(each: CaptureReport) -> str:
    """Returns the label of a capture's bar: its first step, or a short name if that is unknown."""
    if each.capture:
        return f"step {each.capture.first_step:,}"
    return label(each.name.split("/")[0], 26)


def _words(captures: Sequence[CaptureReport], newest: CaptureReport | None) -> str:
    count = "One profile" if len(captures) == 1 else f"{len(captures):,} profiles"
    if newest is None or newest.profile is None:
        return f"{count}, none with steps that could be read."
    profile = newest.profile
    parts = sorted(profile.parts_s.items(), key=lambda part: -part[1])[:3]
    told = ", ".join(f"{name} {units.duration(spent_s)}" for name, spent_s in parts)
    because = f" ({newest.capture.reason})" if newest.capture else ""
    words = f"{count}. In the newest{because} a step went to: {told}."
    idle_s = profile.parts_s.get("idle")
    if idle_s and not profile.devices and "host compute" in profile.parts_s:
        together_s = profile.parts_s["host compute"] + idle_s
        words += (
            " Idle is mostly Python code around the operations; TensorBoard's Profile tab counts it"
            f" as host compute too, {units.duration(together_s)} together."
        )
    if profile.stall_fraction is not None:
        words += f" {units.percentage(profile.stall_fraction)} of its time was input stall."
    busy = [
        f"{each.device} was busy {units.percentage(each.busy_fraction)} of the time"
        for each in profile.devices
    ]
    return f"{words} {', '.join(busy)}." if busy else words


def _parts_ms(of: Sequence[ProfileRecord | StepProfile]) -> dict[Part, list[float | None]]:
    """Returns the milliseconds of each part, per step or capture, without parts that none has."""
    return {
        part: [_ms(each.parts_s.get(part)) for each in of]
        for part in _PARTS
        if any(each.parts_s.get(part) for each in of)
    }


def _ms(spent_s: float | None) -> float | None:
    return None if spent_s is None else round(spent_s * 1e3, 5)


def capture_memory_chart(captures: Sequence[CaptureReport]) -> Chart | Unknown:
    """Returns a chart of the memory per allocator during the newest capture, with its peak."""
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
            units.known(memory.total_bytes, units.size, ""),
            units.known(memory.before_bytes, units.size, ""),
            units.known(memory.fragmentation, units.percentage, ""),
        )
        for memory in memories[-1]
    )
    heads = (
        "allocator",
        "peak",
        "total",
        "of the peak, from before the capture",
        "of its free memory, not in the largest block",
    )
    words = [
        f"{memory.allocator} held at most {units.size(memory.peak_bytes)}"
        for memory in memories[-1]
    ]
    more = tuple(holdings_tables(memories[-1]))
    return Chart(_MEMORY, f"{'; '.join(words)}.", figure, Table(heads, rows), more)
