"""Charts and tables of what steps compute: captured profiles, layers, the limits of the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from keras_gpukit.records.profile import (
    LayerProfile,
    MissedCapture,
    ProfileRecord,
    StepPart,
)
from keras_gpukit.records.report import CaptureReport, RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import COLORS, Chart, Omitted, draw_bars, row_bars, shortened
from keras_gpukit.reports.layers import (
    KINDS,
    achieved,
    kernels_table,
    kinds_of,
    kinds_table,
    layers_table,
    limited_by,
    named_layers,
)
from keras_gpukit.reports.tables import Table
from keras_gpukit.rules.compute.roofline import Roofline, roofline_of

_MOST_DRAWN = 12
_MOST_ROWS = 10
_PARTS: dict[StepPart, str] = {
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
_NOTHING = "nothing was captured; keras_gpukit.Profiler takes profiles of a few steps"


def captures_chart(
    captures: Sequence[CaptureReport],
    missed: Sequence[MissedCapture] = (),
    stage_names: Mapping[str, str] = MappingProxyType({}),
) -> Chart | Omitted:
    """Returns a chart of each capture's mean step time, split into its parts.

    `stage_names` are the stages' names in the page, by their names in the profiles.
    """
    if not captures:
        because = f"no capture was started: {missed[0].because}" if missed else _NOTHING
        return Omitted(because)
    drawn = [entry for entry in captures if entry.profile and entry.profile.parts_s][-_MOST_DRAWN:]
    profiles = [report.profile for report in drawn if report.profile]
    figure, more = None, []
    if missed:
        rows = tuple((f"{capture.step:,}", capture.reason, capture.because) for capture in missed)
        table = Table(("step", "because", "not started because"), rows)
        more.append(("Captures that were not started", table))
    if profiles:
        traces = [
            row_bars(part, place, spent_ms, "%{x:.3~f} ms", _PARTS[part])
            for place, (part, spent_ms) in enumerate(_captured_ms(profiles).items())
        ]
        names = [
            f"step {report.capture.first_step:,}" if report.capture else report.name.split("/")[0]
            for report in drawn
        ]
        figure = draw_bars(traces, names, "ms a step", "y unified")
        more += [
            (f"Newest capture: {title}", table)
            for title, table in _detail_tables(profiles[-1], stage_names)
        ]
    heads = ("capture", "because", "steps", "step time", "stall", "training blocked", "remarks")
    table = Table(heads, tuple(_capture_row(report) for report in captures))
    return Chart(
        _captures_words(captures, drawn[-1] if drawn else None), table, figure, tuple(more)
    )


def _capture_row(report: CaptureReport) -> tuple[str, ...]:
    capture, profile = report.capture, report.profile
    remarks = [f"not read: {report.unread_because}" if report.unread_because else None]
    if capture:
        remarks += [capture.failed_because, capture.ended_early_because, capture.incomplete_because]
    if profile:
        remarks += [profile.incomplete_because, profile.steps_unknown_because, *profile.problems]
    return (
        shortened(report.name),
        capture.reason if capture else "not by a Profiler",
        f"{profile.steps:,}" if profile else "",
        units.known(profile.step_time_s, units.duration) if profile else "",
        units.known(profile.stall_fraction, units.percentage) if profile else "",
        units.duration(capture.blocked_s) if capture else "",
        "; ".join(filter(None, remarks)),
    )


def _detail_tables(
    profile: ProfileRecord, stage_names: Mapping[str, str]
) -> Iterator[tuple[str, Table]]:
    """Yields the known tables of where a capture's time went, each with its heading."""
    if profile.kinds_s:
        longest = sorted(profile.kinds_s.items(), key=lambda kind: -kind[1])
        rows = tuple((KINDS.get(kind, kind), units.duration(spent_s)) for kind, spent_s in longest)
        yield "computation by kind", Table(("kind", "time per step"), rows)
    if profile.stages:
        stages = tuple(
            (
                shortened(stage_names.get(stage.name, stage.name)),
                stage.kind,
                units.duration(stage.blocked_s),
                units.percentage(stage.share),
                units.duration(stage.own_s),
            )
            for stage in profile.stages[:_MOST_ROWS]
        )
        heads = ("stage", "kind", "blocked per step", "share of the wait", "busy per step")
        yield "stages that training waited for", Table(heads, stages)


def _captures_words(captures: Sequence[CaptureReport], newest: CaptureReport | None) -> str:
    count = "One profile" if len(captures) == 1 else f"{len(captures):,} profiles"
    if newest is None or newest.profile is None:
        return f"{count}, none with steps that could be read."
    profile = newest.profile
    parts = sorted(profile.parts_s.items(), key=lambda part: -part[1])[:3]
    longest = ", ".join(f"{name} {units.duration(spent_s)}" for name, spent_s in parts)
    because = f" ({newest.capture.reason})" if newest.capture else ""
    words = f"{count}. In the newest{because} a step went to: {longest}."
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
        f"{device.device} was busy {units.percentage(device.busy_fraction)} of the time"
        for device in profile.devices
    ]
    return f"{words} {', '.join(busy)}." if busy else words


def _captured_ms(of: Sequence[ProfileRecord]) -> dict[StepPart, list[float | None]]:
    """Returns the milliseconds of each part per capture, without parts that none has."""
    spent_s = {part: [profile.parts_s.get(part) for profile in of] for part in _PARTS}
    return {
        part: [None if each_s is None else round(each_s * 1e3, 5) for each_s in all_s]
        for part, all_s in spent_s.items()
        if any(all_s)
    }


def stage_names(run: RunReport) -> dict[str, str]:
    """Maps the names of stages in a run's profiles to their names in the pipeline's record.

    Without a `name=`, a profile names a stage by its kind, the pipeline's record by its function.
    Both are the same stage if the pipeline has only one stage of that kind.
    """
    pipeline = run.summary.pipeline
    of_kind: dict[str, list[str]] = {}
    for stage in pipeline.stages if pipeline else ():
        of_kind.setdefault(_plain(stage.kind), []).append(stage.name)
    found: dict[str, str] = {}
    for report in run.captures:
        stages = report.profile.stages if report.profile else ()
        kinds = [_plain(stage.kind) for stage in stages]
        for profiled, kind in zip(stages, kinds, strict=True):
            names = of_kind.get(kind, [])
            if len(names) == 1 and kinds.count(kind) == 1 and not profiled.is_named:
                found[profiled.name] = names[0]
    return found


def _plain(kind: str) -> str:
    """Normalizes a kind: "ParallelMapV2" to "map", "map and batch" to "mapandbatch"."""
    text = re.sub(r"[ _]", "", kind.lower())
    return re.sub(r"(dataset)?(v\d+)?$", "", text).removeprefix("parallel")


_TRACES = (
    ("forward", COLORS["compute"]),
    ("backward", COLORS["validation"]),
    ("optimizer", COLORS["callbacks"]),
    ("of no layer", COLORS["other"]),
)


def layers_chart(profile: ProfileRecord | None) -> Chart | Omitted | None:
    """Returns a chart with a bar for each layer, the one that takes the most time on top.

    What belongs to no layer comes last.
    """
    if profile is None or not profile.steps:
        return None
    whole_s = sum(layer.time_s for layer in profile.layers)
    if not whole_s:
        return Omitted("nothing was computed in the steps of the profile")
    named = named_layers(profile)
    named.sort(key=lambda layer: (layer[1].role == "other", -layer[1].time_s))
    inside = sum(layer.role != "other" for _, layer in named)
    left_out = named[_MOST_DRAWN:inside]
    drawn = [*named[: min(inside, _MOST_DRAWN)], *named[inside:]]
    traces = [
        row_bars(name, place, spent_ms, "%{x:.3~f} ms", color)
        for place, (name, color) in enumerate(_TRACES)
        if any(spent_ms := [_parts_ms(layer)[place] for _, layer in drawn])
    ]
    names = [name for name, _ in drawn]
    words = _layers_words(profile, whole_s)
    if left_out:
        share = sum(layer.time_s for _, layer in left_out) / whole_s
        words += f" {units.count(len(left_out), 'smaller layer')}, {units.percentage(share)} of it"
        words += " together, are in the numbers."
    return Chart(
        words,
        layers_table(profile),
        draw_bars(traces, names, "ms a step", "y unified"),
        (("Largest kernels of each layer", kernels_table(profile)),),
        shown=("By kind of layer", kinds_table(profile, _MOST_DRAWN)),
    )


def _layers_words(profile: ProfileRecord, whole_s: float) -> str:
    where = ", ".join(device.device for device in profile.devices) or "the CPU"
    words = f"A step computes for {units.duration(whole_s)} on {where}: "
    words += f"{kinds_of(profile.kinds_s, 5)}."
    cores = [
        f"{units.percentage(device.tensor_core_fraction)} of it in Tensor Cores"
        for device in profile.devices
        if device.tensor_core_fraction is not None
    ]
    return f"{words} {cores[0]}." if len(cores) == 1 else words


def _parts_ms(layer: LayerProfile) -> tuple[float, float, float, float]:
    """Returns the milliseconds of a layer in each trace of the chart."""
    time_ms, backward_ms = round(1e3 * layer.time_s, 5), round(1e3 * layer.backward_s, 5)
    if layer.role == "optimizer":
        return 0.0, 0.0, time_ms, 0.0
    if layer.role == "other":
        return 0.0, 0.0, 0.0, time_ms
    return round(time_ms - backward_ms, 5), backward_ms, 0.0, 0.0


def roofline_table(run: RunReport) -> Chart | Omitted | None:
    """Returns the figures of a run on a GPU; None for others."""
    found = roofline_of(run.summary)
    if not isinstance(found, Roofline):
        return Omitted(f"unknown is {found}") if found else None
    uncounted = run.summary.flops.uncounted if run.summary.flops else ()
    types = Table(("type",), tuple((operation,) for operation in uncounted))
    more = (("Operations whose arithmetic is not counted", types),) if uncounted else ()
    source = "keras-gpukit bench" if found.is_measured else "NVIDIA's data sheet"
    words = f"{achieved(found)}: {limited_by(found)}. The GPU's limits are from {source}."
    return Chart(words, _limits_table(found), more=more)


def _limits_table(found: Roofline) -> Table:
    ratio = None if found.moved_bytes is None else found.flops / found.moved_bytes
    rows = [
        ("FLOPs of a step", f"{found.flops:.4g}"),
        ("step time", units.duration(found.step_s)),
        ("achieved", f"{units.number(found.tflops)} TFLOP/s"),
        ("share of the peak", units.percentage(found.share)),
        ("bytes moved", units.known(found.moved_bytes, units.size)),
        ("FLOPs per byte", units.known(ratio, units.number)),
        ("memory, at most", f"{units.number(found.ceilings.device_gb_per_s)} GB/s"),
    ]
    rows += [
        (f"products in {precision}, at most", f"{units.number(reached)} TFLOP/s")
        for precision, reached in found.ceilings.tflops.items()
    ]
    return Table(("", ""), tuple(rows))
