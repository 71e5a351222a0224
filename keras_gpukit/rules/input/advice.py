"""Advice on a tf.data pipeline that limits training: what it does not do yet, cheapest first."""

from __future__ import annotations

from keras_gpukit.records.finding import Advice, Change
from keras_gpukit.records.pipeline import ARRAYS, PipelineRecord, StageRecord, Work
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input import contention
from keras_gpukit.rules.input.contention import WAITING_CALLS, input_holds_gil, mostly_waits
from keras_gpukit.rules.input.pipeline_causes import Stages, stages_while_training
from keras_gpukit.rules.input.python_advice import (
    AHEAD,
    IN_PROCESSES,
    PREPARATION,
    PY_DATASET,
    WORKERS,
    for_gil,
    for_library,
    for_py_dataset,
    workers_within,
)
from keras_gpukit.rules.rule import advise

AUTOTUNE = "num_parallel_calls=tf.data.AUTOTUNE"
MEMORY_SHARE = 0.5
"""Share of the free memory that an advised cache may take; our choice. The rest is for training."""

_WAITING = f"num_parallel_calls={WAITING_CALLS}, use_unbounded_threadpool=True"
_DECODE = "decode to the size that is trained on: `tf.io.decode_jpeg(image, ratio=2)`"
TEXTS = {
    # Work in parallel costs a word, a cache memory, and a rewrite time.
    "parallel calls": f"give {{name}} `{AUTOTUNE}`: use every core",
    "parallel files": f"read several files in parallel: `ds.interleave(f, {AUTOTUNE})`",
    "parallel batches": f"`ds.batch(n, {AUTOTUNE})`",
    "waiting calls": f"`ds.map({{code}}, {_WAITING})`{{queued}}: it mostly waits, and calls that "
    "wait need no core each",
    "waiting generator": f"yield only names or indices from {{name}}, and load them in `ds.map("
    f"load, {_WAITING})`: {{name}} mostly waits, one call after the other",
    "prefetch": "`ds.prefetch(tf.data.AUTOTUNE)` last: prepare batches in advance",
    "cache": "`ds.cache()` right after {name}, if it draws nothing at random: do it once, not each "
    "epoch",
    "cache in memory": "a cache on disk is read again each epoch: cache in memory, if it fits",
    "cache smaller": "cache what is small: before decoding or before a map that makes it larger",
    "fewer files": "fewer and larger files, on a disk of this machine",
    "smaller images": "store the images smaller",
    "decode smaller": f"store the images smaller, or {_DECODE}",
    "batch first": "`ds.batch(n)` before {name}, with a function that takes whole batches",
    "parse batches": "`ds.batch(n)` before {name}, with a function that takes whole batches: "
    "`tf.io.parse_example` does",
    "filter once": "filter once, and write what is left to new files",
    "filter early": "filter early, before discarded elements are read and decoded",
    "batch earlier": "`ds.batch` earlier in the pipeline, so that fewer elements pass through its "
    "stages",
    "shuffle small": "shuffle what is small: file names or indices, before they are read and "
    "decoded",
    "smaller buffer": "a smaller shuffle buffer",
    "calls in parallel": f"`ds.map({{code}}, {_WAITING})`: calls that wait, or release the GIL, "
    "run in parallel",
    "operations": "rewrite {name} in TensorFlow operations, which can run in parallel",
    "processes": f"or as a {IN_PROCESSES}",
    "whole batches": "have {name} make whole batches with NumPy, not single examples",
    "windows": "cut a batch of windows at once, by index: `ds.map(lambda starts: tf.gather(x, "
    "starts[:, None] + tf.range(n)))` on batches of start indices, not a dataset for each window",
    "once": f"do once, before fit, what {{name}} does before its first element: {PREPARATION}",
    "measure": "`keras_gpukit.tune_input(model, ds)` tries such changes, and measures each",
}
"""Text of each kind of advice."""
MOST_OF_A_START = 0.5
"""Share of an epoch's start that a stage must take to be the bottleneck of epochs that are all
start; our choice."""
CHEAPEST = ("parallel calls", "calls in parallel", "parallel files", "parallel batches")
ON_CACHES = ("cache", "cache at a distance", "cache in memory", "cache smaller")

GENERAL = (
    advise(f"`ds.map(f, {AUTOTUNE})`: use every core", "parallel calls"),
    advise(TEXTS["prefetch"], "prefetch"),
    advise("`ds.cache()` after costly steps without randomness, before shuffle", "cache"),
    advise(f"`ds.interleave(f, {AUTOTUNE})` to read files", "parallel files"),
    advise("`ds.batch(n)` before a map whose function takes whole batches", "batch first"),
    advise("with a PyDataset: `use_multiprocessing=True`, no more workers than cores"),
)
"""Advice for a pipeline of which nothing is known."""
BY_HAND: frozenset[Work] = frozenset({"shuffling", "python"})
"""Work with advice that only the pipeline's author can follow: `tune_input` changes neither the
code of functions nor the order of elements."""

_MAPS = ("map", "map and batch")
_BATCHES = ("batch", "padded_batch", "map and batch")
_OPENERS = ("interleave", "flat_map")
_HOLDS_ELEMENTS = (*_BATCHES, "map", "filter", *_OPENERS)
_JOINS = ("zip", "concatenate", "sample_from_datasets", "choose_from_datasets")
_SHUFFLE_AFTER = (
    "`{name}(..., batch_size=None, shuffle=False).cache().shuffle(1000).batch(n)`: {why}"
)
_OF_HELPER = {
    "image_dataset_from_directory": _SHUFFLE_AFTER,
    "text_dataset_from_directory": _SHUFFLE_AFTER,
    "audio_dataset_from_directory": _SHUFFLE_AFTER,
    "make_csv_dataset": "`{name}(..., num_epochs=1, shuffle=False).cache().shuffle(100)`, and "
    "`.repeat()` if fit has steps_per_epoch: {why}",
}
"""How to cache what a helper makes that also shuffles. Its own shuffle would be cached, too."""


def advice_for(record: InputRecord, summary: RunSummary) -> tuple[Advice, ...]:
    """Returns what to change, the cheapest change first, without what the run already does."""
    return tuple(map(advise, _advice_for(record, summary)))


def _advice_for(record: InputRecord, summary: RunSummary) -> tuple[str | Advice, ...]:
    stage, source, cores = bottleneck(record), record.python, summary.environment.cpu_count
    in_processes = source is not None and source.in_processes
    holds_gil = not in_processes and input_holds_gil(record, cores)
    waits = mostly_waits(record, summary)
    measure = _advise("measure")
    if source is not None and source.library != "Keras":
        return for_library(source, stage, cores, holds_gil=holds_gil, waits=waits)
    if source is not None and source.name.endswith(PY_DATASET):
        if holds_gil:
            return *for_gil(source.name, source.workers, cores), measure
        seen = record.contention is not None and record.contention.gil_wait_s is not None
        return *for_py_dataset(source, cores, waits=waits, gil_is_free=seen), measure
    if holds_gil and stage is not None and stage.work == "python":
        return for_gil(stage.name, 1, cores)
    about_gil = (contention.ADVICE["interpreter lock"],) if holds_gil else ()
    if stage is None or record.pipeline is None:
        return *about_gil, *general_advice(record, summary), measure
    first = _for_waiting(stage) if waits else ()
    lines = _cheapest_first(stages_while_training(record.pipeline), stage, summary)
    if first:
        lines = tuple(line for line in lines if line.kind not in CHEAPEST[:2])
    return *about_gil, *first, *lines, *(() if stage.work in BY_HAND else (measure,))


def general_advice(record: InputRecord, summary: RunSummary) -> tuple[Advice, ...]:
    """Returns advice for a pipeline whose bottleneck is unknown, by its costliest stage."""
    stages = stages_while_training(record.pipeline)
    if not stages:
        return GENERAL
    costliest = max(stages, key=lambda stage: stage.cost_per_batch_s or 0.0)
    ahead = () if _has(stages, "prefetch") else (_advise("prefetch"),)
    return *ahead, *_cheapest_first(stages, costliest, summary)


def starting_advice(
    pipeline: PipelineRecord, stage: StageRecord, summary: RunSummary, *, opens: bool
) -> tuple[tuple[Advice, ...], bool]:
    """Returns what to change if epochs start with the work of a stage, the most rewarding first.

    If the stage takes longer for its first elements than for later ones, it `opens` something. Also
    returns whether the first line saves the stage's work; if not, that is done at another time.
    """
    if opens:
        return (_advise("once", name=stage.name), advise(AHEAD)), True
    stages = pipeline.starts
    lines = _cheapest_first(stages, stage, summary)
    fills = _has(stages[: stages.index(stage)], "shuffle")
    later = (_advise("shuffle small"),) if fills else (advise(AHEAD),)
    saves = (*CHEAPEST, *ON_CACHES) if stage.repeats else CHEAPEST
    sure = tuple(line for line in lines if line.kind in saves)
    rest = (line for line in lines if line not in (*sure, *later))
    return (*sure, *later, *rest), bool(sure)


def change_for(record: InputRecord, advice: Advice) -> Change | None:
    """Returns what an advice on the bottleneck does to the user's line; None if that is unknown."""
    stage = bottleneck(record)
    if stage is None or stage.call is None or not stage.call.text or stage.kind not in _MAPS:
        return None
    line, end = stage.call.text, stage.call.end
    if advice.kind == "parallel calls":
        after = f"{line[: end - 1]}, {AUTOTUNE}{line[end - 1 :]}"
    elif advice.kind == "cache":
        after = f"{line[:end]}.cache(){line[end:]}"
    else:
        return None
    return Change(line, after, stage.call.location)


def bottleneck(record: InputRecord) -> StageRecord | None:
    """Returns the stage that is the bottleneck; None if unknown."""
    pipeline = record.pipeline
    if pipeline is None or pipeline.stages:
        return pipeline.bottleneck if pipeline else None
    stage = max(pipeline.starts, key=lambda start: start.share, default=None)
    return stage if stage is not None and stage.share >= MOST_OF_A_START else None


def _advise(kind: str, **words: object) -> Advice:
    return advise(TEXTS[kind].format(**words), kind)


def _has(stages: Stages, *kinds: str) -> bool:
    return any(stage.kind in kinds for stage in stages)


def _cheapest_first(stages: Stages, stage: StageRecord, summary: RunSummary) -> tuple[Advice, ...]:
    lines = _for_stage(stages, stage, summary.environment.cpu_count)
    cheap = [line for line in lines if line.kind in CHEAPEST]
    rest = [line for line in lines if line.kind not in CHEAPEST]
    return *cheap, *cache_advice(stages, stage, summary), *rest


def _for_waiting(stage: StageRecord) -> tuple[Advice, ...]:
    """Returns how to let a stage wait for many elements at the same time."""
    if stage.kind in _MAPS and stage.parallelism < WAITING_CALLS:
        queued = f": {stage.asked_parallelism} calls are asked for, and {stage.parallelism} run"
        queued = queued if stage.asked_parallelism else ""
        return (_advise("waiting calls", code=_code(stage), queued=queued),)
    return (_advise("waiting generator", name=stage.name),) if stage.kind == "generator" else ()


def _code(stage: StageRecord) -> str:
    return stage.name if stage.name.isidentifier() else "..."


def _for_stage(stages: Stages, stage: StageRecord, cores: int | None) -> list[Advice]:
    """Returns the advice on a kind of work, without what the pipeline already does."""
    at = stages.index(stage) if stage in stages else 0
    nearer, further = stages[:at], stages[at + 1 :]
    serial, is_map = stage.parallelism == 1, stage.kind in _MAPS
    single = _has(nearer, *_BATCHES) or stage.kind == "map and batch" or len(stages) == 1
    workers = workers_within(WORKERS, cores)
    parallel = {"parallel calls": serial and is_map}
    by_work: dict[Work, dict[str, bool]] = {
        "reading": {
            **parallel,
            "parallel files": not is_map and _reads_files_in_turn(stages),
            "fewer files": stage.files != 1,
        },
        "decoding": {
            **parallel,
            "smaller images": stage.location is None,
            "decode smaller": stage.location is not None,
        },
        "parsing": {**parallel, "parse batches": single},
        "mapping": {**parallel, "batch first": single},
        "filtering": {"filter once": True, "filter early": _has(further, *_MAPS)},
        "batching": {
            "parallel batches": serial,
            "batch earlier": _has(further, "map", "filter", "shuffle"),
        },
        "shuffling": {
            "shuffle small": _has(further, *_MAPS, *_OPENERS),
            "smaller buffer": True,
        },
        "caching": {
            "cache in memory": not _has(stages, "memory_cache_impl"),
            "cache smaller": True,
        },
        "python": {
            "calls in parallel": serial and is_map,
            "operations": True,
            "processes": workers > 1,
            "whole batches": single,
        },
    }
    kinds = by_work.get(stage.work, {})
    windows = stage.kind in _OPENERS and _has(further, "window")
    if windows or stage.name == "timeseries_dataset_from_array":
        kinds = {"windows": True}
    words = {"name": stage.name, "code": _code(stage), "workers": workers}
    return [_advise(kind, **words) for kind in kinds if kinds[kind]]


def _reads_files_in_turn(stages: Stages) -> bool:
    """Whether several files, or an unknown number of them, are read one after the other."""
    readers = [stage for stage in stages if stage.work == "reading" and stage.kind not in _MAPS]
    in_parallel = any(stage.kind in _OPENERS and stage.parallelism > 1 for stage in stages)
    return any(stage.files != 1 and stage.parallelism == 1 for stage in readers) and not in_parallel


def cache_advice(stages: Stages, stage: StageRecord, summary: RunSummary) -> tuple[Advice, ...]:
    """Returns where to cache so that a stage works only in the first epoch; () if nowhere.

    The place is before every shuffle, after the last stage that makes the same elements in each
    epoch. A stage that itself draws something at random, or is cached already, has no such place.
    The kind of the advice is "cache" if the place is right after the stage.
    """
    at = stages.index(stage) if stage in stages else 0
    nearer, further = stages[:at], [record.kind for record in stages[at + 1 :]]
    shuffled = "shuffle" in further
    if any(record.work == "caching" for record in nearer) or stage.work in ("shuffling", "caching"):
        return ()
    if stage.name in _OF_HELPER and (shuffled or stage.repeats is False):
        why = f"read the files once, not in each epoch{_size(stage, summary)}"
        text = _OF_HELPER[stage.name].format(name=stage.name, why=why)
        return (advise(text, "cache at a distance"),)
    if all(record.repeats is None for record in stages):
        return () if stage.work == "python" else (_advise("cache", name=stage.name),)
    # After a shuffle, a cache of batches would hold the same batches for all epochs.
    before = further[: further.index("shuffle")] if shuffled else []
    if shuffled and any(kind in _BATCHES[:2] for kind in (stage.kind, *before)):
        return ()
    closed = ("shuffle", *_BATCHES) if shuffled else ("shuffle",)
    ends = [n for n, record in enumerate(nearer) if record.kind in closed]
    joins = [n for n, record in enumerate(nearer) if record.kind in _JOINS]
    line = (*nearer[max(ends, default=-1) + 1 : min(joins, default=None)], stage)
    places = [record for record in line if record.repeats and record.kind in _HOLDS_ELEMENTS]
    place = next((record for record in places if not record.name.startswith(ARRAYS)), None)
    if place is None or stage.repeats is False:
        return ()
    name = place.name if place.name != place.kind else f"the {place.kind}"
    after = ", and `ds.shuffle()` after the cache" if shuffled else ""
    text = f"`ds.cache()` right after {name}{place.where}{after}: it makes the same elements in "
    kind = "cache" if place is stage else "cache at a distance"
    return (advise(f"{text}each epoch{_size(place, summary)}", kind),)


def _size(place: StageRecord, summary: RunSummary) -> str:
    free = summary.host.memory_available_min_bytes if summary.host else None
    if not place.pass_bytes:
        return ", if that fits into memory"
    size = f"about {place.pass_bytes / 1e6:,.0f} MB"
    if free is None:
        return f" ({size})"
    if place.pass_bytes <= MEMORY_SHARE * free:
        return f" ({size}; {free / 1e9:,.0f} GB of memory are free)"
    return f"; {size} are much for {free / 1e9:,.0f} GB of free memory: `cache('/fast/disk/name')`"
