"""Which stages of a tf.data pipeline were at work while the run waited."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from heapq import nlargest

import numpy as np

from keras_gpukit.pipelines.kinds import kind_of, spoken
from keras_gpukit.profiling.reading.breakdown import PS
from keras_gpukit.profiling.reading.events import Events, Numbers, Value
from keras_gpukit.profiling.reading.host import Host
from keras_gpukit.profiling.reading.spans import NOTHING, Spans
from keras_gpukit.records.profile import StageProfile

_PREFIX = "Iterator::"
_ROOT = "Iterator::Root"  # what hands elements out of the pipeline; no stage of it
_LEAST_SHARE = 0.005
# What tf.data calls a stage without a `name=`, and one that it adds by itself.
_MADE_UP = re.compile(r"Dataset(V\d+)?:\d+$|^inject/")
MOST_STAGES = 1000
"""Those that were at work longest are ranked. A pipeline has dozens of them, a damaged file may
name a million."""


def rank_stages(host: Host, waits: Spans, counted: Spans, steps: int) -> tuple[StageProfile, ...]:
    """Ranks stages by the part of the wait in which they themselves were at work.

    Each call of a stage is an event that names its own stage and the one that asks it. A stage is
    at work itself while it is called and calls no other. A generator that fetches from another
    pipeline is not at work meanwhile: the stages of that pipeline are.

    Args:
        host: What the host did.
        waits: Time in which the run waited.
        counted: The time of the steps.
        steps: How many they are.
    """
    events = host.events
    calls: dict[Value, list[int]] = defaultdict(list)
    inner: dict[Value, list[int]] = defaultdict(list)
    chosen = events.of(lambda name: name.startswith(_PREFIX) and name != _ROOT)
    for index in np.flatnonzero(chosen).tolist():
        stats = events.stats[index]
        if "id" in stats:
            calls[stats["id"]].append(index)
            inner[stats.get("parent_id", "")].append(index)
    waits &= counted
    names = _names(events, calls)
    stages = []
    for stage in nlargest(
        MOST_STAGES, calls, key=lambda stage: int(events.duration_ps[calls[stage]].sum())
    ):
        indices = calls[stage]
        kind = _kind(events, indices)
        below = _spans(events, inner[stage]) if stage in inner else NOTHING
        if kind == "Generator":
            below |= host.nested_fetches
        own = _spans(events, indices) - below
        blocked_ps, own_ps = (
            int(spans.covered_ps(own.begin_ps, own.end_ps).sum()) for spans in (waits, counted)
        )
        stages.append(
            StageProfile(
                name=names[stage],
                kind=kind,
                blocked_s=blocked_ps * PS / steps,
                share=blocked_ps / waits.total_ps if waits.total_ps else 0.0,
                own_s=own_ps * PS / steps,
                is_named=_given_name(events, indices) is not None,
            )
        )
    stages = [stage for stage in stages if stage.share >= _LEAST_SHARE]
    return tuple(sorted(stages, key=lambda stage: stage.blocked_s, reverse=True))


def _kind(events: Events, indices: list[int]) -> str:
    name: str = events.names[events.kind[indices[0]]]
    return name.rsplit("::", 1)[-1].split("[")[0]


def _given_name(events: Events, indices: list[int]) -> str | None:
    name = str(events.stats[indices[0]].get("name") or "")
    return None if not name or _MADE_UP.search(name) else name


def _names(events: Events, calls: Mapping[Value, list[int]]) -> dict[Value, str]:
    """Names stages as they are written: by their `name=`, else as "map", and the next one "map 2".

    Stages are numbered from training back to the sources, in which order they are made. Several
    iterators over one nested pipeline have numbers too.
    """
    names: dict[Value, str] = {}
    numbers: dict[str, int] = defaultdict(int)
    for stage in sorted(calls, key=lambda stage: (len(str(stage)), str(stage))):
        given = _given_name(events, calls[stage])
        if given is not None:
            names[stage] = given
            continue
        name = spoken(kind_of(_kind(events, calls[stage])))
        numbers[name] += 1
        names[stage] = name if numbers[name] == 1 else f"{name} {numbers[name]}"
    return names


def _spans(events: Events, indices: list[int]) -> Spans:
    chosen: Numbers = np.array(indices)
    return Spans.union(events.begin_ps[chosen], events.end_ps[chosen])
