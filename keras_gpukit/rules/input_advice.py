"""What to change in a pipeline that limits training, by its slowest stage."""

from __future__ import annotations

from keras_gpukit.records.pipeline import (
    ContentionRecord,
    PythonSourceRecord,
    StageRecord,
    Work,
)
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.contention import ADVICE, causes

GENERAL = (
    "ds.map(f, num_parallel_calls=tf.data.AUTOTUNE): use every core",
    "ds.cache() after costly steps without randomness, before shuffle",
    "ds.interleave(f, num_parallel_calls=tf.data.AUTOTUNE) to read files",
    "ds.batch(n) before a map whose function takes whole batches",
    "ds.prefetch(tf.data.AUTOTUNE) last: prepare while the model trains",
    "with keras.utils.PyDataset: workers=4 or more, use_multiprocessing=True",
)
"""Where the stage is not known."""

MEASURE = "keras_gpukit.tune_input(ds, model) tries such changes, and measures each"
PARALLEL = "give {name} num_parallel_calls=tf.data.AUTOTUNE: use every core"
CACHE = "ds.cache() right after {name}, if it draws nothing at random: do it once, not each epoch"

BY_HAND: frozenset[Work] = frozenset({"shuffling", "python"})
"""Where the advice is for the pipeline's author alone: `tune_input` changes no function's code, and
no order of elements."""

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
        "or as a keras.utils.PyDataset with workers=4, use_multiprocessing=True",
        "have {name} make whole batches with NumPy, not single examples",
    ),
}

PY_DATASET = ".__getitem__"


def advice_for(record: InputRecord) -> tuple[str, ...]:
    """Returns what to change, the most rewarding first."""
    lines: tuple[str, ...]
    measure: tuple[str, ...] = (MEASURE,)
    stage = bottleneck(record)
    if record.python is not None and record.python.name.endswith(PY_DATASET):
        lines = _for_py_dataset(record.python)
    elif stage is None or stage.work not in BY_WORK:
        lines = GENERAL
    else:
        lines = tuple(line.format(name=stage.name) for line in BY_WORK[stage.work])
        measure = () if stage.work in BY_HAND else measure
        if stage.parallelism > 1:
            # It has that already.
            lines = tuple(line for line in lines if line != PARALLEL.format(name=stage.name))
        if _is_cached(record, stage):
            lines = tuple(line for line in lines if "cache()" not in line)
    in_processes = record.python is not None and record.python.in_processes
    about_gil = () if in_processes else _about_gil(record.contention)
    return (*about_gil, *lines, *measure)


def _is_cached(record: InputRecord, stage: StageRecord) -> bool:
    """Whether a cache keeps what a stage makes, in a stage nearer to training."""
    stages = record.pipeline.stages if record.pipeline else ()
    nearer = stages[: stages.index(stage)] if stage in stages else ()
    return any(each.work == "caching" for each in nearer)


def _about_gil(contention: ContentionRecord | None) -> tuple[str, ...]:
    # Busy cores have a rule of their own, which also sees other processes.
    if contention is None:
        return ()
    found = causes(contention.gil_wait_s, contention.cores_busy_fraction) or ()
    return tuple(ADVICE[cause] for cause in found if cause == "interpreter lock")


def _for_py_dataset(source: PythonSourceRecord) -> tuple[str, ...]:
    dataset, workers = source.name.removesuffix(PY_DATASET), source.workers
    whole = f"have {source.name} make the whole batch with NumPy, not row by row"
    if source.in_processes:
        return f"{dataset}(workers={2 * workers}), if cores are free", whole
    lock = "if threads wait for the GIL"
    if workers > 1:
        return f"{dataset}(workers={workers}, use_multiprocessing=True), {lock}", whole
    return (
        f"{dataset}(workers=4): four batches in parallel",
        f"{dataset}(workers=4, use_multiprocessing=True), {lock}",
        whole,
    )


def bottleneck(record: InputRecord) -> StageRecord | None:
    """The stage that is the bottleneck, if it is known."""
    return record.pipeline.bottleneck if record.pipeline else None
