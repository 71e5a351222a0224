"""Memory in use by TensorFlow's allocators during a capture."""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest
from itertools import pairwise

import numpy as np

from keras_gpukit.profiling.reading.breakdown import PS
from keras_gpukit.profiling.reading.events import Events, Numbers, Stats
from keras_gpukit.profiling.reading.host import short_name
from keras_gpukit.records.profile import Holding, MemoryPoint, MemoryProfile

MOST_STRETCHES = 120
"""Number of intervals in a timeline. The lowest and the highest reading of each are kept."""
MOST_HOLDINGS = 15
MOST_ALLOCATORS = 32
"""Number of allocators that are kept: those with the most events. A machine has one for each GPU
and a few for the host."""
_ALLOCATION, _DEALLOCATION = "MemoryAllocation", "MemoryDeallocation"
_USED = "bytes_allocated"
_MOST_BYTES = 1 << 53  # a larger value is a damaged entry


def memory_of(host: Events, origin_ps: int) -> tuple[MemoryProfile, ...]:
    """Reads the memory profile of each allocator, with a timeline that counts from a moment.

    Each allocation or deallocation carries the number of bytes in use after it.
    """
    by_allocator: dict[str, list[int]] = defaultdict(list)
    chosen = np.flatnonzero(host.of(lambda name: name in (_ALLOCATION, _DEALLOCATION)))
    for index in chosen[np.argsort(host.begin_ps[chosen], kind="stable")]:
        stats = host.stats[index]
        used_bytes = stats.get(_USED)
        if isinstance(used_bytes, int) and 0 <= used_bytes < _MOST_BYTES:
            by_allocator[str(stats.get("allocator_name", ""))].append(index)
    return tuple(
        _profile(name, host, np.array(indices), origin_ps)
        for name, indices in sorted(
            nlargest(MOST_ALLOCATORS, by_allocator.items(), key=lambda item: len(item[1]))
        )
    )


def _profile(name: str, host: Events, indices: Numbers, origin_ps: int) -> MemoryProfile:
    used_bytes = np.array([host.stats[index][_USED] for index in indices.tolist()], np.int64)
    time_s = (host.begin_ps[indices] - origin_ps) * PS
    peak = int(used_bytes.argmax())
    at_peak = host.stats[indices[peak]]
    available = at_peak.get("bytes_available")
    fragmentation = at_peak.get("fragmentation")
    holdings, held_bytes = _held(host, indices[: peak + 1])
    return MemoryProfile(
        allocator=name,
        timeline=tuple(
            MemoryPoint(float(time_s[row]), int(used_bytes[row])) for row in _telling(used_bytes)
        ),
        peak_bytes=int(used_bytes[peak]),
        total_bytes=int(used_bytes[peak]) + available if isinstance(available, int) else None,
        holdings=holdings,
        before_bytes=max(0, int(used_bytes[peak]) - held_bytes),
        fragmentation=float(fragmentation) if isinstance(fragmentation, (int, float)) else None,
    )


def _telling(used_bytes: Numbers) -> Numbers:
    """Chooses the readings for a chart: each interval's lowest and highest, the first and last."""
    if len(used_bytes) <= 2 * MOST_STRETCHES:
        return np.arange(len(used_bytes))
    edges = np.linspace(0, len(used_bytes), MOST_STRETCHES + 1).astype(np.int64)
    rows = [0, len(used_bytes) - 1]
    for begin, end in pairwise(edges.tolist()):
        stretch = used_bytes[begin:end]
        rows += [begin + int(stretch.argmin()), begin + int(stretch.argmax())]
    return np.unique(rows)


def _held(host: Events, indices: Numbers) -> tuple[tuple[Holding, ...], int]:
    """Returns the largest allocations not freed yet, by operation, and the size of all of them."""
    live: dict[object, int] = {}
    for index in indices.tolist():
        address = host.stats[index].get("addr")
        if host.names[host.kind[index]] == _ALLOCATION:
            live[address] = index
        else:
            live.pop(address, None)
    by_operation: dict[str, list[int]] = defaultdict(list)
    for index in live.values():
        operation = str(host.stats[index].get("tf_op", ""))
        by_operation[short_name(operation)].append(index)
    holdings = [_holding(host, *item) for item in by_operation.items()]
    holdings.sort(key=lambda holding: holding.bytes, reverse=True)
    return tuple(holdings[:MOST_HOLDINGS]), sum(holding.bytes for holding in holdings)


def _holding(host: Events, operation: str, allocations: list[int]) -> Holding:
    sizes_bytes = [_size(host.stats[index]) for index in allocations]
    largest = host.stats[allocations[sizes_bytes.index(max(sizes_bytes))]]
    shape = largest.get("shape") or largest.get("tensor_shapes")
    return Holding(
        operation=operation or "unknown",
        bytes=sum(sizes_bytes),
        count=len(allocations),
        shape=None if shape is None else str(shape),
    )


def _size(allocation: Stats) -> int:
    size = allocation.get("allocation_bytes", allocation.get("requested_bytes"))
    return size if isinstance(size, int) else 0
