"""Where a pipeline can cache what it makes, and whether that fits into memory."""

from __future__ import annotations

from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.whole_run.epoch_start_advice import ARRAYS

MEMORY_SHARE = 0.5
"""Share of the free memory that an advised cache may take; our choice. The rest is for training."""
IF_REPEATS = (
    "ds.cache() right after {name}, if it draws nothing at random: do it once, not each epoch"
)
_BATCHES = ("batch", "padded_batch", "map and batch")
_HOLDS_ELEMENTS = (*_BATCHES, "map", "filter", "interleave", "flat_map")
_JOINS = ("zip", "concatenate", "sample_from_datasets", "choose_from_datasets")
_SHUFFLE_AFTER = "{name}(..., batch_size=None, shuffle=False).cache().shuffle(1000).batch(n): {why}"
_OF_HELPER = {
    "image_dataset_from_directory": _SHUFFLE_AFTER,
    "text_dataset_from_directory": _SHUFFLE_AFTER,
    "audio_dataset_from_directory": _SHUFFLE_AFTER,
    "make_csv_dataset": "{name}(..., num_epochs=1, shuffle=False).cache().shuffle(100), and "
    ".repeat() if fit has steps_per_epoch: {why}",
}
"""How to cache what a helper makes that also shuffles. Its own shuffle would be cached, too."""


def cache_advice(
    stages: tuple[StageRecord, ...], stage: StageRecord, summary: RunSummary
) -> tuple[str, ...]:
    """Returns where to cache so that a stage works only in the first epoch; () if nowhere.

    The place is before every shuffle, after the last stage that makes the same elements in each
    epoch. A stage that itself draws something at random, or is cached already, has no such place.

    Args:
        stages: Stages from the one nearest to training back to the sources.
        stage: Stage whose work a cache should save.
        summary: The run, for the memory that is free.
    """
    at = stages.index(stage) if stage in stages else 0
    nearer, further = stages[:at], [each.kind for each in stages[at + 1 :]]
    shuffled = "shuffle" in further
    if any(each.work == "caching" for each in nearer) or stage.work in ("shuffling", "caching"):
        return ()
    if stage.name in _OF_HELPER and (shuffled or stage.repeats is False):
        why = f"read the files once, not in each epoch{_size(stage, summary)}"
        return (_OF_HELPER[stage.name].format(name=stage.name, why=why),)
    if all(each.repeats is None for each in stages):
        return () if stage.work == "python" else (IF_REPEATS.format(name=stage.name),)
    # After a shuffle, a cache of batches would hold the same batches for all epochs.
    before = further[: further.index("shuffle")] if shuffled else []
    if shuffled and any(kind in _BATCHES[:2] for kind in (stage.kind, *before)):
        return ()
    closed = ("shuffle", *_BATCHES) if shuffled else ("shuffle",)
    ends = [n for n, each in enumerate(nearer) if each.kind in closed]
    joins = [n for n, each in enumerate(nearer) if each.kind in _JOINS]
    line = (*nearer[max(ends, default=-1) + 1 : min(joins, default=None)], stage)
    places = [each for each in line if each.repeats and each.kind in _HOLDS_ELEMENTS]
    place = next((each for each in places if not each.name.startswith(ARRAYS)), None)
    if place is None or stage.repeats is False:
        return ()
    name = place.name if place.name != place.kind else f"the {place.kind}"
    after = ", and ds.shuffle() after the cache" if shuffled else ""
    return (
        f"ds.cache() right after {name}{place.where}{after}: it makes the same elements in each "
        f"epoch{_size(place, summary)}",
    )


def _size(place: StageRecord, summary: RunSummary) -> str:
    free = summary.host.memory_available_min_bytes if summary.host else None
    if not place.pass_bytes:
        return ", if that fits into memory"
    size = f"about {place.pass_bytes / 1e6:,.0f} MB"
    if free is None:
        return f" ({size})"
    if place.pass_bytes <= MEMORY_SHARE * free:
        return f" ({size}; {free / 1e9:,.0f} GB of memory are free)"
    return f"; {size} are much for {free / 1e9:,.0f} GB of free memory: cache('/fast/disk/name')"
