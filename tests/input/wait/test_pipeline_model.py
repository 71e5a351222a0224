"""The input wait from tf.data's model, to the microsecond, on pipelines whose time is scripted."""

import contextlib
import gc
import itertools
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.clocked_steps import clocked_steps
from helpers.scripted_pipeline import ScriptedPipeline, Stage, calibrated_hidden_wait, read_scripted

from keras_gpukit.input.wait import meters
from keras_gpukit.input.wait.meters import (
    CallWindow,
    FetchLatencyMeter,
    NotMeasurable,
    RequestMeter,
)
from keras_gpukit.input.wait.pipeline_model import PipelineModelMeter

pytestmark = pytest.mark.tensorflow
MICROSECOND = 1e-6


@pytest.fixture(autouse=True)
def _scripted(monkeypatch):
    read_scripted(monkeypatch)


def meter_of(pipeline, steps=1, hidden=None):
    return PipelineModelMeter(pipeline, steps, on_reading=lambda reading: None, hidden=hidden)


def run(
    pipeline, *epochs, choose=None, source=None, after_step=lambda number: None, of=1, hides=False
):
    """Runs one step for each (wait, compute) of each epoch; returns the windows and the record.

    An execution is `of` so many steps, whose fetches may hide behind its computation.
    """
    windows = []
    timed = clocked_steps(
        choose or (lambda each: meter_of(each, of)),
        windows.append,
        now=pipeline.now,
        steps_per_execution=of,
    )
    steps = iter(())

    def execute(source):
        found = list(itertools.islice(steps, of))
        if not found:
            pipeline.ends()
        pipeline.execution(found, of=of, hides=hides)

    call, source = timed.clock.wrap(execute), source or pipeline
    for epoch in epochs:
        steps = iter(epoch)
        for number in range(-(-len(epoch) // of)):
            call(source)
            after_step(number)
        with contextlib.suppress(StopIteration):
            call(source)
        timed.windows.end_epoch()
        timed.clock.pause()
    timed.clock.end()
    return windows, timed.windows.input()


def total(windows, figure="input_wait_s"):
    return sum(getattr(each, figure) for each in windows)


def test_each_wait_counts_and_nothing_else():
    waits = [0.001 * (1 + each % 7) for each in range(40)]
    windows, record = run(ScriptedPipeline(), [(each, 0.004) for each in waits])
    # Neither the first call, which starts the pipeline, nor the last one, which no call ends. The
    # fetch that finds no data adds a gap, and no element.
    counted_s = sum(waits[1:-1])
    assert total(windows) == pytest.approx(counted_s, abs=MICROSECOND)
    assert total(windows, "duration_s") == pytest.approx(counted_s + 38 * 0.004)
    assert total(windows, "steps") == record.measured_steps == 38
    assert record.wait_s == pytest.approx(counted_s / 38, abs=MICROSECOND)
    assert record.stall_fraction == pytest.approx(counted_s / (counted_s + 38 * 0.004), abs=1e-5)
    assert (record.confidence, record.mechanism) == ("exact", "pipeline model")
    assert record.distribution.worst_s == pytest.approx(0.007, abs=MICROSECOND)


def test_a_single_wait_is_that_of_its_own_step_and_the_others_wait_for_nothing():
    steps = [(0.0, 0.010 + 0.002 * (each % 5)) for each in range(30)]
    steps[12] = (0.5, 0.010)
    windows, record = run(ScriptedPipeline(), steps)
    assert total(windows) == pytest.approx(0.5, abs=MICROSECOND)
    assert record.wait_s * record.measured_steps == pytest.approx(0.5, abs=MICROSECOND)
    assert record.distribution.worst_s == pytest.approx(0.5, abs=MICROSECOND)
    assert record.distribution.stalled_fraction == pytest.approx(1 / record.measured_steps)


def test_windows_have_the_waits_of_their_own_steps():
    """A shift of the gaps by one step would move waits from window to window."""
    steps = [(0.001 * (each % 11), 0.04 + 0.003 * (each % 7)) for each in range(90)]
    windows, _ = run(ScriptedPipeline(), steps)
    assert len(windows) >= 4
    # A window counts the step on which it begins, and ends with the step before the latest.
    ends = [1, *(each.step - 1 for each in windows)]
    for (first, last), window in zip(pairwise(ends), windows, strict=True):
        expected_s = sum(wait_s for wait_s, _ in steps[first:last])
        assert window.steps == last - first
        assert window.input_wait_s == pytest.approx(expected_s, abs=MICROSECOND)


def test_time_of_the_callbacks_between_calls_is_no_wait():
    pipeline = ScriptedPipeline()

    def callback(number):
        pipeline.now_s += 0.03

    windows, _ = run(pipeline, [(0.002, 0.004)] * 30, after_step=callback)
    assert total(windows) == pytest.approx(28 * 0.002, abs=MICROSECOND)
    assert total(windows, "duration_s") == pytest.approx(28 * 0.036)
    assert total(windows, "between_s") == pytest.approx(28 * 0.03)


def test_more_steps_than_tf_data_keeps_gaps_are_read_in_time_but_for_those_of_one_execution():
    windows, record = run(ScriptedPipeline(), [(0.0002, 0.0003)] * 1000)
    assert record.measured_steps == 998
    assert total(windows) == pytest.approx(998 * 0.0002, abs=2 * MICROSECOND)
    with pytest.raises(NotMeasurable, match="more than 100 steps"):
        PipelineModelMeter(ScriptedPipeline(), 101)


def test_each_epoch_starts_with_a_wait_of_its_own():
    pipeline = ScriptedPipeline()
    epoch = [(0.3, 0.01), *[(0.001, 0.01)] * 20]
    second = [(0.3, 0.01), *[(0.004, 0.01)] * 20]
    windows, record = run(pipeline, epoch, second, epoch)
    # The same iterator goes on: only the first call over it is a start.
    assert total(windows) == pytest.approx(19 * 0.006, abs=MICROSECOND)
    assert record.later_stall_fraction == pytest.approx(5 / 25, abs=1e-4)


def test_a_slow_callback_on_the_last_batch_hides_no_wait():
    pipeline, epoch = ScriptedPipeline(), [(0.002, 0.004)] * 20

    def callback(number):
        pipeline.now_s += 0.5 * (number == 19)

    windows, record = run(pipeline, epoch, epoch, after_step=callback)
    assert total(windows) == pytest.approx(2 * 18 * 0.002, abs=MICROSECOND)
    assert record.stall_fraction == pytest.approx(1 / 3, abs=1e-4)


def test_a_call_of_ten_seconds_hides_whether_its_gap_was_dropped_and_a_wait_does_not():
    steps = [(0.01, 0.1)] * 30
    steps[20] = (0.0, 11.0)
    windows, record = run(ScriptedPipeline(), steps)
    assert None in {each.input_wait_s for each in windows}
    assert record.measured_steps < 28
    assert record.stall_fraction == pytest.approx(0.01 / 0.11, abs=1e-4)
    steps = [(0.0, 0.1)] * 30
    steps[20] = (12.0, 0.1)
    windows, _ = run(ScriptedPipeline(), steps)
    assert total(windows) == pytest.approx(12.0, abs=MICROSECOND)  # all gaps are there


def test_other_code_that_fetches_from_the_iterator_makes_the_wait_unknown():
    pipeline = ScriptedPipeline()

    def other_code(number):
        if number in (8, 9, 10):
            pipeline.fetch(0.001)

    windows, record = run(pipeline, [(0.002, 0.004)] * 30, after_step=other_code)
    assert None in {each.input_wait_s for each in windows}
    assert record.unknown_because == "other code fetched batches from the same iterator"


def test_a_pipeline_that_was_deleted_has_an_unknown_wait():
    pipeline = ScriptedPipeline()
    meter = meter_of(pipeline)
    del pipeline
    gc.collect()
    window = CallWindow(np.array([0.0, 1.0]), np.array([1.0]), 2.0)
    reading = meter.wait_of([meter.take()], window)
    assert reading.wait_s is None
    assert reading.unknown_because == "the pipeline was deleted before its model was read"


@pytest.mark.parametrize("of", [8, 40, 100])
def test_steps_of_an_execution_have_their_waits_together(of):
    """Where nothing hides, as in eager steps."""
    steps = [(0.001 * (1 + each % 7), 0.004 + 0.001 * (each % 5)) for each in range(20 * of)]
    windows, record = run(ScriptedPipeline(), steps, of=of)
    waits_s = [wait_s for wait_s, _ in steps[of:-of]]
    assert total(windows, "steps") == record.measured_steps == len(waits_s)
    assert windows[-1].step == len(steps)
    assert total(windows) == pytest.approx(sum(waits_s), abs=20 * MICROSECOND)
    of_each = [sum(waits_s[at : at + of]) / of for at in range(0, len(waits_s), of)]
    assert record.distribution.worst_s == pytest.approx(max(of_each), abs=MICROSECOND)


def test_the_end_of_the_data_within_an_execution_shifts_no_wait():
    steps = [(0.001 * (1 + each % 7), 0.004 + 0.001 * (each % 5)) for each in range(8 * 12 + 3)]
    windows, _ = run(ScriptedPipeline(), steps, steps, of=8)
    # The last execution counts for none of its steps, and ends the one before.
    counted_s = sum(wait_s for wait_s, _ in steps[8 : 8 * 12])
    assert total(windows, "steps") == 2 * 8 * 11
    assert total(windows) == pytest.approx(2 * counted_s, abs=2 * MICROSECOND)


def test_the_start_of_executions_is_the_wait_for_all_of_the_first_one():
    pipeline = ScriptedPipeline()
    first = started(pipeline, meter_of(pipeline, 3), [(0.03, 0.2), (0.05, 0.3)])
    assert first.wait_s == pytest.approx(0.48, abs=MICROSECOND)


@pytest.mark.parametrize(
    ("fetch_s", "waited_s"),
    # Eight steps of 4 ms: of slow fetches, all that takes longer; of quick ones, the first.
    [(0.012, 8 * 0.012 + 0.004 - 8 * 0.004), (0.001, 0.001)],
)
def test_fetching_that_hides_behind_the_steps_of_an_execution_is_no_wait(
    monkeypatch, fetch_s, waited_s
):
    hidden, pipeline = calibrated_hidden_wait(monkeypatch, 8), ScriptedPipeline()

    def callback(number):
        pipeline.now_s += 0.005

    windows, record = run(
        pipeline,
        [(fetch_s, 0.004)] * 400,
        after_step=callback,
        choose=lambda each: meter_of(each, 8, hidden),
        of=8,
        hides=True,
    )
    assert record.confidence == "sampled"
    assert record.measured_steps == 48 * 8
    assert total(windows) == pytest.approx(48 * waited_s, abs=48 * MICROSECOND)
    assert record.most_stall_fraction == pytest.approx(record.stall_fraction)


def test_two_executions_do_not_show_how_long_a_step_computes(monkeypatch):
    hidden = calibrated_hidden_wait(monkeypatch, 8)
    _, record = run(
        ScriptedPipeline(),
        [(0.012, 0.004)] * 32,
        choose=lambda each: meter_of(each, 8, hidden),
        of=8,
        hides=True,
    )
    assert record.stall_fraction is None
    assert record.unknown_because == "fewer than 3 executions show how long a step computes"


class OfReplicas:
    """Stands in for the iterator of a mirrored strategy."""

    def __init__(self, *replicas):
        host = SimpleNamespace(_device_iterators=replicas)
        self._iterators = [SimpleNamespace(_iterator=host)]


def test_of_several_replicas_the_first_one_s_pipeline_is_read():
    first, other = ScriptedPipeline(), ScriptedPipeline()
    other.execution([(0.3, 0.1)] * 5)
    windows, _ = run(first, [(0.002, 0.004)] * 30, source=OfReplicas(first, other))
    assert total(windows) == pytest.approx(28 * 0.002, abs=MICROSECOND)


def test_fetches_that_tf_data_adds_up_are_the_wait_as_far_as_they_are_in_the_stretch():
    """As of a `PyDataset` of several workers, whose autotuning Keras turns off."""
    pipeline = ScriptedPipeline()
    meter = FetchLatencyMeter(lambda: pipeline.fetching_s, overlaps=False)
    windows, record = run(pipeline, [(0.003, 0.009)] * 200, choose=lambda each: meter)
    assert record.measured_steps == 198
    assert total(windows) == pytest.approx(198 * 0.003, abs=MICROSECOND)
    assert record.stall_fraction == pytest.approx(0.25)
    assert record.confidence == "exact"
    meter = FetchLatencyMeter(lambda: 0.0, overlaps=False)
    meter.start(1.0, CallWindow(np.array([0.0, 1.0]), np.array([1.0]), 2.0))
    # A second of fetches from 2 to 7 s, in a window from 1 to 5 s.
    window = CallWindow(np.array([1.0, 5.0]), np.array([2.0]), 7.0)
    assert meter.wait_of([2.0], window).wait_s == pytest.approx(0.8)


def test_predict_waits_from_each_request_to_its_arrival(monkeypatch):
    times_s = iter([0.0, 0.5, 2.0, 2.25])
    monkeypatch.setattr(meters, "time", SimpleNamespace(perf_counter=lambda: next(times_s)))
    meter = RequestMeter()
    meter.start(meter.take(), None)
    for _ in range(2):
        meter.requested()
        meter.fetched()
    meter.fetched()  # without a request
    assert meter.wait_of([meter.take()], None).wait_s == 0.75


@pytest.mark.parametrize(
    ("stages", "buffered"),
    [
        ((Stage("Prefetch", buffered=2), Stage("BatchV2")), 2.0),
        ((Stage("Prefetch"), Stage("BatchV2")), 0.0),
        ((Stage("FiniteTake"), Stage("Prefetch", buffered=1), Stage("BatchV2")), 1.0),
        # A buffer before the batches holds examples.
        ((Stage("BatchV2"), Stage("Prefetch", 32, buffered=9)), None),
    ],
)
def test_the_last_buffer_of_batches(stages, buffered):
    windows, _ = run(ScriptedPipeline(*stages), [(0.001, 0.004)] * 30)
    assert {each.buffered_batches for each in windows} == {buffered}


def started(pipeline, meter, more=(), *, first_wait_s=0.4, compute_s=0.1):
    """Returns the start of a pipeline after its first two calls."""
    entries = []
    for wait_s in (first_wait_s, 0.02):
        entries.append(pipeline.now_s)
        pipeline.execution([(wait_s, compute_s), *more])
    first = CallWindow(np.array(entries), np.array([entries[1]]), pipeline.now_s)
    return meter.start(meter.take(), first)


def start_of(pipeline, **options):
    return started(pipeline, meter_of(pipeline), **options)


def test_the_wait_for_the_first_batch_and_the_part_of_it_that_fills_a_shuffle_buffer():
    assert start_of(ScriptedPipeline()).wait_s == pytest.approx(0.4, abs=MICROSECOND)
    shuffled = Stage("BatchV2"), Stage("ShuffleV3", 30, buffered=940), Stage("Map")
    assert start_of(ScriptedPipeline(*shuffled)).shuffle_fraction == pytest.approx(940 / 1000)
    # Of a first call that computes for ten seconds, it is unknown.
    assert start_of(ScriptedPipeline(), first_wait_s=0.1, compute_s=10.5) is None


def test_where_gaps_were_dropped_the_last_calls_stand_for_all_and_none_is_known_alone():
    pipeline, entries = ScriptedPipeline(), []
    meter = meter_of(pipeline)
    for number in range(153):
        entries.append(pipeline.now_s)
        pipeline.execution([(0.002, 0.004)])
        if number == 1:
            first = CallWindow(np.array(entries), np.array(entries[1:]), pipeline.now_s)
            meter.start(meter.take(), first)
    window = CallWindow(np.array(entries[1:]), np.array(entries[2:]), pipeline.now_s)
    reading = meter.wait_of([meter.take()], window)
    assert reading.wait_s == pytest.approx(151 * 0.002, abs=151 * MICROSECOND)
    assert reading.waits_s is None


@pytest.mark.parametrize("steps", [2, 30, 97])
def test_a_reading_at_an_epochs_end_shows_its_start_too(steps):
    pipeline = ScriptedPipeline()
    early, late = meter_of(pipeline), PipelineModelMeter(pipeline, 1)
    assert (early.reads_early, late.reads_early) == (True, False)
    waits = [0.4, 0.02, *(0.001 * (1 + each % 7) for each in range(steps))]
    entries, exits = [], []

    def call(number):
        entries.append(pipeline.now_s)
        pipeline.execution([(waits[number], 0.004)])
        exits.append(pipeline.now_s)

    call(0), call(1)
    first = CallWindow(np.array(entries), np.array(exits[:1]), exits[1])
    start = early.start(early.take(), first)
    for number in range(2, steps + 2):
        call(number)
    window = CallWindow(np.array(entries[1:]), np.array(exits[1:-1]), exits[-1])
    taken = early.take(), late.take()
    read = early.wait_of(taken[:1], window)
    assert late.start(None, first).wait_s == start.wait_s == pytest.approx(0.4, abs=MICROSECOND)
    again = late.wait_of(taken[1:], window)
    for found in (read, again):
        assert found.waits_s.tolist() == pytest.approx(waits[1:-1], abs=MICROSECOND)
