"""Work of a pipeline that is thrown away, as the cause of a wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records import (
    Environment,
    Finding,
    InputRecord,
    LineTime,
    PipelineRecord,
    PipelineStartRecord,
    PythonSourceRecord,
    RunSummary,
    StackTimes,
    StageRecord,
    ThroughputRecord,
    TimeBreakdown,
)
from keras_gpukit.rules.verdict import judge

WALL_S = 100.0
BATCH = StageRecord("batch", "batch", "batching", elements=1.0, used=1.0)
SHUFFLE = StageRecord("shuffle", "shuffle", "shuffling", elements=64.0, used=1.0)
TAKE = StageRecord("take", "take", "other", elements=400.0, used=1.0)
CACHE = StageRecord("cache", "cache", "caching", elements=400.0, used=1.0)
FILTER = StageRecord("keep", "filter", "filtering", "train.py:33", elements=32.0, used=1.0)
SKIP = StageRecord("skip", "skip", "other", elements=66.0, used=1.0)
LOAD = StageRecord(
    "load", "map", "decoding", "train.py:29", 0.002, 4.0, 2, share=0.9, elements=320.0, used=1.0
)
PATHS = StageRecord("from_tensor_slices", "from_tensor_slices", "other", elements=320.0, used=1.0)


def dropped(used: float) -> StageRecord:
    return replace(LOAD, used=used)


def steps(*stages: StageRecord, starts=(), wait_s=0.09, **more) -> InputRecord:
    """The input of 900 steps that wait for the slowest stage, 90 s altogether."""
    return InputRecord(
        "fit",
        confidence="exact",
        measured_steps=1000,
        wait_s=wait_s,
        stall_fraction=0.9,
        pipeline=PipelineRecord(stages, LOAD if LOAD in stages else None, starts=starts),
        **more,
    )


def found(code: str, summary: RunSummary) -> Finding:
    [finding] = [each for each in judge(summary).findings if each.code == code]
    return finding


def run(record: InputRecord, stacks=None, **parts: float) -> RunSummary:
    times = {"input_s": 0.0, "compute_s": 0.0, "callbacks_s": 0.0, "epoch_start_s": 0.0}
    times |= {"first_step_s": 0.0, "validation_s": 0.0, "other_s": 0.0, **parts}
    breakdown = TimeBreakdown(WALL_S, **times)
    throughput = ThroughputRecord("fit", 1000, 1000, 0.1, None, WALL_S)
    environment = Environment({}, cpu_count=2)
    return RunSummary(environment, throughput, replace(record, breakdown=breakdown), stacks=stacks)


def input_bound(*stages: StageRecord, starts=()) -> Finding:
    return found("input-bound", run(steps(*stages, starts=starts), input_s=90.0, compute_s=10.0))


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
    assert finding.saving.low_s == pytest.approx(0.81 * 90.0)


@pytest.mark.parametrize(
    ("dropper", "advice"),
    [
        (SKIP, "split before load"),
        (replace(SKIP, name="shard", kind="shard"), "ds.shard(...) before load"),
        (replace(SKIP, name="unique", kind="unique"), "unique before load"),
    ],
)
def test_the_advice_fits_what_drops(dropper, advice):
    assert input_bound(BATCH, dropper, dropped(0.2), PATHS).advice[0].startswith(advice)


def test_a_stage_that_drops_little_or_costs_little_is_no_cause():
    assert "bottleneck is load" in input_bound(BATCH, FILTER, LOAD, PATHS).title
    cheap = replace(dropped(0.1), share=0.1)
    assert "makes" not in input_bound(BATCH, FILTER, cheap, PATHS).title


REFILLED = replace(CACHE, refill_share=0.95)


def test_a_cache_that_take_never_lets_fill_is_named():
    finding = input_bound(BATCH, LOAD, starts=(BATCH, TAKE, REFILLED, LOAD))
    assert finding.title.endswith(
        "load (train.py:29) fills cache() again in each epoch, since take ends the epoch before "
        "the data do"
    )
    assert "ds.take(n).cache()" in finding.advice[0]
    read = input_bound(BATCH, LOAD, starts=(BATCH, TAKE, CACHE, LOAD))
    assert "fills cache() again" not in read.title


def test_a_cache_that_validation_steps_never_let_fill_is_named():
    finding = input_bound(BATCH, LOAD, starts=(BATCH, REFILLED, LOAD))
    assert "since steps_per_epoch or validation_steps ends the epoch" in finding.title


def starting(*starts: StageRecord, stages=(), compute_s=10.0, mean_s=4.0) -> Finding:
    """A run of which 20 epochs wait for their first batch."""
    record = steps(*stages, starts=starts, wait_s=0.0001)
    start = PipelineStartRecord(20, mean_s, shuffle_s=0.9 * mean_s)
    record = replace(record, stall_fraction=0.01, pipeline_start=start)
    return found("slow-epoch-start", run(record, epoch_start_s=84.0, compute_s=compute_s))


def test_an_epoch_start_names_what_is_thrown_away():
    finding = starting(BATCH, SHUFFLE, FILTER, dropped(0.1), PATHS)
    assert finding.title.startswith("Each epoch takes 4.0 s to start: load (train.py:29) makes ")
    assert finding.saving.low_s == pytest.approx(0.81 * 80.0)


def test_a_full_shuffle_buffer_saves_only_what_steps_can_overlap():
    finding = starting(BATCH, SHUFFLE, LOAD, PATHS)
    assert finding.title == (
        "Each epoch takes 4.0 s to start: load (train.py:29) makes what fills the shuffle buffer"
    )
    assert finding.advice[0].startswith("shuffle what is small")
    assert (finding.saving.low_s, finding.saving.high_s) == (0.0, 10.0)
    assert finding.severity == "critical"


def test_elements_that_repeat_are_cached():
    finding = starting(BATCH, SHUFFLE, replace(LOAD, repeats=True), PATHS)
    assert finding.advice[0].startswith("ds.cache() right after load (train.py:29)")
    assert finding.saving.low_s == pytest.approx(0.9 * 80.0)


def test_a_stage_that_only_starts_slowly_does_it_once():
    slow = replace(LOAD, cost_s=1.0)
    finding = starting(BATCH, slow, stages=(BATCH, LOAD))
    assert finding.advice[0].startswith("do once, before fit, what load does before its first")
    assert finding.saving.low_s == pytest.approx(0.9 * 80.0)


def test_stages_that_account_for_little_of_the_start_are_not_named():
    assert "load" not in starting(BATCH, LOAD, mean_s=9.5).title


def test_a_single_long_restart_is_told_as_one():
    record = replace(
        steps(BATCH), stall_fraction=0.0, wait_s=0.0, pipeline_start=PipelineStartRecord(20, 0.01)
    )
    summary = run(record, epoch_start_s=12.0, compute_s=80.0)
    breakdown = replace(summary.input.breakdown, longest_restarts_s=(10.7, 0.1, 0.1, 0.1, 0.1))
    summary = replace(summary, input=replace(record, breakdown=breakdown))
    finding = found("slow-epoch-start", summary)
    assert finding.title == "One of 21 epoch starts took 11 s"
    assert (finding.severity, finding.saving.low_s) == ("info", 0.0)  # it may never come again


def validated(record: InputRecord, mean_s: float, **more) -> Finding:
    """A run of which 75 s are validation: 20 first batches, and 80 steps."""
    start = PipelineStartRecord(20, mean_s)
    summary = run(steps(), validation_s=75.0, compute_s=20.0, **more)
    throughput = ThroughputRecord("evaluate", 80, 80, 0.5, None)
    return found(
        "long-validation",
        replace(
            summary,
            validation=throughput,
            validation_input=replace(record, phase="evaluate", pipeline_start=start),
        ),
    )


def test_validation_that_decodes_what_it_skips_is_told_so():
    record = steps(starts=(BATCH, SKIP, replace(dropped(0.2), elements=546.0)), wait_s=0.1)
    finding = validated(record, 3.0)
    assert finding.title == (
        "Validation takes 75 % of the time, 91 % of it waiting for data: each time, load "
        "(train.py:29) makes 437 elements that skip drops"
    )
    assert finding.advice[0].startswith("split before load")
    assert finding.saving.low_s == pytest.approx(0.72 * 68.0)


def test_validation_gets_the_advice_of_its_own_pipeline():
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
    finding = found("input-bound", run(record, input_s=90.0, compute_s=10.0))
    assert any("tf.gather(x, starts[:, None]" in line for line in finding.advice)


LINES = StackTimes(
    100,
    20.0,
    (
        LineTime("train.py:24", "Photos.__getitem__", "open", "image = open(path)", 8.0, "python",
                 entry_place="train.py:20"),
        LineTime("train.py:25", "Photos.__getitem__", None, "return image", 2.0, "python",
                 entry_place="train.py:20"),
        LineTime("train.py:60", "rows", None, "yield row", 50.0, "python",
                 entry_place="train.py:58"),
    ),
)  # fmt: skip


def test_the_slowest_line_of_python_code_is_named():
    source = PythonSourceRecord("Photos.__getitem__", "train.py:20", time_per_batch_s=0.09)
    record = steps(python=source)
    finding = found("input-bound", run(record, LINES, input_s=90.0, compute_s=10.0))
    assert finding.title.endswith(
        "the bottleneck is Photos.__getitem__ (train.py:20), 80 % of it in train.py:24: "
        "image = open(path)"
    )
    elsewhere = replace(record, python=replace(source, location="other.py:20"))
    title = found("input-bound", run(elsewhere, LINES, input_s=90.0, compute_s=10.0)).title
    assert title.endswith("Photos.__getitem__ (other.py:20)")
