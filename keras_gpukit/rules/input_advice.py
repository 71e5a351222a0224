"""Advice on a pipeline that limits training, by its slowest stage."""

from __future__ import annotations

from keras_gpukit.records.pipeline import ContentionRecord, StageRecord, Work
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.contention import ADVICE, causes
from keras_gpukit.rules.library_advice import for_library
from keras_gpukit.rules.python_advice import (
    IN_PROCESSES,
    PY_DATASET,
    WORKERS,
    for_gil,
    for_py_dataset,
    workers_within,
)

GENERAL = (
    "ds.map(f, num_parallel_calls=tf.data.AUTOTUNE): use every core",
    "ds.cache() after costly steps without randomness, before shuffle",
    "ds.interleave(f, num_parallel_calls=tf.data.AUTOTUNE) to read files",
    "ds.batch(n) before a map whose function takes whole batches",
    "ds.prefetch(tf.data.AUTOTUNE) last: prepare while the model trains",
    "with a PyDataset: use_multiprocessing=True, no more workers than cores",
)
"""Advice for a pipeline whose slowest stage is unknown."""

MEASURE = "keras_gpukit.tune_input(ds, model) tries such changes, and measures each"
PARALLEL = "give {name} num_parallel_calls=tf.data.AUTOTUNE: use every core"
CACHE = "ds.cache() right after {name}, if it draws nothing at random: do it once, not each epoch"

BY_HAND: frozenset[Work] = frozenset({"shuffling", "python"})
"""Work with advice that only the pipeline's author can follow: `tune_input` changes neither the
code of functions nor the order of elements."""

BY_WORK: dict[Work, tuple[str, ...]] = {
    "reading": (
        "read several files in parallel: ds.interleave(f, num_parallel_calls=tf.data.AUTOTUNE)",
        "ds.cache() after the files are read, if they fit into memory",
        "fewer and larger files, nearer to the machine",
    ),
    "decoding": (
        PARALLEL,
        CACHE,
        "store the images smaller, or decode to the size that is trained on: "
        "tf.io.decode_jpeg(image, ratio=2)",
    ),
    "mapping": (
        PARALLEL,
        CACHE,
        "ds.batch(n) before {name}, with a function that takes whole batches",
    ),
    "filtering": (
        "filter once and ds.cache() the rest, or write the rest to files of its own",
        "filter early, before discarded elements are read and decoded",
    ),
    "batching": (
        "ds.batch(n, num_parallel_calls=tf.data.AUTOTUNE)",
        "ds.batch earlier in the pipeline, so that fewer elements pass through its stages",
    ),
    "shuffling": (
        "shuffle what is small: file names or indices, before they are read and decoded",
        "a smaller shuffle buffer",
    ),
    "caching": (
        "a cache on disk is read again each epoch: cache in memory, if it fits",
        "cache what is small: before decoding or before a map that makes it larger",
    ),
    "python": (
        "write {name} in TensorFlow operations: Python runs on one core at a time",
        f"or as a {IN_PROCESSES}",
        "have {name} make whole batches with NumPy, not single examples",
    ),
}


def advice_for(record: InputRecord, cores: int | None) -> tuple[str, ...]:
    """Returns what to change, the most rewarding change first.

    Args:
        record: Record of the input.
        cores: Number of CPU cores; None if unknown.
    """
    stage, source = bottleneck(record), record.python
    in_processes = source is not None and source.in_processes
    holds_gil = not in_processes and _waits_for_gil(record.contention)
    if source is not None and source.library != "Keras":
        return for_library(source, stage, cores, holds_gil=holds_gil)
    if source is not None and source.name.endswith(PY_DATASET):
        if holds_gil:
            return *for_gil(source.name, source.workers, cores), MEASURE
        return *for_py_dataset(source, cores), MEASURE
    if holds_gil and stage is not None and stage.work == "python":
        return for_gil(stage.name, 1, cores)
    about_gil = (ADVICE["interpreter lock"],) if holds_gil else ()
    if stage is None or stage.work not in BY_WORK:
        return *about_gil, *GENERAL, MEASURE
    measure = () if stage.work in BY_HAND else (MEASURE,)
    return *about_gil, *_for_stage(record, stage, cores), *measure


def _for_stage(record: InputRecord, stage: StageRecord, cores: int | None) -> tuple[str, ...]:
    workers = workers_within(WORKERS, cores)
    lines = tuple(line.format(name=stage.name, workers=workers) for line in BY_WORK[stage.work])
    if workers == 1:
        lines = tuple(line for line in lines if "use_multiprocessing" not in line)
    if stage.parallelism > 1:
        # The stage already runs in parallel.
        lines = tuple(line for line in lines if line != PARALLEL.format(name=stage.name))
    if _is_cached(record, stage):
        lines = tuple(line for line in lines if "cache()" not in line)
    return lines


def _is_cached(record: InputRecord, stage: StageRecord) -> bool:
    """Whether a cache nearer to training keeps the results of a stage."""
    stages = record.pipeline.stages if record.pipeline else ()
    nearer = stages[: stages.index(stage)] if stage in stages else ()
    return any(each.work == "caching" for each in nearer)


def _waits_for_gil(contention: ContentionRecord | None) -> bool:
    """Whether threads wait for the GIL. Busy cores have a rule that also sees other processes."""
    if contention is None:
        return False
    found = causes(contention.gil_wait_s, contention.cores_busy_fraction) or ()
    return "interpreter lock" in found


def bottleneck(record: InputRecord) -> StageRecord | None:
    """Returns the stage that is the bottleneck; None if unknown."""
    return record.pipeline.bottleneck if record.pipeline else None
