"""Operations and kernels that took the most time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from keras_gpukit.profiling.reading.breakdown import PS
from keras_gpukit.profiling.reading.gpu import GPUs
from keras_gpukit.profiling.reading.host import Host, operation_name
from keras_gpukit.profiling.reading.kinds import kind_of, uses_tensor_cores
from keras_gpukit.profiling.reading.spans import Spans
from keras_gpukit.records.profile import KernelProfile, OperationProfile

MOST = 20

Run = tuple[str, str, float]
"""A kernel's name, the operation that launched it, and its time in seconds."""


def top_operations(host: Host, gpus: GPUs, counted: Spans) -> tuple[OperationProfile, ...]:
    """Returns the operations that took the most time, on the GPUs or, without one, on the host."""
    times_s: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    if gpus.each:
        runs: Iterable[tuple[str, float]] = (
            (launched_by or name, time_s) for name, launched_by, time_s in _kernels(gpus, counted)
        )
    else:
        events = host.events
        chosen = host.operations & counted.holds(events.begin_ps)
        runs = (
            (events.operation(index), float(events.duration_ps[index]) * PS)
            for index in np.flatnonzero(chosen).tolist()
        )
    for event, time_s in runs:
        operation = operation_name(event)
        times_s[operation] += time_s  # type: ignore[assignment]
        counts[operation] += 1
    total_s = sum(times_s.values()) or 1.0
    return tuple(
        OperationProfile(name, kind, kind_of(kind), time_s, counts[name, kind], time_s / total_s)
        for (name, kind), time_s in times_s.most_common(MOST)
    )


def top_kernels(gpus: GPUs, counted: Spans) -> tuple[KernelProfile, ...]:
    """Returns the kernels that took the most time."""
    times_s: Counter[str] = Counter()
    launchers: dict[str, Counter[str]] = defaultdict(Counter)
    for name, launched_by, time_s in _kernels(gpus, counted):
        times_s[name] += time_s  # type: ignore[assignment]
        launchers[name][launched_by] += 1
    total_s = sum(times_s.values()) or 1.0
    return tuple(
        KernelProfile(
            name=name,
            kind=kind_of(name),
            time_s=time_s,
            count=launchers[name].total(),
            share=time_s / total_s,
            tensor_core=uses_tensor_cores(name),
            operation=operation_name(launchers[name].most_common(1)[0][0])[0] or None,
        )
        for name, time_s in times_s.most_common(MOST)
    )


def _kernels(gpus: GPUs, counted: Spans) -> Iterable[Run]:
    for gpu in gpus.each:
        events = gpu.plane.events
        chosen = gpu.kernels & counted.holds(events.begin_ps)
        for index in np.flatnonzero(chosen):
            stats = events.stats[index]
            launched_by = str(stats.get("tf_op") or stats.get("hlo_op") or "")
            yield (
                events.names[events.kind[index]],
                launched_by,
                float(events.duration_ps[index]) * PS,
            )
