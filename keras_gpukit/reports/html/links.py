"""Links from a finding to the charts and captures that show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from keras_gpukit.records.capture import CaptureRecord, Trigger
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.report import RunReport

Chart = TypeVar("Chart")
_INPUT = ("stages", "input", "timeline")
_TIME = ("wall-time", "timeline")
# Keys of the charts that show a finding, by the beginning of the finding's code.
_CHARTS: dict[str, tuple[str, ...]] = {
    "input": _INPUT,
    "slow-epoch-start": (*_TIME, "stages"),
    "slow": _TIME,
    "long": _TIME,
    "tiny-steps": ("step-times", "timeline"),
    "cpu-fallback": ("placement",),
    "no-gpu": ("placement",),
    "host-cpu": ("busy", "stages"),
    "straggler": ("workers", "stages"),
    "communication": ("workers",),
    "uneven-shards": ("workers",),
    "batch-not-scaled": ("busy", "device-memory"),
    "launch-bound": ("captures", "busy", "step-times"),
    "low-utilization": ("busy", "timeline"),
    "throttled": ("timeline", "busy"),
    "slower-over-time": ("timeline", "stages", "step-times"),
    "tracing-again": _TIME,
    "memory": ("device-memory", "memory-causes"),
    "first-step-memory": ("memory-causes", "device-memory"),
    "first-step-not-over": ("busy", "timeline"),
    "hang": ("timeline", "busy"),
    "memory-grows": ("host-memory", "device-memory"),
    "host-memory-runs-out": ("host-memory", "stages"),
    "other-processes": ("device-memory", "busy"),
    "float32": ("captures",),
}
_OTHERS = ("timeline", "wall-time")
# Findings on single steps, which captures show, and the triggers of captures of unusual steps.
_STEPS = ("input", "slower-over-time", "tiny-steps", "launch-bound")
_ANOMALIES: tuple[Trigger, ...] = ("stall", "step time")


def charts_of(finding: Finding, charts: Mapping[str, Chart]) -> tuple[Chart, ...]:
    """Returns those of the charts that show a finding, the most relevant first."""
    fitting = [code for code in _CHARTS if finding.code.startswith(code)]
    keys = _CHARTS[max(fitting, key=len)] if fitting else _OTHERS
    return tuple(charts[key] for key in keys if key in charts)


def captures_of(finding: Finding, run: RunReport) -> tuple[CaptureRecord, ...]:
    """Returns up to two captures that show a finding, preferably captures of unusual steps.

    Empty for findings that are not about single steps.
    """
    captures = [each.capture for each in run.captures if each.capture and each.capture.path]
    if not finding.code.startswith(_STEPS):
        return ()
    triggered = [each for each in captures if each.trigger in _ANOMALIES]
    return tuple((triggered or captures)[-2:])
