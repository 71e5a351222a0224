"""Figures of a run, and of a script, in words, shared by all reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keras_gpukit.records.machine import MemoryRecord, UtilizationRecord, mean_busy_percent
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import METHODS, ScriptRecord
from keras_gpukit.records.steps import TIME_PARTS, InputRecord, ThroughputRecord, TimePart
from keras_gpukit.reports import units
from keras_gpukit.rules.cluster.compared_workers import common_steps
from keras_gpukit.rules.input.pipeline_causes import compared_capture
from keras_gpukit.rules.savings import input_of_run, time_of_steps_s

WIDE_RANGE = 0.03
"""Narrower ranges of a stall are shown as one figure, after "about". Our choice."""
LEAST_SHARE = 0.005
_LEAST_IN_SHORT = 0.02
_PARTS_IN_SHORT = 4
_CAPTURES_LISTED = 3


def headline(summary: RunSummary) -> tuple[str, ...]:
    """Returns the run's main figures in words; unknown figures are left out."""
    parts = [
        *([_input(summary, summary.input)] if summary.input else ()),
        *_speed_and_use(summary),
    ]
    if summary.overhead_s is not None:
        once = "" if summary.startup_s is None else f" and {units.duration(summary.startup_s)} once"
        parts.append(f"overhead {units.duration(summary.overhead_s)} per step{once}")
    return tuple(parts)


def overhead(summary: RunSummary) -> str | None:
    """Says what monitoring took of the steps' time; None if unknown."""
    if summary.overhead_s is None or not summary.step_time_s:
        return None
    share = units.percentage(summary.overhead_s / summary.step_time_s)
    return f"Monitoring took {share} of the steps' time."


def in_short(summary: RunSummary) -> str | None:
    """Returns the run's speed and where its time went, in a line or two; None if unknown."""
    time = _time(summary, _PARTS_IN_SHORT, _LEAST_IN_SHORT)
    return ". ".join(filter(None, (", ".join(_speed_and_use(summary)), time))) or None


def time_spent(summary: RunSummary) -> str | None:
    """Returns the parts of the wall time in words, the largest first; None if unknown."""
    return _time(summary, None, LEAST_SHARE)


def _speed_and_use(summary: RunSummary) -> list[str]:
    return [
        *(_speed(summary.throughput, summary.environment.workers) if summary.throughput else ()),
        *(_gpus(summary.utilization) if summary.utilization else ()),
        *(_memory(summary.memory) if summary.memory else ()),
    ]


def _time(summary: RunSummary, most: int | None, least: float) -> str | None:
    """Returns the time of the first step, which comes once, and of the largest other parts."""
    parts = summary.breakdown
    if parts is None or not parts.wall_s:
        return None
    named: dict[TimePart, float | None] = {**parts.parts, "unknown": parts.unknown_s}
    first = ("first step", named.pop("first_step"))
    largest = sorted(named.items(), key=lambda part: -(part[1] or 0.0))[:most]
    spent = [
        f"{name} {units.duration_of(spent_s, parts.wall_s)}"
        for name, spent_s in (first, *((TIME_PARTS[part], time_s) for part, time_s in largest))
        if spent_s and spent_s > least * parts.wall_s
    ]
    return f"{units.duration(parts.wall_s)} in total: {', '.join(spent)}" if spent else None


def captured(summary: RunSummary, *, reasons: bool = True) -> str | None:
    """Lists the captures, each with its first step, and its reason if wanted; None without any."""
    captures = summary.captures.captures if summary.captures else ()
    failed = [f"A capture failed: {entry.failed_because}" for entry in captures if not entry.path]
    written = [
        f"step {capture.first_step:,}" + (f" ({capture.reason})" if reasons else "")
        for capture in captures
        if capture.path
    ]
    if not written:
        return "; ".join(failed) or None
    more = len(written) - _CAPTURES_LISTED
    places = ", ".join([*written[:_CAPTURES_LISTED], *([f"{more} more"] if more > 0 else [])])
    where = f"at {places}: see TensorBoard's tabs Profile and GPU Kit"
    return "; ".join([f"{units.count(len(written), 'profile')} captured, {where}", *failed])


def correction(summary: RunSummary) -> str | None:
    """Says that a profile corrected the input stall, and by how much; None if none did."""
    capture = compared_capture(summary)
    if capture is None or summary.input is None or summary.input.live_stall_fraction is None:
        return None
    true, live = (
        units.known(fraction, units.percentage)
        for fraction in (capture.stall_fraction, capture.live_stall_fraction)
    )
    return (
        f"The input stall is corrected by the profile of step {capture.first_step:,}, which shows "
        f"{true} where {live} was measured during the run."
    )


def compared(summary: RunSummary) -> str | None:
    """Returns how many workers were compared, or why not; None for a run that trains alone."""
    workers = summary.workers
    if workers is None or (workers.expected or 0) < 2:
        return None
    if not workers.is_complete:
        known = f"{len(workers.members)} of {workers.expected} {workers.kind}s"
        return f"{known} compared: {workers.unknown_because or 'the others are unknown'}"
    steps = len(common_steps(workers))
    over = f"over {units.count(steps, 'step')}" if steps else "by their means over the run"
    return f"{workers.expected} {workers.kind}s compared {over}"


def _speed(throughput: ThroughputRecord, workers: int) -> list[str]:
    steps = units.count(throughput.steps, "step")
    parts = [steps if throughput.phase == "fit" else f"{throughput.phase}: {steps}"]
    if throughput.step_time_s is not None:
        parts.append(f"{units.duration(throughput.step_time_s)} per step")
    if throughput.examples_per_s is not None:
        where = " on each worker" if workers > 1 else ""
        parts.append(f"{units.number(throughput.examples_per_s)} examples/s{where}")
    return parts


def stall(record: InputRecord) -> str:
    """Formats the stall of steps, such as "34 %", "about 34 %" or "34 % to 41 %"."""
    return _inexact(record, record.stall_fraction or 0.0, record.most_stall_fraction)


def input_share(summary: RunSummary) -> str | None:
    """Formats the share of the whole run that steps waited, as `stall` does; None if unknown."""
    record, parts, share = summary.input, summary.breakdown, input_of_run(summary)
    if record is None or parts is None or share is None:
        return None
    most = record.most_stall_fraction
    of_run = None if most is None else most * time_of_steps_s(summary) / parts.wall_s
    return _inexact(record, share, of_run)


def _inexact(record: InputRecord, fraction: float, most: float | None) -> str:
    if most is not None and most - fraction >= WIDE_RANGE:
        low = fraction if 100 * fraction >= units.LEAST_PERCENT else 0.0
        return units.span(units.percentage(low), units.percentage(min(most, 1.0)))
    hedges = {"sampled": "about ", "upper bound": "at most "}
    hedge = hedges.get(record.confidence or "", "")
    # "about" and "at most" say nothing of a share that is only said to be under 0.1 %.
    return (hedge if 100 * fraction >= units.LEAST_PERCENT else "") + units.percentage(fraction)


def _input(summary: RunSummary, record: InputRecord) -> str:
    share = input_share(summary)
    if share is not None:
        return f"input {share} of the run"
    if record.stall_fraction is None:
        return "input stall unknown"
    return f"input {stall(record)} of the steps' time"


def key_figures(summary: RunSummary) -> Iterator[tuple[str, str | None]]:
    """Yields the most important figures as pairs of name and value; None if it is unknown."""
    throughput, record = summary.throughput, summary.input
    if throughput is not None:
        where = " on each worker" if summary.environment.workers > 1 else ""
        yield "step time", units.if_known(throughput.step_time_s, units.duration)
        yield f"examples per second{where}", units.if_known(throughput.examples_per_s, units.number)
    if record is not None and record.stall_fraction is not None:
        share = input_share(summary)
        name = "input, of the run" if share else "input, of the steps' time"
        yield name, share or stall(record)
    for gpu in summary.gpus:
        busy = units.if_known(gpu.utilization_percent, units.number)
        yield f"GPU {gpu.index} busy", busy and f"{busy} %"
        tensor = units.if_known(gpu.tensor_active_percent, units.number)
        yield f"GPU {gpu.index} tensor cores busy", tensor and f"{tensor} %"
    for gpu in summary.gpus:
        lost = gpu.lost_because
        yield f"GPU {gpu.index}", lost and f"not read to the end: {lost}"
    for device in summary.allocators:
        yield f"{device.device} peak memory", units.size(device.needed_bytes)
    memory = summary.memory
    if memory is not None and memory.fullest is not None and memory.weights_bytes is not None:
        yield "peak memory, predicted", predicted_peak(memory.prediction)
        yield "weights", units.size(memory.weights_bytes)
        yield "optimizer slots", units.if_known(memory.slots_bytes, units.size)
        steps_bytes = memory.steps_bytes(memory.fullest)
        yield "activations, gradients and workspace", units.if_known(steps_bytes, units.size)
    if throughput is not None:
        yield "steps", f"{throughput.steps:,}"
        yield "whole run", units.if_known(throughput.wall_s, units.duration)


def _gpus(record: UtilizationRecord) -> list[str]:
    mean = mean_busy_percent(record.gpus)
    if mean is None:
        return []
    count = sum(gpu.utilization_percent is not None for gpu in record.gpus)
    said = f"{'GPU' if count == 1 else f'{count} GPUs'} {units.number(mean)} % busy"
    tensor = [gpu.tensor_active_percent for gpu in record.gpus]
    known = [percent for percent in tensor if percent is not None]
    if known:
        said += f", tensor cores {units.number(sum(known) / len(known))} %"
    return [said]


def _memory(record: MemoryRecord) -> list[str]:
    gpus = [memory for memory in record.devices if memory.device.startswith("GPU")]
    if not gpus:
        return []
    fullest = max(gpus, key=lambda memory: memory.needed_bytes)
    limit = "" if fullest.limit_bytes is None else f" of {units.size(fullest.limit_bytes)}"
    predicted = predicted_peak(record.prediction)
    others = [] if predicted is None else [f"{predicted} predicted"]
    if fullest.peak_bytes > fullest.needed_bytes:
        others.append(f"{units.size(fullest.peak_bytes)} in the first step")
    more = f" ({', '.join(others)})" if others else ""
    return [f"{fullest.device} peak {units.size(fullest.needed_bytes)}{limit}{more}"]


def predicted_peak(prediction: MemoryPrediction | None) -> str | None:
    """Returns the peak as "1.2 GiB", "at least 1.2 GiB" or "at most 1.2 GiB"; None if unknown."""
    if prediction is None or prediction.low is None or prediction.peak_bytes is None:
        return None
    if prediction.is_lower_bound:
        return f"at least {units.size(prediction.low.total_bytes)}"
    return f"{'at most ' if prediction.is_upper_bound else ''}{units.size(prediction.peak_bytes)}"


_METHODS = {
    "fit": ("fit", "fits"),
    "evaluate": ("evaluation", "evaluations"),
    "predict": ("prediction", "predictions"),
}


class ScriptPart(NamedTuple):
    """A part of a script's wall time.

    Attributes:
        name: Name of the part, such as "14 fits".
        spent_s: Seconds of the part.
        starting_s: Seconds of it in which calls start; None if unknown, or if it is no call.
    """

    name: str
    spent_s: float
    starting_s: float | None = None


def parts_of(record: ScriptRecord) -> tuple[ScriptPart, ...]:
    """Returns the parts of a script's time in their order; together they are all of it."""
    calls = []
    for method in METHODS:
        those = [call for call in record.calls if call.method == method]
        if those:
            count = sum(call.count for call in those)
            default = (f"call of {method}", f"calls of {method}")
            name = _METHODS.get(method, default)[count != 1]
            starting = [call.starting_s for call in those if call.starting_s is not None]
            spent_s = sum(call.total_s for call in those)
            if method.endswith("_on_batch"):  # each is a step
                name += f" ({units.duration(spent_s / count)} each)"
            calls.append(
                ScriptPart(f"{count:,} {name}", spent_s, sum(starting) if starting else None)
            )
    before = "before the first call" if calls else "the script's own code"
    return (
        ScriptPart("imports", record.imports_s),
        ScriptPart(before, record.before_s),
        *calls,
        ScriptPart("the rest", record.rest_s),
    )


def account(record: ScriptRecord) -> str:
    """Returns where the time went on one line: "48 s in all: imports 9 s, 14 fits 31 s, ..."."""
    least_s, parts = LEAST_SHARE * record.wall_s, []
    for part in parts_of(record):
        if part.spent_s > least_s:
            parts.append(f"{part.name} {units.duration(part.spent_s)}")
            if part.starting_s is not None and part.starting_s > least_s:
                parts[-1] += f" ({units.duration(part.starting_s)} of it to start)"
    return f"The script took {units.duration(record.wall_s)}: {', '.join(parts)}"
