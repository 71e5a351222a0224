"""Breakdown of the step time into parts and kinds of computation."""

from __future__ import annotations

from typing import TypeVar, get_args

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Mask
from keras_gpukit.profiling.reading.gpu import GPU, GPUs
from keras_gpukit.profiling.reading.host import Host, operation_name
from keras_gpukit.profiling.reading.kinds import kind_of
from keras_gpukit.profiling.reading.spans import NOTHING, Spans
from keras_gpukit.profiling.reading.steps import Steps
from keras_gpukit.records.profile import Kind, StepPart, StepProfile

T = TypeVar("T", StepPart, Kind)
MOST_ROWS = 50
PS = 1e-12


def exposed_waits(host: Host, gpus: GPUs) -> Spans:
    """Returns when the run waited for its next batch and computed nothing.

    A copy from the host does not count as computation, since it brings the batch. On a CPU, an
    execution of one step fetches first and then computes. Several steps per execution run in a
    loop, which fetches the next batch while it computes.
    """
    if gpus.each:
        return host.waits - gpus.computing
    return host.waits - Spans.union(*host.computations) if host.loops else host.waits


def part_spans(steps: Steps, host: Host, gpus: GPUs) -> dict[StepPart, Spans]:
    """Divides the time of the steps into parts; each moment belongs to exactly one."""
    layers: dict[StepPart, Spans] = {
        "device compute": gpus.compute,
        "collectives": gpus.collectives if gpus.each else host.collectives,
        "other copies": gpus.other_copies,
        "input wait": exposed_waits(host, gpus),
        "host to device": gpus.from_host | host.staging,
        "kernel launch": host.launches if gpus.each else NOTHING,
        "host compute": host.computed,
        "between steps": steps.counted - steps.inside,
    }
    return _one_after_the_other(layers, steps.counted, rest="idle")


def kind_spans(host: Host, gpus: GPUs, computed: Spans) -> dict[Kind, Spans]:
    """Divides computation time by kind; each moment belongs to exactly one."""
    layers: dict[Kind, Spans] = dict.fromkeys(get_args(Kind), NOTHING)
    sources = [(gpu.plane.events, gpu.computing) for gpu in gpus.each]
    for events, chosen in sources or [(host.events, host.operations)]:
        for kind, spans in _by_kind(events, chosen, of_gpu=bool(sources)).items():
            layers[kind] = layers[kind] | spans
    return _one_after_the_other(layers, computed, rest="other")


def rows(steps: Steps, parts: dict[StepPart, Spans]) -> tuple[StepProfile, ...]:
    """Returns the breakdown of each of the first 50 steps."""
    begin_ps, end_ps = steps.begin_ps[:MOST_ROWS], steps.end_ps[:MOST_ROWS]
    each_ps = {part: spans.covered_ps(begin_ps, end_ps) for part, spans in parts.items()}
    return tuple(
        StepProfile(
            number=None if steps.numbers is None else steps.numbers[row],
            duration_s=float(end_ps[row] - begin_ps[row]) * PS,
            parts_s={part: float(of_part[row]) * PS for part, of_part in each_ps.items()},
        )
        for row in range(len(begin_ps))
    )


def exposed_collectives_s(gpu: GPU, steps: Steps) -> tuple[float, ...]:
    """Returns a GPU's time in collectives without computation, for each of the first 50 steps."""
    exposed = gpu.collectives - gpu.compute
    begin_ps, end_ps = steps.begin_ps[:MOST_ROWS], steps.end_ps[:MOST_ROWS]
    return tuple(float(each_ps) * PS for each_ps in exposed.covered_ps(begin_ps, end_ps))


def _by_kind(events: Events, chosen: Mask, *, of_gpu: bool) -> dict[Kind, Spans]:
    """Returns when each kind of computation ran."""
    _, firsts = np.unique(events.kind, return_index=True)
    named = events.names if of_gpu else [operation_name(events.operation(at))[1] for at in firsts]
    kinds = np.array([kind_of(name) for name in named], object)
    return {
        kind: Spans.of(events, chosen & (kinds == kind)[events.kind])
        for kind in dict.fromkeys(kinds)
    }


def _one_after_the_other(layers: dict[T, Spans], whole: Spans, *, rest: T) -> dict[T, Spans]:
    """Gives each layer the time that the layers before it left, and `rest` the remainder.

    Layers without time are left out.
    """
    parts: dict[T, Spans] = {}
    left = whole
    for part, spans in layers.items():
        parts[part] = left & spans
        left = left - spans
    parts[rest] = parts.get(rest, NOTHING) | left
    return {part: spans for part, spans in parts.items() if spans.total_ps}
