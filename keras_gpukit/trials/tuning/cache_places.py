"""Finds where a cache in a pipeline leaves the elements and their order unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.input.pipelines.functions import helper_of
from keras_gpukit.input.pipelines.kinds import kind
from keras_gpukit.input.pipelines.randomness import impurities, varies
from keras_gpukit.input.pipelines.rebuilding import changeable, replace, spine, stack
from keras_gpukit.input.pipelines.structure import Dataset, cache_file, functions, inputs, stages
from keras_gpukit.trials.tuning.changes import Allowed

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
    for number, stage in enumerate(moved, 1):
        left = [each for each in above if not any(each is gone for gone in moved[:number])]
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
