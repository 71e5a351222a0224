"""Which stage is the bottleneck, and what stages show of why batches come late."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, found
from helpers.summaries import breakdown, stall, throughput

from keras_gpukit import records
from keras_gpukit.records import PipelineRecord, StageRecord
from keras_gpukit.rules.input.pipeline_causes import name_bottleneck

CHEAP = StageRecord("batch", "batch", "batching", share=0.1)
SLOW = StageRecord("load", "map", "reading", share=0.9)
PIPELINE = PipelineRecord((CHEAP, SLOW, CHEAP), slowest_s=0.005)


def test_the_stage_with_the_largest_share_of_the_slowest_segment_is_the_bottleneck():
    assert name_bottleneck(PIPELINE, 0.1, 0.01).bottleneck == SLOW


@pytest.mark.parametrize(
    ("stall_fraction", "wait_s", "because"),
    [(0.099, 0.01, "9.9 % of their time"), (0.5, 0.0002, "only 0.20 ms")],
)
def test_there_is_none_where_no_rule_reports_the_wait(stall_fraction, wait_s, because):
    named = name_bottleneck(PIPELINE, stall_fraction, wait_s)
    assert named.bottleneck is None
    assert because in named.balanced_because


@pytest.mark.parametrize(
    ("pipeline", "stall_fraction", "wait_s", "because"),
    [
        (PIPELINE, 0.5, 0.0101, "accounts for 5.0 ms"),
        (PIPELINE, None, 0.01, "is unknown"),
        (PIPELINE, 0.5, None, "is unknown"),
        (replace(PIPELINE, unknown_because="not read twice"), 0.5, 0.01, "not read twice"),
    ],
)
def test_without_evidence_it_is_unknown(pipeline, stall_fraction, wait_s, because):
    named = name_bottleneck(pipeline, stall_fraction, wait_s)
    assert named.bottleneck is None
    assert named.balanced_because is None
    assert because in named.unknown_because


WALL_S = 100.0
BATCH = records.StageRecord("batch", "batch", "batching", elements=1.0, used=1.0)
SHUFFLE = records.StageRecord("shuffle", "shuffle", "shuffling", elements=64.0, used=1.0)
TAKE = records.StageRecord("take", "take", "other", elements=400.0, used=1.0)
CACHE = records.StageRecord("cache", "cache", "caching", elements=400.0, used=1.0)
FILTER = records.StageRecord("keep", "filter", "filtering", "train.py:33", elements=32.0, used=1.0)
SKIP = records.StageRecord("skip", "skip", "other", elements=66.0, used=1.0)
LOAD = records.StageRecord(
    "load", "map", "decoding", "train.py:29", 0.002, 4.0, 2, share=0.9, elements=320.0, used=1.0
)
PATHS = records.StageRecord("from_tensor_slices", "tensors", "other", elements=320.0, used=1.0)


def dropped(used: float) -> records.StageRecord:
    return replace(LOAD, used=used)


def steps(*stages: records.StageRecord, starts=(), wait_s=0.09, **more) -> records.InputRecord:
    """The input of 900 steps that wait for the slowest stage, 90 s altogether."""
    pipeline = records.PipelineRecord(stages, LOAD if LOAD in stages else None, starts=starts)
    return stall(0.9, wait_s=wait_s, pipeline=pipeline, **more)


def run(record: records.InputRecord, stacks=None, **parts: float) -> records.RunSummary:
    record = replace(record, breakdown=breakdown(WALL_S, **{"compute_s": 0.0, **parts}))
    speed = throughput(0.1, wall_s=WALL_S)
    return records.RunSummary(records.Environment({}, cpu_count=2), speed, record, stacks=stacks)


def waits(record: records.InputRecord, stacks=None) -> records.Finding:
    return found("input-bound", run(record, stacks, input_s=90.0, compute_s=10.0))


def input_bound(*stages: records.StageRecord, starts=()) -> records.Finding:
    return waits(steps(*stages, starts=starts))


def test_a_stage_whose_elements_are_dropped_is_named_with_what_drops_them():
    finding = input_bound(BATCH, FILTER, dropped(0.1), PATHS)
    assert finding.title == (
        "90 % of the time is spent waiting for data: load (train.py:29) makes 10 elements "
        "for each one that is used, since keep (train.py:33) drops the rest"
    )
    assert finding.advice[0].startswith("filter before load")
    evidence = {each.key: each.value for each in finding.evidence}
    assert (evidence["elements_made_by"], evidence["of_them_used"]) == (320, 32)
    # Nine tenths of the slowest segment's time, of which nine tenths are saved.
    assert bounds(finding)[0] == pytest.approx(0.81 * 90.0)
    # A stage that drops little or costs little is no cause.
    assert "bottleneck is load" in input_bound(BATCH, FILTER, LOAD, PATHS).title
    cheap = replace(dropped(0.1), share=0.1)
    assert "makes" not in input_bound(BATCH, FILTER, cheap, PATHS).title
    # The advice fits what drops.
    for kind, advice in (("skip", "split"), ("shard", "ds.shard(...)"), ("unique", "unique")):
        dropper = replace(SKIP, name=kind, kind=kind)
        first = input_bound(BATCH, dropper, dropped(0.2), PATHS).advice[0]
        assert first.startswith(f"{advice} before load")


def test_a_long_chain_of_concatenate_is_named_where_it_takes_the_time():
    chain = records.StageRecord("concatenate", "concatenate", "other", share=0.8, joined=280)
    finding = input_bound(BATCH, chain, PATHS)
    assert finding.title.endswith(
        ": each element passes through up to 279 concatenate calls in a row"
    )
    assert "np.concatenate(parts)" in finding.advice[0]
    assert bounds(finding)[0] == pytest.approx(0.8 * 90.0)
    for other in (replace(chain, joined=15), replace(chain, share=0.29)):
        assert "in a row" not in input_bound(BATCH, other, PATHS).title


def test_of_epochs_that_are_all_start_the_stages_are_those_of_their_start():
    finding = input_bound(starts=(BATCH, FILTER, dropped(0.1), PATHS))
    assert "load (train.py:29) makes 10 elements for each one that is used" in finding.title
    named = input_bound(starts=(BATCH, LOAD, PATHS))
    assert named.title.endswith("the bottleneck is load (train.py:29)")
    assert "load makes" not in " ".join(each.sentence for each in named.evidence)
    assert "wait_per_step" in {each.key for each in named.evidence}  # ahead, more than one batch
    assert "use every core" not in named.advice[0]  # it has the parallel calls of `load`
    even = input_bound(starts=(BATCH, replace(LOAD, share=0.4), PATHS))
    assert even.title.endswith("waiting for data")


REFILLED = replace(CACHE, refill_share=0.95)


def test_a_cache_that_an_epoch_never_lets_fill_is_named():
    finding = input_bound(BATCH, LOAD, starts=(BATCH, TAKE, REFILLED, LOAD))
    assert finding.title.endswith(
        "load (train.py:29) fills cache() again in each epoch, since take ends the epoch before "
        "the data do"
    )
    assert "ds.take(n).cache()" in finding.advice[0]
    read = input_bound(BATCH, LOAD, starts=(BATCH, TAKE, CACHE, LOAD))
    assert "fills cache() again" not in read.title
    of_steps = input_bound(BATCH, LOAD, starts=(BATCH, REFILLED, LOAD))
    assert "since steps_per_epoch or validation_steps ends the epoch" in of_steps.title


def starting(*starts: records.StageRecord, stages=(), mean_s=4.0) -> records.Finding:
    """A run of which 20 epochs wait for their first batch."""
    start = records.PipelineStartRecord(20, mean_s, shuffle_s=0.9 * mean_s)
    record = steps(*stages, starts=starts, wait_s=0.0001, pipeline_start=start)
    record = replace(record, stall_fraction=0.01)
    return found("slow-epoch-start", run(record, epoch_start_s=84.0, compute_s=10.0))


def test_an_epoch_start_names_what_is_thrown_away():
    finding = starting(BATCH, SHUFFLE, FILTER, dropped(0.1), PATHS)
    assert finding.title.startswith("Each epoch takes 4.0 s to start: load (train.py:29) makes ")
    assert bounds(finding)[0] == pytest.approx(0.81 * 80.0)
    # Stages that account for little of the start are not named.
    assert "load" not in starting(BATCH, LOAD, mean_s=9.5).title


def test_a_full_shuffle_buffer_saves_only_what_steps_can_overlap():
    finding = starting(BATCH, SHUFFLE, LOAD, PATHS)
    assert finding.title == (
        "Each epoch takes 4.0 s to start: load (train.py:29) makes what fills the shuffle buffer"
    )
    assert finding.advice[0].startswith("shuffle what is small")
    assert (finding.severity, *bounds(finding)) == ("critical", 0.0, 10.0)


def test_elements_that_repeat_are_cached_and_a_slow_start_of_a_stage_is_made_once():
    repeats = starting(BATCH, SHUFFLE, replace(LOAD, repeats=True), PATHS)
    assert repeats.advice[0].startswith("ds.cache() right after load (train.py:29)")
    slow = starting(BATCH, replace(LOAD, cost_s=1.0), stages=(BATCH, LOAD))
    assert slow.advice[0].startswith("do once, before fit, what load does before its first")
    for finding in (repeats, slow):
        assert bounds(finding)[0] == pytest.approx(0.9 * 80.0)


def test_a_single_long_restart_is_told_as_one():
    record = steps(BATCH, wait_s=0.0, pipeline_start=records.PipelineStartRecord(20, 0.01))
    record = replace(record, stall_fraction=0.0)
    longest = {"longest_restarts_s": (10.7, 0.1, 0.1, 0.1, 0.1)}
    summary = run(record, epoch_start_s=12.0, compute_s=80.0)
    known = replace(summary.input, breakdown=replace(summary.breakdown, **longest))
    finding = found("slow-epoch-start", replace(summary, input=known))
    assert finding.title == "One of 21 epoch starts took 11 s"
    assert (finding.severity, bounds(finding)[0]) == ("info", 0.0)  # it may never come again


def validated(record: records.InputRecord, mean_s: float) -> records.Finding:
    """A run of which 75 s are validation: 20 first batches, and 80 steps."""
    known = {"phase": "evaluate", "pipeline_start": records.PipelineStartRecord(20, mean_s)}
    parts = {"validation_input": replace(record, **known)}
    parts["validation"] = records.ThroughputRecord("evaluate", 80, 80, 0.5, None)
    summary = run(steps(), validation_s=75.0, compute_s=20.0)
    return found("long-validation", replace(summary, **parts))


def test_validation_that_decodes_what_it_skips_is_told_so():
    record = steps(starts=(BATCH, SKIP, replace(dropped(0.2), elements=546.0)), wait_s=0.1)
    finding = validated(record, 3.0)
    assert finding.title == (
        "Validation takes 75 % of the time, 91 % of it waiting for data: each time, load "
        "(train.py:29) makes 437 elements that skip drops"
    )
    assert finding.advice[0].startswith("split before load")
    assert bounds(finding)[0] == pytest.approx(0.72 * 68.0)
    # It gets the advice of its own pipeline.
    finding = validated(steps(BATCH, LOAD, PATHS, wait_s=0.8), 0.1)
    assert finding.title.endswith("the bottleneck is load (train.py:29)")
    assert not any("parallel" in line or "prefetch" in line for line in finding.advice)


@pytest.mark.parametrize(
    "stages",
    [
        (replace(LOAD, kind="flat_map", work="other"), replace(SKIP, name="window", kind="window")),
        (replace(LOAD, name="timeseries_dataset_from_array", work="mapping"), PATHS),
    ],
)
def test_a_dataset_for_each_window_is_advised_to_cut_windows_by_index(stages):
    record = steps(*stages)
    record = replace(record, pipeline=replace(record.pipeline, bottleneck=stages[0]))
    assert any("tf.gather(x, starts[:, None]" in line for line in waits(record).advice)


OPENS = records.LineTime(
    *("train.py:24", "Photos.__getitem__", "open", "image = open(path)", 8.0, "python"),
    entry_place="train.py:20",
)
RETURNS = replace(OPENS, place="train.py:25", called=None, source="return image", seconds=2.0)
YIELDS = replace(RETURNS, place="train.py:60", function="rows", seconds=50, entry_place="a.py:58")


def test_the_slowest_line_of_python_code_is_named():
    source = records.PythonSourceRecord("Photos.__getitem__", "train.py:20", time_per_batch_s=0.09)
    record, stacks = steps(python=source), records.StackTimes(100, 20.0, (OPENS, RETURNS, YIELDS))
    assert waits(record, stacks).title.endswith(
        "the bottleneck is Photos.__getitem__ (train.py:20), 80 % of it in train.py:24: "
        "image = open(path)"
    )
    draws = replace(OPENS, source="book = np.random.choice(self.books)")
    by_line = waits(record, records.StackTimes(100, 20.0, (draws, RETURNS, YIELDS)))
    assert "with size=" in by_line.advice[0]
    assert "with size=" not in waits(record, stacks).advice[0]
    elsewhere = replace(record, python=replace(source, location="other.py:20"))
    assert waits(elsewhere, stacks).title.endswith("Photos.__getitem__ (other.py:20)")
