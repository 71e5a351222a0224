"""What threads wait for, and what to change in a pipeline, the cheapest change first."""

import pytest
from helpers.findings import found as finding
from helpers.summaries import stall

from keras_gpukit.records import (
    CallLine,
    ContentionRecord,
    Environment,
    HostUtilization,
    InputRecord,
    PipelineRecord,
    PythonSourceRecord,
    Rate,
    RunSummary,
    StageRecord,
    UtilizationRecord,
)
from keras_gpukit.rules.input.contention import contention, gil_is_contended, input_holds_gil


@pytest.mark.parametrize(
    ("gil_wait_s", "cores_busy_fraction", "expected"),
    [
        (0.00024, 0.69, None),
        (0.00025, 0.69, "interpreter lock"),
        (0.00024, 0.70, "all cores busy"),
        (0.00025, 0.70, "interpreter lock"),
        (None, 0.70, "all cores busy"),
        (0.00025, None, "interpreter lock"),
        (None, None, None),
    ],
)
def test_each_resource_has_one_threshold(gil_wait_s, cores_busy_fraction, expected):
    load = {"gil_wait_s": gil_wait_s, "cores_busy_fraction": cores_busy_fraction}
    assert contention(Rate(0.5, 0.4, 0.6, "share"), 0.5, **load).cause == expected


@pytest.mark.parametrize(
    ("median", "low", "found"), [(0.1, 0.01, True), (0.09, 0.01, False), (0.5, 0.0, False)]
)
def test_a_shortfall_counts_if_it_is_real_and_large(median, low, found):
    rate = Rate(median, low, 0.6, "share")
    judged = contention(rate, 1.0, cores_busy_fraction=None, gil_wait_s=None)
    assert (judged is not None) is found


@pytest.mark.parametrize(
    ("wait_s", "busy", "cores", "contended"),
    [
        (0.0006, 0.6, 2, True),
        (0.0006, 0.2, 2, False),  # a process that hardly computes waits for a core
        (0.0006, 0.2, None, True),
        (0.0001, 0.6, 2, False),
        (None, 0.6, 2, False),
    ],
)
def test_the_gil_is_contended_only_by_a_process_that_computes(wait_s, busy, cores, contended):
    assert gil_is_contended(ContentionRecord(wait_s, busy), cores) == contended


@pytest.mark.parametrize(
    ("input_cores", "kinds", "holds"),
    [
        (0.05, ("prefetch", "map"), False),  # of two fits at once, the other one holds it
        (0.30, ("prefetch", "map"), True),
        (None, ("prefetch", "map"), True),
        (0.05, ("map",), True),  # threads of the steps make the batches
    ],
)
def test_threads_that_hardly_compute_do_not_hold_the_gil(input_cores, kinds, holds):
    stages = tuple(StageRecord(kind, kind, "other") for kind in kinds)
    fraction = None if input_cores is None else input_cores / 2
    record = InputRecord(
        "fit",
        pipeline=PipelineRecord(stages, stages[-1]),
        contention=ContentionRecord(0.0006, 0.6, fraction),
    )
    assert input_holds_gil(record, 2) == holds


CORES, STEP_S = 2, 0.1
MAP = StageRecord("load", "map", "mapping", "train.py:12", 0.01, 0.08, repeats=True, share=0.9)
BATCH = StageRecord("batch", "batch", "batching", None, 0.001, 0.001, repeats=True)
SHUFFLE = StageRecord("shuffle", "shuffle", "shuffling", None, 0.0, 0.0, repeats=True)
FILES = StageRecord("from_tensor_slices", "from_tensor_slices", "other", repeats=True)
PREFETCH = StageRecord("prefetch", "prefetch", "other", repeats=True)
CACHE = StageRecord("cache", "cache", "caching", repeats=True)
IN_MEMORY = StageRecord("memory_cache_impl", "memory_cache_impl", "caching")


def changed(stage, **more):
    return StageRecord(**{**vars(stage), **more})


def input_bound(*stages, slowest=None, busy=0.6, gil_wait_s=0.0, python=None, **more):
    """What is advised for stages, from training back, of which a step waits for the slowest."""
    own, free = 100 * busy, 64 * 10**9
    total = own + more.pop("others_percent", 0.0)
    known = (gil_wait_s, busy, more.pop("by_input", None), more.pop("queued", None))
    pipeline = PipelineRecord(stages, slowest) if stages else None
    waits = {"wait_s": 0.9 * STEP_S, "pipeline": pipeline, "python": python}
    host = HostUtilization(total, own, memory_available_min_bytes=free)
    parts = {"utilization": UtilizationRecord(50, host=host)}
    parts["input"] = stall(0.9, contention=ContentionRecord(*known), **waits)
    return finding("input-bound", RunSummary(Environment({}, cpu_count=CORES), **parts))


def advice(*stages, **more):
    return input_bound(*stages, **more).advice


def of_slowest(slowest, *further, nearer=(), **more):
    return advice(*nearer, slowest, *further, slowest=slowest, **more)


@pytest.mark.parametrize(
    ("more", "after"),
    [
        ({}, "ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(8)"),
        ({"parallelism": 2}, "ds = ds.map(load).cache().batch(8)"),
    ],
)
def test_the_first_advice_is_shown_on_the_users_own_line(more, after):
    slow = changed(MAP, call=CallLine("ds = ds.map(load).batch(8)", 17, "train.py:20"), **more)
    change = input_bound(slow, FILES, slowest=slow).change
    assert slow.where == " (train.py:20)"  # the line that changes comes first
    assert slow.defined == "load is defined at train.py:12"
    assert (change.after, change.location) == (after, "train.py:20")
    unknown = changed(slow, call=None)
    assert input_bound(unknown, FILES, slowest=unknown).change is None


# A pipeline that already does what a line advises, and words of that line.
FOLLOWED = [
    ((changed(MAP, parallelism=2), FILES), "num_parallel_calls"),
    ((changed(MAP, kind="map and batch", parallelism=8), FILES), "num_parallel_calls"),
    ((changed(MAP, work="decoding", parallelism=2), FILES), "num_parallel_calls"),
    ((changed(MAP, work="parsing", parallelism=2), FILES), "num_parallel_calls"),
    ((changed(MAP, work="reading", parallelism=2), FILES), "num_parallel_calls"),
    ((changed(BATCH, parallelism=2), FILES), "num_parallel_calls"),
    ((changed(BATCH), FILES), "batch earlier"),
    ((MAP, BATCH, FILES), "ds.batch(n) before"),  # its function gets whole batches
    ((changed(MAP, work="parsing"), BATCH, FILES), "ds.batch(n) before"),
    ((changed(MAP, work="python"), BATCH, FILES), "whole batches"),
    ((changed(SHUFFLE), FILES), "shuffle what is small"),  # it shuffles names
    ((changed(CACHE), IN_MEMORY, MAP), "cache in memory"),
    ((changed(MAP, work="filtering", kind="filter"), FILES), "filter early"),
    ((StageRecord("CsvDataset", "CsvDataset", "reading", files=1),), "several files"),
    ((StageRecord("CsvDataset", "CsvDataset", "reading", files=1),), "fewer and larger files"),
    ((changed(MAP, work="reading"), FILES), "several files"),  # one file at each call
]


@pytest.mark.parametrize(("stages", "words"), FOLLOWED)
def test_no_advice_that_the_bottleneck_already_follows(stages, words):
    lines = of_slowest(*stages, nearer=(PREFETCH,))
    assert not any(words in line for line in lines)


def test_where_no_bottleneck_is_known_advice_is_for_the_costliest_stage():
    assert "interleave" in " ".join(advice())  # nothing is known of it
    first, second, third, *_ = advice(BATCH, MAP, FILES)
    assert "prefetch" in first
    assert "give load num_parallel_calls" in second
    assert third.startswith("ds.cache() right after the batch")
    assert not any("prefetch" in line for line in advice(PREFETCH, BATCH, MAP))
    # Reading several files one after the other is advised against.
    reader = StageRecord("TFRecordDataset", "TFRecordDataset", "reading", files=8)
    assert "read several files in parallel" in of_slowest(reader, FILES)[0]
    opener = StageRecord("interleave", "interleave", "other", parallelism=4)
    lines = of_slowest(reader, FILES, nearer=(opener,))
    assert not any("several files" in line for line in lines)


class TestWaiting:
    def test_a_stage_that_waits_gets_parallel_calls_before_a_rewrite(self):
        first, *rest = of_slowest(changed(MAP, work="python"), busy=0.1)
        assert "ds.map(load, num_parallel_calls=16, use_unbounded_threadpool=True)" in first
        assert "waits" in first
        assert any("TensorFlow operations" in line for line in rest)
        # Calls that the thread pool queues are said to be.
        asked = changed(MAP, work="python", parallelism=2, asked_parallelism=16)
        assert "16 calls are asked for, and 2 run" in of_slowest(asked, busy=0.1)[0]
        enough = of_slowest(changed(MAP, work="python", parallelism=16), busy=0.1)
        assert not any("num_parallel_calls" in line for line in enough)

    @pytest.mark.parametrize(
        "evidence",
        [{"busy": 0.6}, {"busy": 0.3, "gil_wait_s": 0.001}, {"busy": 0.1, "others_percent": 80.0}],
        ids=["it computes", "it waits for the GIL", "it waits for a core"],
    )
    def test_what_may_compute_is_rewritten(self, evidence):
        slow = changed(MAP, work="python", cost_per_batch_s=0.2, parallelism=2)
        assert "use_unbounded_threadpool" in of_slowest(slow, busy=0.3)[0]
        lines = of_slowest(slow, **evidence)
        assert not any("use_unbounded_threadpool" in line for line in lines)

    @pytest.mark.parametrize(
        ("nearer", "evidence", "waits"),
        [
            ((), {"busy": 0.1, "queued": 0.5, "others_percent": 85.0}, True),
            ((), {"busy": 0.1, "queued": 4.0, "others_percent": 85.0}, False),
            ((PREFETCH,), {"busy": 0.9, "by_input": 0.02, "queued": 1.0}, True),
            ((), {"busy": 0.9, "by_input": 0.02, "queued": 1.0}, False),
        ],
        ids=["on busy cores", "for a core", "as the steps compute", "in a thread of the steps"],
    )
    def test_waiting_is_about_the_threads_that_make_batches(self, nearer, evidence, waits):
        slow = changed(MAP, work="python", cost_per_batch_s=0.08)
        found = input_bound(*nearer, slow, slowest=slow, **evidence)
        assert ("it mostly waits" in found.advice[0]) == waits
        assert "num_parallel_calls=16" in found.advice[0]  # cheap either way
        fills = "others_percent" in evidence
        assert (found.saving.low_s > 0) == (waits or not fills)

    def test_a_generator_and_a_py_dataset_that_wait(self):
        generator = StageRecord("rows", "generator", "python", None, 0.01, 0.08)
        assert "yield only names or indices from rows" in of_slowest(generator, busy=0.1)[0]
        source = PythonSourceRecord("Photos.__getitem__", busy_workers=0.9, time_per_batch_s=0.09)
        first, *_ = advice(python=source, busy=0.1)
        assert first.startswith("Photos(workers=16, max_queue_size=32)")
        # Of other processes the processor time is unknown.
        others = PythonSourceRecord("Photos.__getitem__", workers=4, in_processes=True)
        lines = advice(generator, slowest=generator, python=others, busy=0.1)
        assert not any("waits" in line for line in lines)


class TestCache:
    def test_it_is_after_the_last_stage_that_is_always_the_same(self):
        encode = StageRecord("encode", "map", "mapping", "t.py:9", repeats=True, pass_bytes=12e6)
        reader = StageRecord("make_csv_dataset", "CsvDataset", "reading", None, 0.1, 0.1, files=1)
        opener = StageRecord("make_csv_dataset", "interleave", "other", repeats=True)
        lines = advice(PREFETCH, encode, BATCH, opener, reader, slowest=reader)
        assert lines[0].startswith("ds.cache() right after encode (t.py:9): it makes the same")
        assert "12 MB; 64 GB of memory are free" in lines[0]
        augment = changed(encode, name="augment", repeats=False)
        assert "right after the batch" in advice(augment, BATCH, reader, slowest=reader)[0]

    def test_it_is_before_a_shuffle_and_within_no_other_branch(self):
        [line] = [each for each in of_slowest(MAP, SHUFFLE, nearer=(BATCH,)) if "cache" in each]
        assert "right after load (train.py:12), and ds.shuffle() after the cache" in line
        [line] = [each for each in of_slowest(MAP, nearer=(BATCH, SHUFFLE)) if "cache" in each]
        assert line.startswith("ds.cache() right after load (train.py:12): ")
        joined = StageRecord("zip", "zip", "other", repeats=True)
        label = changed(MAP, name="label")
        [line] = [each for each in of_slowest(MAP, nearer=(joined, label)) if "cache" in each]
        assert "right after load" in line

    @pytest.mark.parametrize(
        ("stages", "nearer"),
        [
            ((changed(MAP, repeats=False),), ()),
            ((MAP,), (CACHE,)),
            ((MAP,), (BATCH, CACHE, PREFETCH)),
            ((MAP, BATCH, SHUFFLE), ()),
        ],
        ids=["it is random", "it is cached", "it is cached in batches", "batches are shuffled"],
    )
    def test_none_where_it_would_not_be_the_same_or_exists(self, stages, nearer):
        assert not any("cache()" in line for line in of_slowest(*stages, nearer=nearer))

    def test_a_helper_that_shuffles_is_told_to_do_so_after_the_cache(self):
        load = changed(MAP, name="image_dataset_from_directory", location=None)
        line = of_slowest(load, SHUFFLE, FILES)[1]
        assert "image_dataset_from_directory(..., batch_size=None, shuffle=False).cache()" in line

    def test_one_that_does_not_fit_is_written_to_a_disk(self):
        huge = changed(MAP, pass_bytes=60 * 10**9)
        assert any("cache('/fast/disk/name')" in line for line in of_slowest(huge))
