"""Where a pipeline's elements may be cached, and whether they fit there."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass

from keras_gpukit.experiments import tf_private
from keras_gpukit.experiments.chain import changeable, replace, spine, stack, stages
from keras_gpukit.experiments.changes import Allowed, Change
from keras_gpukit.experiments.permission import CachePermission, Place
from keras_gpukit.experiments.randomness import impurities, varies
from keras_gpukit.experiments.reading import Readings
from keras_gpukit.experiments.tf_private import Dataset, inputs, kind
from keras_gpukit.reports.units import size

# The rest is for training, and for what grows until the first epoch has filled the cache.
MEMORY_SHARE = 0.5
DISK_SHARE = 0.8
# How many readings' time counting may take: what is only counted is read raw, fast.
COUNTING_READINGS = 12

# A stage above a cache that may stop reading before the cache has seen everything: it would never
# be used.
_ENDS_EARLY = {"Take", "TakeWhile"}
_SAME_COUNT = {"Map", "ParallelMap", "Prefetch", "Options"}
_COMMUTE_WITH_MAPS = {"Shuffle", "Repeat", "Prefetch", "Options"}


@dataclass(frozen=True)
class Point:
    """A pipeline cut in two.

    Attributes:
        below: What would be cached.
        above: The stages over it, the lowest first.
    """

    below: Dataset
    above: list[Dataset]


def points(dataset: Dataset, allowed: Allowed) -> tuple[list[Point], str]:
    """Where a cache gives the same elements in the same order as before, the best place first.

    A cache stands below every shuffle and every stage that may vary. Maps that depend on their
    arguments alone are moved below a shuffle, so that their results can be cached: it shuffles
    places, whatever stands in them. A cache in memory that stands lower than it could is moved.

    Returns:
        The places, and, where there is none, why.
    """
    for stage in changeable(dataset):
        if kind(stage) != "Cache":
            continue
        below = inputs(stage)[0]
        if tf_private.cache_file(stage) or varies(below, trust_python=allowed.trust_python):
            return [], "it has a cache already"
        uncached = replace(dataset, {id(stage): lambda _, below=below: below})  # type: ignore[misc]
        found, reason = points(uncached, allowed)
        same_place = bool(found) and found[0].below is below
        return ([], "its cache stands where it should") if same_place else (found[:1], reason)

    rising = spine(dataset)[::-1]
    steady: list[Dataset] = []
    reason = ""
    for stage in rising:
        reason = varies(stage, trust_python=allowed.trust_python) or ""
        if reason or kind(stage) == "Repeat":
            break
        steady.append(stage)
    above = rising[len(steady) :]
    if not steady:
        return [], reason
    moved: list[Dataset] = []
    for stage in above:
        if kind(stage) in {"Map", "ParallelMap"} and not _impure(stage, allowed):
            moved.append(stage)
        elif kind(stage) not in _COMMUTE_WITH_MAPS:
            break
    while len(steady) > 1 and not moved and kind(steady[-1]) in {"Prefetch", "Options"}:
        above = [steady.pop(), *above]
    found = []
    below = steady[-1]
    for count in range(len(moved) + 1):
        over = [stage for stage in above if not any(stage is each for each in moved[:count])]
        below = stack(below, moved[count - 1 : count])
        found.append(Point(below, over))
    found.reverse()
    found += [Point(steady[i], steady[i + 1 :] + above) for i in range(len(steady) - 2, -1, -1)]
    found = [point for point in found if _is_work(point.below)]
    if any(kind(stage) in _ENDS_EARLY for stage in above):
        return [], "a stage above ends before a cache would be full"
    return found, reason or "nothing is computed before its elements are shuffled"


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
    candidates, reason = points(dataset, allowed)
    for point in candidates:
        needed = _size_bytes(point.below, readings)
        if needed is None:
            reason = "how much it would hold is not known"
            continue
        for place in permission.places:
            free = _free_bytes(place, permission.folder)
            if needed > free:
                reason = f"it needs {size(needed)}; of {place}, {size(free)} may be used"
                continue
            name = "" if place == "memory" else permission.path
            changed = stack(point.below.cache(name), point.above)
            what = tf_private.function_name(point.below) if _called(point.below) else "the elements"
            return Change(
                f"cache-{place}",
                f"cache what comes from {what} in {place} ({size(needed)})",
                changed,
                note="the first epoch fills it",
            ), ""
    return None, reason


def _called(stage: Dataset) -> bool:
    return bool(tf_private.functions(stage))


def _impure(stage: Dataset, allowed: Allowed) -> bool:
    return bool(impurities(stage) - ({"python"} if allowed.trust_python else set()))


def _is_work(dataset: Dataset) -> bool:
    return any(tf_private.functions(stage) for stage in stages(dataset))


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
