"""Whether a pipeline's elements fit into a cache, in memory or on disk."""

from __future__ import annotations

import math
import shutil

from keras_gpukit.experiments.tuning import tf_private
from keras_gpukit.experiments.tuning.cache_places import places
from keras_gpukit.experiments.tuning.chain import stack
from keras_gpukit.experiments.tuning.changes import Allowed, Change
from keras_gpukit.experiments.tuning.permission import CachePermission, Place
from keras_gpukit.experiments.tuning.reading import Readings
from keras_gpukit.experiments.tuning.tf_private import Dataset, inputs, kind
from keras_gpukit.reports.units import size

# The rest is for training, and for what grows until the first epoch has filled the cache.
MEMORY_SHARE = 0.5
DISK_SHARE = 0.8
# How many readings' time counting may take: what is only counted is read raw, fast.
COUNTING_READINGS = 12

_SAME_COUNT = {"Map", "ParallelMap", "Prefetch", "Options"}


def propose(
    dataset: Dataset, allowed: Allowed, readings: Readings, permission: CachePermission
) -> tuple[Change | None, str]:
    """Proposes the highest cache that fits.

    Args:
        dataset: The pipeline.
        allowed: What the user allows.
        readings: Makes pipelines ready for reading.
        permission: Where caches may be.

    Returns:
        The change, and, where there is none, why.
    """
    candidates, reason = places(dataset, allowed)
    for cut in candidates:
        needed = _size_bytes(cut.below, readings)
        if needed is None:
            reason = "how much it would hold is not known"
            continue
        for place in permission.places:
            free = _free_bytes(place, permission.folder)
            if needed > free:
                reason = f"it needs {size(needed)}; of {place}, {size(free)} may be used"
                continue
            name = "" if place == "memory" else permission.path
            changed = stack(cut.below.cache(name), cut.above)
            what = tf_private.function_name(cut.below) if _called(cut.below) else "the elements"
            return Change(
                f"cache-{place}",
                f"cache what comes from {what} in {place} ({size(needed)})",
                changed,
                note="the first epoch fills it",
            ), ""
    return None, reason


def _called(stage: Dataset) -> bool:
    return bool(tf_private.functions(stage))


def _size_bytes(dataset: Dataset, readings: Readings) -> float | None:
    some = readings.sample(readings.ready(dataset))
    if some.whole:
        return some.size_bytes
    count = _count(dataset, readings)
    return None if count is None else some.size_bytes / some.count * count


def _count(dataset: Dataset, readings: Readings) -> float | None:
    """Number of elements, counted where they are cheapest to make."""
    known = int(dataset.cardinality())
    if known >= 0:
        return known
    divisor = 1
    stage = dataset
    while len(inputs(stage)) == 1:
        if kind(stage) in {"Batch", "ParallelBatch"}:
            divisor *= int(stage._batch_size)
        elif kind(stage) not in _SAME_COUNT:
            break
        stage = inputs(stage)[0]
    counted = readings.sample(readings.ready(stage), COUNTING_READINGS, math.inf)
    return counted.count / divisor if counted.whole else None


def _free_bytes(place: Place, folder: str) -> float:
    if place == "disk":
        return DISK_SHARE * shutil.disk_usage(folder).free
    import psutil

    return MEMORY_SHARE * min(psutil.virtual_memory().available, _container_bytes())


def _container_bytes() -> float:
    """What a container's limit leaves, where there is one (Linux control groups, version 2)."""
    try:
        with (
            open("/sys/fs/cgroup/memory.max") as limit,
            open("/sys/fs/cgroup/memory.current") as current,
        ):
            return int(limit.read()) - int(current.read())
    except (OSError, ValueError):
        return float("inf")
