"""What belongs together in the page: a finding, its charts, its stage, its captures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keras_gpukit.records.capture import CaptureRecord, Trigger
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.report import RunReport

_INPUT = ("stages", "input", "timeline")
_TIME = ("wall-time", "timeline")
# By the beginning of a finding's code: the charts that show it, by their keys in the page.
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
    "low-utilization": ("busy", "timeline"),
    "throttled": ("timeline", "busy"),
    "slower-over-time": ("timeline", "stages", "step-times"),
    "tracing-again": _TIME,
    "memory": ("device-memory", "memory-causes"),
    "first-step-memory": ("memory-causes", "device-memory"),
    "memory-grows": ("host-memory", "device-memory"),
    "host-memory-runs-out": ("host-memory", "stages"),
    "other-processes": ("device-memory", "busy"),
    "float32": ("captures",),
}
_OTHERS = ("timeline", "wall-time")
# Findings on single steps, which captures show, and what triggers captures of such steps.
_STEPS = ("input", "slower-over-time", "tiny-steps")
_ANOMALIES: tuple[Trigger, ...] = ("stall", "step time")


@dataclass(frozen=True)
class Link:
    """A link within the page.

    Attributes:
        href: Where to.
        text: What is there.
    """

    href: str
    text: str


def chart_links(finding: Finding, titles: dict[str, Link]) -> tuple[Link, ...]:
    """The charts that show what a finding says, the most telling first."""
    fitting = [code for code in _CHARTS if finding.code.startswith(code)]
    keys = _CHARTS[max(fitting, key=len)] if fitting else _OTHERS
    return tuple(titles[key] for key in keys if key in titles)


def captures_of(finding: Finding, run: RunReport) -> tuple[CaptureRecord, ...]:
    """The captures that show it: those of unusual steps, or any; at most two."""
    captures = [each.capture for each in run.captures if each.capture and each.capture.path]
    if not finding.code.startswith(_STEPS):
        return ()
    triggered = [each for each in captures if each.trigger in _ANOMALIES]
    return tuple((triggered or captures)[-2:])


def stage_names(run: RunReport) -> dict[str, str]:
    """What the stages of a run's profiles are called in the rest of the page.

    A profile knows a stage without a `name=` by its kind, the pipeline's record by its function.
    They are the same stage where a pipeline has only one of a kind.

    Returns:
        By the profile's name.
    """
    pipeline = run.summary.pipeline
    if pipeline is None:
        return {}
    of_kind: dict[str, list[str]] = {}
    for stage in pipeline.stages:
        of_kind.setdefault(_plain(stage.kind), []).append(stage.name)
    found: dict[str, str] = {}
    for each in run.captures:
        stages = each.profile.stages if each.profile else ()
        kinds = [_plain(stage.kind) for stage in stages]
        for profiled, kind in zip(stages, kinds, strict=True):
            names = of_kind.get(kind, [])
            if len(names) == 1 and kinds.count(kind) == 1 and not profiled.is_named:
                found[profiled.name] = names[0]
    return found


def _plain(kind: str) -> str:
    """Returns the same for "ParallelMapV2" and "map", or "MapAndBatch" and "map and batch"."""
    text = re.sub(r"[ _]", "", kind.lower())
    return re.sub(r"(dataset)?(v\d+)?$", "", text).removeprefix("parallel")
