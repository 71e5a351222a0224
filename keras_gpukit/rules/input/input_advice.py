"""Advice on a pipeline that limits training: what it does not do yet, the cheapest change first."""

from __future__ import annotations

from keras_gpukit.records.finding import Change
from keras_gpukit.records.pipeline import StageRecord, Work
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.cache_advice import cache_advice
from keras_gpukit.rules.input.contention import ADVICE, gil_is_contended
from keras_gpukit.rules.input.input_waiting import WAITING_CALLS, mostly_waits
from keras_gpukit.rules.input.library_advice import for_library
from keras_gpukit.rules.input.python_advice import (
    IN_PROCESSES,
    PY_DATASET,
    WORKERS,
    for_gil,
    for_py_dataset,
    workers_within,
)

Stages = tuple[StageRecord, ...]
"""Stages of a pipeline from the one nearest to training back to the sources; () if unknown."""

AUTOTUNE = "num_parallel_calls=tf.data.AUTOTUNE"
MEASURE = "keras_gpukit.tune_input(model, ds) tries such changes, and measures each"
PARALLEL = f"give {{name}} {AUTOTUNE}: use every core"
FILES = f"read several files in parallel: ds.interleave(f, {AUTOTUNE})"
BATCH_FIRST = "ds.batch(n) before {name}, with a function that takes whole batches"
PREFETCH = "ds.prefetch(tf.data.AUTOTUNE) last: prepare while the model trains"
_MAPS = ("map", "map and batch")
_BATCHES = ("batch", "padded_batch", "map and batch")
_OPENERS = ("interleave", "flat_map")


def _has(stages: Stages, *kinds: str) -> bool:
    return any(stage.kind in kinds for stage in stages)


def _reads_files_in_turn(stages: Stages) -> bool:
    """Whether several files, or an unknown number of them, are read one after the other."""
    readers = [each for each in stages if each.work == "reading" and each.kind not in _MAPS]
    in_parallel = any(each.kind in _OPENERS and each.parallelism > 1 for each in stages)
    return any(each.files != 1 and each.parallelism == 1 for each in readers) and not in_parallel


GENERAL = (
    f"ds.map(f, {AUTOTUNE}): use every core",
    PREFETCH,
    "ds.cache() after costly steps without randomness, before shuffle",
    f"ds.interleave(f, {AUTOTUNE}) to read files",
    "ds.batch(n) before a map whose function takes whole batches",
    "with a PyDataset: use_multiprocessing=True, no more workers than cores",
)
"""Advice for a pipeline of which nothing is known."""

BY_HAND: frozenset[Work] = frozenset({"shuffling", "python"})
"""Work with advice that only the pipeline's author can follow: `tune_input` changes neither the
code of functions nor the order of elements."""


def general_advice(record: InputRecord, summary: RunSummary) -> tuple[str, ...]:
    """Returns advice for a pipeline whose bottleneck is unknown, by its costliest stage."""
    stages = record.pipeline.stages if record.pipeline else ()
    if not stages:
        return GENERAL
    costliest = max(stages, key=lambda stage: stage.cost_per_batch_s or 0.0)
    ahead = () if _has(stages, "prefetch") else (PREFETCH,)
    return *ahead, *_cheapest_first(stages, costliest, summary)


def advice_for(record: InputRecord, summary: RunSummary) -> tuple[str, ...]:
    """Returns what to change, the cheapest change first, without what the run already does.

    Args:
        record: Record of the input, of training or of a validation.
        summary: The run.
    """
    stage, source, cores = bottleneck(record), record.python, summary.environment.cpu_count
    in_processes = source is not None and source.in_processes
    holds_gil = not in_processes and gil_is_contended(record.contention, cores)
    waits = mostly_waits(record, summary)
    if source is not None and source.library != "Keras":
        return for_library(source, stage, cores, holds_gil=holds_gil, waits=waits)
    if source is not None and source.name.endswith(PY_DATASET):
        if holds_gil:
            return *for_gil(source.name, source.workers, cores), MEASURE
        return *for_py_dataset(source, cores, waits=waits), MEASURE
    if holds_gil and stage is not None and stage.work == "python":
        return for_gil(stage.name, 1, cores)
    about_gil = (ADVICE["interpreter lock"],) if holds_gil else ()
    if stage is None or record.pipeline is None:
        return *about_gil, *general_advice(record, summary), MEASURE
    first = _for_waiting(stage) if waits else ()
    lines = _cheapest_first(record.pipeline.stages, stage, summary)
    if first:
        lines = tuple(line for line in lines if line != PARALLEL.format(name=stage.name))
    measure = () if stage.work in BY_HAND else (MEASURE,)
    return *about_gil, *first, *lines, *measure


def _cheapest_first(stages: Stages, stage: StageRecord, summary: RunSummary) -> tuple[str, ...]:
    lines = _for_stage(stages, stage, summary.environment.cpu_count)
    # Work in parallel costs a word, a cache memory, and a rewrite time.
    cheap = [line for line in lines if AUTOTUNE in line]
    rest = [line for line in lines if AUTOTUNE not in line]
    return *cheap, *cache_advice(stages, stage, summary), *rest


def _for_waiting(stage: StageRecord) -> tuple[str, ...]:
    """Returns how to let a stage wait for many elements at the same time."""
    if stage.kind in _MAPS and stage.parallelism < WAITING_CALLS:
        queued = f": {stage.asked_parallelism} calls are asked for, and {stage.parallelism} run"
        return (
            f"ds.map({_in_code(stage.name)}, num_parallel_calls={WAITING_CALLS}, "
            f"use_unbounded_threadpool=True){queued if stage.asked_parallelism else ''}: it mostly "
            "waits, and calls that wait need no core each",
        )
    if stage.kind == "generator":
        return (
            f"yield only names or indices from {stage.name}, and load them in ds.map(load, "
            f"num_parallel_calls={WAITING_CALLS}, use_unbounded_threadpool=True): {stage.name} "
            "mostly waits, one call after the other",
        )
    return ()


def _in_code(name: str) -> str:
    return name if name.isidentifier() else "..."


def _for_stage(stages: Stages, stage: StageRecord, cores: int | None) -> tuple[str, ...]:
    """Returns the advice on a kind of work, without what the pipeline already does."""
    at = stages.index(stage) if stage in stages else 0
    nearer, further = stages[:at], stages[at + 1 :]
    serial = stage.parallelism == 1
    single = _has(nearer, *_BATCHES) or stage.kind == "map and batch" or len(stages) == 1
    parallel = PARALLEL if serial and stage.kind in _MAPS else ""
    batch_first = BATCH_FIRST if single else ""
    in_memory = _has(stages, "memory_cache_impl")
    workers = workers_within(WORKERS, cores)
    by_work: dict[Work, tuple[str, ...]] = {
        "reading": (
            parallel,
            FILES if stage.kind not in _MAPS and _reads_files_in_turn(stages) else "",
            "fewer and larger files, nearer to the machine" if stage.files != 1 else "",
        ),
        "decoding": (
            parallel,
            "store the images smaller"
            if stage.location is None
            else "store the images smaller, or decode to the size that is trained on: "
            "tf.io.decode_jpeg(image, ratio=2)",
        ),
        "parsing": (parallel, batch_first and f"{batch_first}: tf.io.parse_example does"),
        "mapping": (parallel, batch_first),
        "filtering": (
            "filter once, and write what is left to files of its own",
            "filter early, before discarded elements are read and decoded"
            if _has(further, *_MAPS)
            else "",
        ),
        "batching": (
            f"ds.batch(n, {AUTOTUNE})" if serial else "",
            "ds.batch earlier in the pipeline, so that fewer elements pass through its stages"
            if _has(further, "map", "filter", "shuffle")
            else "",
        ),
        "shuffling": (
            "shuffle what is small: file names or indices, before they are read and decoded"
            if _has(further, *_MAPS, *_OPENERS)
            else "",
            "a smaller shuffle buffer",
        ),
        "caching": (
            ""
            if in_memory
            else "a cache on disk is read again each epoch: cache in memory, if it fits",
            "cache what is small: before decoding or before a map that makes it larger",
        ),
        "python": (
            "write {name} in TensorFlow operations: Python runs on one core at a time",
            f"or as a {IN_PROCESSES}" if workers > 1 else "",
            "have {name} make whole batches with NumPy, not single examples" if single else "",
        ),
    }
    lines = by_work.get(stage.work, ())
    return tuple(line.format(name=stage.name, workers=workers) for line in lines if line)


def change_for(record: InputRecord, advice: str) -> Change | None:
    """Returns what an advice on the bottleneck does to the user's line; None if that is unknown.

    Args:
        record: Record of the input.
        advice: A line that `advice_for` returned.
    """
    stage = bottleneck(record)
    if stage is None or stage.call is None or stage.kind not in _MAPS:
        return None
    line, end = stage.call.text, stage.call.end
    if advice == PARALLEL.format(name=stage.name):
        after = f"{line[: end - 1]}, {AUTOTUNE}{line[end - 1 :]}"
    elif advice.startswith(f"ds.cache() right after {stage.name}"):
        after = f"{line[:end]}.cache(){line[end:]}"
    else:
        return None
    return Change(line, after, stage.location)


def bottleneck(record: InputRecord) -> StageRecord | None:
    """Returns the stage that is the bottleneck; None if unknown."""
    return record.pipeline.bottleneck if record.pipeline else None
