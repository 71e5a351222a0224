"""Links between the parts of the page: a finding, its charts and captures, pipeline stages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keras_gpukit.records.capture import CaptureRecord, Trigger
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.report import RunReport

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


@dataclass(frozen=True)
class Link:
    """A link within the page."""

    href: str
    text: str


def chart_links(finding: Finding, titles: dict[str, Link]) -> tuple[Link, ...]:
    """Returns links to the charts that show a finding, the most relevant first."""
    fitting = [code for code in _CHARTS if finding.code.startswith(code)]
    keys = _CHARTS[max(fitting, key=len)] if fitting else _OTHERS
    return tuple(titles[key] for key in keys if key in titles)


def captures_of(finding: Finding, run: RunReport) -> tuple[CaptureRecord, ...]:
    """Returns up to two captures that show a finding, preferably captures of unusual steps.

    Empty for findings that are not about single steps.
    """
    captures = [each.capture for each in run.captures if each.capture and each.capture.path]
    if not finding.code.startswith(_STEPS):
        return ()
    triggered = [each for each in captures if each.trigger in _ANOMALIES]
    return tuple((triggered or captures)[-2:])


def stage_names(run: RunReport) -> dict[str, str]:
    """Maps the names of stages in a run's profiles to their names in the rest of the page.

    Without a `name=`, a profile names a stage by its kind, the pipeline's record by its function.
    Both are the same stage if the pipeline has only one stage of that kind.

    Returns:
        The name in the pipeline's record by the name in the profile.
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
    """Normalizes a kind: "ParallelMapV2" to "map", "map and batch" to "mapandbatch"."""
    text = re.sub(r"[ _]", "", kind.lower())
    return re.sub(r"(dataset)?(v\d+)?$", "", text).removeprefix("parallel")
