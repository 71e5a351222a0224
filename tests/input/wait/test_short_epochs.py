"""The input wait of short epochs, down to one step."""

import functools
import threading
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf
from helpers.clocked_steps import Meter, Pipeline, clocked_steps
from helpers.training import fast_dataset, input_of, without_autotuning

from keras_gpukit.input.pipelines import rebuilding
from keras_gpukit.input.wait.clock import PastIterator
from keras_gpukit.input.wait.wall_time import WallTime

WAIT_S, COMPUTE_S, BETWEEN_S = 0.25, 0.0625, 4.0
EPOCHS = 4


class GivenWaits(Meter):
    """Is advanced by hand."""

    total_s = 0.0

    def waited_s(self):
        return self.total_s

    take = waited_s


class GivenExamples:
    """A counter that is advanced by hand: each call sees as many examples as there were calls."""

    def __init__(self) -> None:
        self.seen = self.calls = 0

    def add(self):
        self.calls += 1
        self.seen += self.calls

    def take(self):
        return self.seen

    def between(self, before, after, calls, *, full=False):
        return after - before


def given_run(calls, *, new_pipeline=True, **options):
    """Returns the record, the breakdown and the windows of epochs of so many calls."""
    now_s, windows = 0.0, []
    meter, examples = GivenWaits(), GivenExamples()
    wall = WallTime("callbacks", now=lambda: now_s)
    options |= {"wall": wall, "examples": examples, "now": lambda: now_s}

    def step_function(source):
        nonlocal now_s
        now_s += WAIT_S + COMPUTE_S
        meter.total_s += WAIT_S
        examples.add()

    steps = clocked_steps(lambda source: meter, windows.append, **options)
    step, pipeline = steps.clock.wrap(step_function), Pipeline()
    for _ in range(EPOCHS):
        for _ in range(calls):
            step(pipeline)
        steps.clock.pause()
        now_s += BETWEEN_S
        pipeline = Pipeline() if new_pipeline else pipeline
    wall.end()
    breakdown = functools.partial(wall.breakdown, steps.calls.inside_s)
    return steps.windows.input(), breakdown, windows


def test_epochs_of_two_steps_have_one_that_waits_for_the_start_and_one_that_does_not():
    record, breakdown, windows = given_run(2)
    assert (record.measured_steps, record.wait_s) == (EPOCHS, WAIT_S)
    # Time between epochs is no step's.
    assert record.stall_fraction == WAIT_S / (WAIT_S + COMPUTE_S)
    assert record.distribution.worst_s == WAIT_S
    # The first start of the run is part of its first step.
    assert (record.pipeline_start.epochs, record.pipeline_start.mean_s) == (EPOCHS - 1, WAIT_S)
    for figure in ("examples", "step"):
        assert [getattr(window, figure) for window in windows] == [2, 4, 6, 8]
    parts = breakdown(record.wait_s * EPOCHS)
    assert parts.epoch_start_s == (EPOCHS - 1) * WAIT_S
    assert parts.compute_s == (2 * EPOCHS - 1) * COMPUTE_S
    assert parts.first_step_s == WAIT_S + COMPUTE_S


def test_epochs_of_one_step_wait_for_their_start_only():
    record, breakdown, windows = given_run(1)
    assert (record.pipeline_start.epochs, record.pipeline_start.mean_s) == (EPOCHS - 1, WAIT_S)
    assert (record.wait_s, windows) == (None, [])
    assert "pipeline's start" in record.unknown_because
    parts = breakdown(0.0)
    assert parts.epoch_start_s == (EPOCHS - 1) * WAIT_S
    assert parts.compute_s == (EPOCHS - 1) * COMPUTE_S


@pytest.mark.parametrize("calls", [1, 2])
def test_all_steps_of_short_epochs_over_one_pipeline_are_measured(calls):
    record, _, windows = given_run(calls, new_pipeline=False)
    # All but the run's first step.
    assert record.measured_steps == EPOCHS * calls - 1
    assert record.wait_s == WAIT_S
    assert record.pipeline_start is None
    assert sum(window.duration_s for window in windows) == record.measured_steps * (
        WAIT_S + COMPUTE_S
    )
    assert sum(window.examples for window in windows) == sum(range(2, EPOCHS * calls + 1))


def test_a_process_that_stood_still_leaves_a_short_epoch_unknown():
    record, _, _ = given_run(2, suspended_since=lambda moment_s: True)
    assert record.wait_s is None
    assert record.unknown_because == "the process was suspended"


def unknown_length(data):
    return data.filter(lambda *_: True)


def measured(data, epochs=EPOCHS, **options):
    return input_of(data, epochs=epochs, **options)


@pytest.mark.parametrize(
    ("data", "starts", "steps", "options"),
    [
        (lambda: fast_dataset(1), EPOCHS - 1, 0, {}),
        (lambda: fast_dataset(2), EPOCHS - 1, EPOCHS, {}),
        (lambda: fast_dataset(8).repeat(), 0, EPOCHS - 1, {"steps_per_epoch": 1}),
        (lambda: without_autotuning(fast_dataset(2)), EPOCHS - 1, EPOCHS, {}),
        # Of an unknown length the first epoch is left out.
        (lambda: unknown_length(fast_dataset(2)), EPOCHS - 1, EPOCHS - 1, {}),
    ],
    ids=["one", "two", "endless", "autotuning is off", "unknown length"],
)
def test_all_steps_of_short_epochs_are_measured(data, starts, steps, options):
    record = measured(data(), **options)
    start = record.pipeline_start
    assert record.mechanism == "fetch latency"
    assert ((start.epochs if start else 0), record.measured_steps) == (starts, steps)
    assert record.breakdown.compute_s > 0


def test_a_single_step_is_not_timed_by_its_fetch():
    assert measured(fast_dataset(1), epochs=1).mechanism == "pipeline model"  # it only traces


def test_where_timed_fetches_cannot_be_read_the_pipelines_model_is(monkeypatch):
    def unreadable(**_):
        raise NotImplementedError("no summary")

    monkeypatch.setattr(tf.raw_ops, "StatsAggregatorSummary", unreadable)
    record = measured(fast_dataset(3))
    assert record.mechanism == "pipeline model"
    assert record.stall_fraction is not None
    record = measured(without_autotuning(fast_dataset(3)))
    assert record.stall_fraction is None
    assert record.unknown_because == "autotuning is off, so tf.data keeps no model of the pipeline"


def negated(number):
    return -number


def drawn(number):
    return number + tf.random.uniform([], 0, 5, tf.int64)


def from_python(number):
    return tf.numpy_function(np.negative, [number], tf.int64)


def not_made_parallel():
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    return options


def stage_names(data):
    """Names of the stages that tf.data runs, from the last one on."""
    iterator = iter(data)
    next(iterator)
    model = tf.data.experimental.get_model_proto(iterator)
    return [model.nodes[key].name for key in sorted(model.nodes)]


CHANGES = {
    "TensorFlow adds a prefetch": lambda data: data,
    "parallel": lambda data: data.map(negated, num_parallel_calls=2),
    "prefetched": lambda data: data.prefetch(1),
    "made parallel": lambda data: data.map(negated),
    "not made parallel": lambda data: data.map(negated).with_options(not_made_parallel()),
    "draws at random": lambda data: data.map(drawn),
    "calls Python": lambda data: data.map(from_python),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_timing_fetches_leaves_the_stages_as_they_are(change):
    # Never comes to its end, where tf.data would remove stages from its model.
    data = change(tf.data.Dataset.range(10**9).batch(2))
    plain, timed = stage_names(data), stage_names(rebuilding.with_timed_fetches(data))
    assert [name for name in timed if "Stats" not in name] == plain
    assert timed[1:3] == ["SetStatsAggregator", "LatencyStats"]


def test_fetches_timed_from_the_second_epoch_on_find_the_same_batches():
    def passes(later):
        tf.random.set_seed(1)
        data = tf.data.Dataset.range(20).shuffle(8).batch(10)
        first = [batch.numpy().tolist() for batch in data]
        changed = later(data)
        return [first, *([batch.numpy().tolist() for batch in changed] for _ in range(2))]

    plain = passes(lambda data: data)
    assert plain[0] != plain[1]
    assert passes(rebuilding.with_timed_fetches) == plain


def test_fetches_are_timed_and_nothing_else():
    def total_s(timed):
        return rebuilding.fetch_time(iter(timed))()

    # TensorFlow also adds up how long the function of such a stage takes, and in another unit.
    data = fast_dataset(100).flat_map(lambda *pair: tf.data.Dataset.from_tensor_slices(pair))
    other = rebuilding.with_timed_fetches(fast_dataset(4))
    began = time.perf_counter()
    one = rebuilding.with_timed_fetches(data)
    for _ in one:
        pass
    assert 0 < total_s(one) < time.perf_counter() - began
    assert total_s(other) == 0


def test_windows_of_short_epochs_are_worked_out_about_once_a_second():
    now_s, windows, told_at_s = 0.0, [], set()

    def step_function(source):
        nonlocal now_s
        now_s += 0.01

    def on_window(window):
        windows.append(window)
        told_at_s.add(now_s)

    clock = clocked_steps(lambda source: GivenWaits(), on_window, now=lambda: now_s).clock
    step = clock.wrap(step_function)
    for _ in range(50):
        pipeline = Pipeline()
        for _ in range(5):
            step(pipeline)
        clock.pause()
    clock.end()
    assert [window.step for window in windows] == list(range(5, 251, 5))
    # Each without the first step and the last.
    assert {window.steps for window in windows} == {3}
    assert len(told_at_s) <= 6  # in 2.5 s, with the first epoch and the end


def join() -> None:
    for thread in threading.enumerate():
        if thread.name == "frees an iterator":
            thread.join()


def followed(past: PastIterator, freed: list[threading.Thread]) -> None:
    iterator = iter(fast_dataset(3))
    weakref.finalize(iterator, lambda: freed.append(threading.current_thread()))
    past.follow(iterator)
    past.follow(iterator)


def test_it_is_freed_on_a_thread_of_its_own():
    past, freed = PastIterator(), []
    followed(past, freed)
    assert not freed
    followed(past, freed)
    join()
    assert len(freed) == 1
    past.free()
    join()
    assert len(freed) == 2
    assert threading.main_thread() not in freed


NEVER_FREED = """
import threading, weakref
from helpers.training import fast_dataset
from keras_gpukit.input.wait.clock import PastIterator

past, iterator = PastIterator(), iter(fast_dataset(3))
weakref.finalize(iterator, threading.Event().wait).atexit = False
past.follow(iterator)
del iterator
past.free()
print("ends")
"""


def test_the_end_of_a_process_waits_for_no_iterator_that_takes_long_to_free(run_script):
    assert run_script(NEVER_FREED, timeout=60).stdout.splitlines()[-1] == "ends"
