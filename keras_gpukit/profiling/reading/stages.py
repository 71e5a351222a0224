"""Ranks the stages of a tf.data pipeline by their work while the run waited."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from heapq import nlargest

import numpy as np

from keras_gpukit.input.pipelines.functions import kind_of, spoken
from keras_gpukit.profiling.reading.events import NOTHING, PS, Events, Spans, Value
from keras_gpukit.profiling.reading.host_activity import Host
from keras_gpukit.records.profile import StageProfile

_PREFIX = "Iterator::"
_ROOT = "Iterator::Root"  # hands elements out of the pipeline, and is not a stage of it
_LEAST_SHARE = 0.005
# Names that tf.data gives to stages without a `name=`, and to stages that it adds by itself.
_MADE_UP = re.compile(r"Dataset(V\d+)?:\d+$|^inject/")
MOST_STAGES = 1000
"""Number of stages that are ranked: those with the longest calls. A pipeline has dozens of stages,
but a damaged file may name a million."""


def rank_stages(host: Host, waits: Spans, counted: Spans, steps: int) -> tuple[StageProfile, ...]:
    """Ranks stages by the share of the wait in which they themselves were at work.

    Each call of a stage is an event that names the stage and its caller. A stage is at work itself
    from the start to the end of a call, except while it calls another stage. A generator that
    fetches from another pipeline does not count as at work meanwhile; that pipeline's stages do.
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
        below = Spans.of(events, np.array(inner[stage])) if stage in inner else NOTHING
        if kind == "Generator":
            below |= host.nested_fetches
        own = Spans.of(events, np.array(indices)) - below
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
    """Returns the stages' names: their `name=`, else their kind, such as "map" and then "map 2".

    Numbers go from training back to the sources, which is the order in which stages are made.
    Several iterators over one nested pipeline are numbered too.
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
