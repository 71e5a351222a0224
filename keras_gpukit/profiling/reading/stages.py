"""Which stages of a tf.data pipeline were at work while the run waited."""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest

import numpy as np

from keras_gpukit.profiling.reading.breakdown import PS
from keras_gpukit.profiling.reading.events import Events, Numbers, Value
from keras_gpukit.profiling.reading.host import Host
from keras_gpukit.profiling.reading.spans import NOTHING, Spans
from keras_gpukit.records.profile import StageProfile

_PREFIX = "Iterator::"
_ROOT = "Iterator::Root"  # what hands elements out of the pipeline; no stage of it
_LEAST_SHARE = 0.005
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
    stages = []
    for stage in nlargest(
        MOST_STAGES, calls, key=lambda stage: int(events.duration_ps[calls[stage]].sum())
    ):
        indices = calls[stage]
        kind = events.names[events.kind[indices[0]]].rsplit("::", 1)[-1].split("[")[0]
        below = _spans(events, inner[stage]) if stage in inner else NOTHING
        if kind == "Generator":
            below |= host.nested_fetches
        own = _spans(events, indices) - below
        blocked_ps, own_ps = (
            int(spans.covered_ps(own.begin_ps, own.end_ps).sum()) for spans in (waits, counted)
        )
        stages.append(
            StageProfile(
                name=str(events.stats[indices[0]].get("name") or kind),
                kind=kind,
                blocked_s=blocked_ps * PS / steps,
                share=blocked_ps / waits.total_ps if waits.total_ps else 0.0,
                own_s=own_ps * PS / steps,
            )
        )
    stages = [stage for stage in stages if stage.share >= _LEAST_SHARE]
    return tuple(sorted(stages, key=lambda stage: stage.blocked_s, reverse=True))


def _spans(events: Events, indices: list[int]) -> Spans:
    chosen: Numbers = np.array(indices)
    return Spans.union(events.begin_ps[chosen], events.end_ps[chosen])
