"""Sentences, figures and links about a run for the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.profile import CaptureRecord
from keras_gpukit.records.report import RunReport, State
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import evidence, phrases, units
from keras_gpukit.rules import RULES

T = TypeVar("T")
STATES: dict[State, str] = {
    "completed": "completed",
    "interrupted": "interrupted",
    "running": "running",
    "unfinished": "end unknown",
}
_COMPUTE = ("captures", "layers")
_TIME = ("wall-time", "timeline")
_CHARTS = {rule.code: rule.charts for rule in RULES}
_IN_CAPTURES = {rule.code for rule in RULES if rule.in_captures}


def sentence(text: str) -> str:
    """Capitalizes the first letter, unless the first word looks like a name."""
    first = text.partition(" ")[0]
    return evidence.capitalized(text) if first.isalpha() and first.islower() else text


def unrecorded(run: RunReport, because: str) -> str:
    """Explains a missing figure that runs record at their end and after their first seconds.

    `because` is the explanation for a run that ended with a summary.
    """
    if run.state == "unfinished":
        return "the run ended before it was recorded"
    return "it is not known yet" if run.state == "running" else because


def key_figures(summary: RunSummary) -> Iterator[tuple[str, str | None]]:
    """Yields the most important figures as pairs of name and value; None if it is unknown."""
    throughput, record = summary.throughput, summary.input
    if throughput is not None:
        where = " on each worker" if summary.environment.workers > 1 else ""
        yield "step time", units.if_known(throughput.step_time_s, units.duration)
        yield f"examples per second{where}", units.if_known(throughput.examples_per_s, units.number)
    if record is not None and record.stall_fraction is not None:
        share = phrases.input_share(summary)
        name = "input, of the run" if share else "input, of the steps' time"
        yield name, share or phrases.stall(record)
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
        yield "peak memory, predicted", phrases.predicted_peak(memory.prediction)
        yield "weights", units.size(memory.weights_bytes)
        yield "optimizer slots", units.if_known(memory.slots_bytes, units.size)
        steps_bytes = memory.steps_bytes(memory.fullest)
        yield "activations, gradients and workspace", units.if_known(steps_bytes, units.size)
    if throughput is not None:
        yield "steps", f"{throughput.steps:,}"
        yield "whole run", units.if_known(throughput.wall_s, units.duration)


def first_charts(finding: Finding | None, charts: Mapping[str, T]) -> tuple[T, ...]:
    """Returns the charts that follow the verdict directly: where the time went.

    The time of captured steps comes before that of the run if the finding is on what they compute.
    """
    of_steps = finding is None or _COMPUTE[0] in _CHARTS.get(finding.code, ())
    keys = (*_COMPUTE, *_TIME) if of_steps or _TIME[0] not in charts else _TIME
    return tuple(charts[key] for key in keys if key in charts)


def charts_of(finding: Finding, charts: Mapping[str, T]) -> tuple[T, ...]:
    """Returns those of the charts that show a finding, the most relevant first."""
    return tuple(charts[key] for key in _CHARTS.get(finding.code, ()) if key in charts)


def captures_of(finding: Finding, run: RunReport | None) -> tuple[CaptureRecord, ...]:
    """Returns up to two captures that show a finding, preferably of steps that became slower.

    Empty without a run, and for findings that are not about single steps.
    """
    if run is None or finding.code not in _IN_CAPTURES:
        return ()
    captures = [report.capture for report in run.captures if report.capture and report.capture.path]
    slower = [capture for capture in captures if capture.trigger == "step time"]
    return tuple((slower or captures)[-2:])
