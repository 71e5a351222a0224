"""Proposes a cache where it leaves the elements unchanged, if they fit and the user allows it."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    cache_file,
    functions,
    inputs,
    kind,
    number,
    stages,
)
from keras_gpukit.input.pipelines.functions import BATCHES, function_name, helper_of
from keras_gpukit.input.pipelines.randomness import impurities, varies
from keras_gpukit.input.pipelines.rebuilding import changeable, replace, spine, stack
from keras_gpukit.records.tuning import CACHE_NOT_ALLOWED
from keras_gpukit.reports.units import size
from keras_gpukit.sensors.host import left_bytes
from keras_gpukit.tuning.pipeline_changes import Allowed
from keras_gpukit.tuning.reading import Readings, Sample
from keras_gpukit.tuning.trials import Gain, Proposal

_MAPS = {"Map", "ParallelMap"}
# These stages pass elements on unchanged, so a map can move below them with the same result.
_COMMUTE_WITH_MAPS = {"Shuffle", "Repeat", "Prefetch", "Options"}
_PASS_ON = {"Prefetch", "Options"}
# Above a cache, these may end an epoch before the cache is full, so it would never be used.
_END_EARLY = {"Take", "TakeWhile"}


@dataclass(frozen=True)
class Cut:
    """A pipeline cut in two at a possible place for a cache; the lowest stage above comes first."""

    below: Dataset
    above: list[Dataset]


def places(dataset: Dataset, allowed: Allowed) -> tuple[list[Cut], str]:
    """Returns the possible places for a cache, the best one first, or why there are none.

    A cache must be below every shuffle and every stage whose elements may vary between epochs. Maps
    that depend only on their arguments are moved below a shuffle, so that the cache holds their
    results too. This is safe because a shuffle draws positions, whatever elements are there. If the
    pipeline already has a cache in memory that could be higher, the cache is moved.
    """
    for stage in changeable(dataset):
        if kind(stage) == "Cache":
            return _higher_than(stage, dataset, allowed)
    return _uncached(dataset, allowed)


def _higher_than(cache: Dataset, dataset: Dataset, allowed: Allowed) -> tuple[list[Cut], str]:
    below = inputs(cache)[0]
    if cache_file(cache) or varies(below, trust_python=allowed.trust_python):
        return [], "it already has a cache"
    found, reason = places(replace(dataset, {id(cache): lambda nothing: below}), allowed)
    if found and found[0].below is below:
        return [], "its cache is already in the best place"
    return found[:1], reason


def _uncached(dataset: Dataset, allowed: Allowed) -> tuple[list[Cut], str]:
    steady, above, reason = _divided(spine(dataset)[::-1], allowed)
    if not steady:
        return [], reason + _how(dataset)
    if any(kind(stage) in _END_EARLY for stage in above):
        return [], "a later stage stops reading before a cache would be full"
    moved = _maps_to_move(above, allowed)
    cuts = [Cut(below, steady[count:] + above) for count, below in enumerate(steady, 1)]
    for count, stage in enumerate(moved, 1):
        left = [later for later in above if not any(later is gone for gone in moved[:count])]
        cuts.append(Cut(stack(cuts[-1].below, [stage]), left))
    worth_it = [cut for cut in reversed(cuts) if any(map(functions, stages(cut.below)))]
    return worth_it, reason or "nothing is computed before its elements are shuffled"


def _how(dataset: Dataset) -> str:
    """Returns how to let a helper make elements that can be cached; "" if no helper made them."""
    if helper_of(spine(dataset)[-1]) != "make_csv_dataset":
        return ""
    return " (make_csv_dataset with num_epochs=1, shuffle=False; shuffle after the cache)"


def _divided(rising: list[Dataset], allowed: Allowed) -> tuple[list[Dataset], list[Dataset], str]:
    """Returns the stages with the same elements in each epoch, those above, and why these vary."""
    steady: list[Dataset] = []
    reason = ""
    for stage in rising:
        reason = varies(stage, trust_python=allowed.trust_python) or ""
        if reason or kind(stage) == "Repeat":
            break
        steady.append(stage)
    while len(steady) > 1 and kind(steady[-1]) in _PASS_ON:
        steady.pop()
    return steady, rising[len(steady) :], reason


def _maps_to_move(above: list[Dataset], allowed: Allowed) -> list[Dataset]:
    harmless = {"python"} if allowed.trust_python else set[str]()
    moved = []
    for stage in above:
        if kind(stage) in _MAPS and not impurities(stage) - harmless:
            moved.append(stage)
        elif kind(stage) not in _COMMUTE_WITH_MAPS:
            break
    return moved


# Shares of the free space that a cache may take. The rest is for training, and for other data that
# grows until the first epoch has filled the cache.
MEMORY_SHARE = 0.5
DISK_SHARE = 0.8
# Maximum number of elements in a cache on disk, because its index has an entry for each tensor. Our
# choice.
MOST_ON_DISK = 10_000_000

_SAME_COUNT = {"Map", "ParallelMap", "Prefetch", "Options"}


Place = Literal["memory", "disk"]
Choice = Literal["ask", "memory", "disk"] | bool

_PLACES: dict[Any, tuple[Place, ...]] = {
    "ask": ("memory", "disk"),
    True: ("memory", "disk"),
    "memory": ("memory",),
    "disk": ("disk",),
    False: (),
}


class CachePermission:
    """The user's permission to cache elements."""

    def __init__(
        self, choice: Choice, folder: str | os.PathLike[str] | None, ask: Callable[[str], bool]
    ) -> None:
        self.places = _PLACES[choice]
        self.folder = tempfile.gettempdir() if folder is None else os.fspath(folder)
        # The name is unique: TensorFlow reads an existing file, whichever pipeline wrote it.
        name = f"keras_gpukit-cache-{uuid.uuid4().hex[:12]}"
        self.path = os.path.join(self.folder, name, "elements")
        self.is_temporary = folder is None
        self._asks, self._ask = choice == "ask", ask

    def decide(self, description: str, found: Gain) -> str:
        """Returns why a cache that makes the pipeline faster is not kept; "" if it is kept."""
        if not self._asks:
            return ""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return CACHE_NOT_ALLOWED
        question = f"{found.gain:.1f}× faster: {description}?"
        return "" if self._ask(question) else "not wanted"

    def make_room(self, cache: Dataset) -> None:
        """Makes the folder of a cache on disk; a temporary one is removed with the dataset."""
        if not cache_file(cache):
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        if self.is_temporary:
            weakref.finalize(cache, shutil.rmtree, folder, ignore_errors=True)


def propose(
    dataset: Dataset,
    allowed: Allowed,
    readings: Readings,
    permission: CachePermission,
    is_over: Callable[[], bool] = lambda: False,
) -> Proposal:
    """Proposes a cache at the highest place where it fits."""
    candidates, reason = places(dataset, allowed)
    counts: dict[int, int | None] = {}
    for cut in candidates:
        if is_over():
            reason = "time ran out"
            break
        extent = _extent(cut.below, readings, counts)
        if extent is None:
            reason = "the size of its contents is unknown"
            continue
        for place in permission.places:
            reason = _no_room(place, permission.folder, extent, cut)
            if reason:
                continue
            cached = cut.below.cache("" if place == "memory" else permission.path)
            what = function_name(cut.below) if functions(cut.below) else "the elements"
            return Proposal(
                f"cache-{place}",
                f"cache the output of {what} in {place} ({size(extent.size_bytes)})",
                stack(cached, cut.above),
                note="the first epoch fills it",
            )
    return Proposal("cache", "cache elements", blocked=reason)


def _no_room(place: Place, folder: str, extent: Sample, cut: Cut) -> str:
    """Returns why a cache does not fit into memory or on disk; "" if it does."""
    needed, free = extent.size_bytes, _free_bytes(place, folder)
    if needed > free:
        return f"it needs {size(needed)}, but only {size(free)} of {place} may be used"
    if place == "memory":  # a shuffle above it shares the tensors of the cache
        return ""
    if extent.count > MOST_ON_DISK:
        return f"its {extent.count:.0f} elements are too many for a cache on disk"
    shuffled, free = _shuffled_bytes(cut.above, extent), _free_bytes("memory", folder)
    if shuffled > free:
        return (
            f"shuffling the cached elements needs {size(shuffled)}, "
            f"but only {size(free)} of memory may be used"
        )
    return ""


def _extent(dataset: Dataset, readings: Readings, counts: dict[int, int | None]) -> Sample | None:
    """Returns the number and size of all elements that a cache would hold; None if unknown."""
    some = readings.sample(readings.ready(dataset))
    if some.whole:
        return some
    count = _count(dataset, readings, counts)
    return None if count is None else Sample(count, some.size_bytes / some.count * count, True)


def _shuffled_bytes(above: list[Dataset], cached: Sample) -> float:
    """Returns the total size in bytes of the elements in the shuffle buffers above a cache."""
    count = cached.count
    each_bytes = cached.size_bytes / count if count else 0.0
    held_bytes = 0.0
    for stage in above:
        if kind(stage) in BATCHES:
            size = number(stage, "batch_size")
            count, each_bytes = count / size, each_bytes * size
        elif kind(stage) == "Repeat":
            count = math.inf
        elif kind(stage) == "Shuffle":
            buffer = number(stage, "buffer_size")  # a negative size means all elements
            held_bytes += each_bytes * (count if buffer < 0 else min(buffer, count))
    return held_bytes


def _count(dataset: Dataset, readings: Readings, counts: dict[int, int | None]) -> float | None:
    """Returns the number of elements; None if unknown.

    Counts them once, at the lowest stage from which the number follows, where they are cheapest to
    make.
    """
    known = int(dataset.cardinality())
    if known >= 0:
        return known
    divisor = 1
    stage = dataset
    while len(inputs(stage)) == 1:
        if kind(stage) in BATCHES:
            divisor *= number(stage, "batch_size")
        elif kind(stage) not in _SAME_COUNT:
            break
        stage = inputs(stage)[0]
    if id(stage) not in counts:
        counts[id(stage)] = readings.count(readings.ready(stage))
    counted = counts[id(stage)]
    return None if counted is None else counted / divisor


def _free_bytes(place: Place, folder: str) -> float:
    if place == "disk":
        return DISK_SHARE * shutil.disk_usage(folder).free
    return MEMORY_SHARE * left_bytes()
