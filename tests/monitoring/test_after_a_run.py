"""What remains of a run that ended, or that was interrupted."""

import gc
import threading
import weakref

import interrupts
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.processes import wait_for
from helpers.training import compiled, summary_of

import keras_gpukit as gpukit
from keras_gpukit.input.wait.calls import steps_so_far
from keras_gpukit.monitoring.session import end_all


# In `make test`, test_interrupts.py interrupts what wraps and restores, without a fit around it.
@pytest.mark.long
def test_after_an_interrupt_at_any_line_the_next_fit_is_as_new(tmp_path):
    trials = interrupts.Trials(tmp_path)
    # Each line in which a step function or a hook is wrapped and restored.
    wrapping = trials.lines_in("replaced_attribute.py", ("replace", "restore"))
    assert len(wrapping) > 10
    lines = *range(5, trials.lines, trials.lines // 12), *wrapping
    assert [left for line in lines for left in trials.left_behind(line)] == []


def small_model(accumulated=None, **options):
    optimizer = keras.optimizers.SGD(gradient_accumulation_steps=accumulated)
    return compiled(keras.layers.Dense(1), shape=(4,), optimizer=optimizer, **options)


def batches(count):
    return tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1)))).repeat(count)


def examples(count):
    return tf.data.Dataset.from_tensor_slices((np.zeros((count, 4)), np.zeros((count, 1))))


def test_data_monitor_and_session_of_a_fit_are_freed_with_it_and_wait_for_no_garbage_collector(
    tmp_path,
):
    model, watching = small_model(), [gpukit.Monitor(tmp_path, verbose=0)]
    kept, sessions = [], []

    def note(epoch, logs):
        sessions.extend(map(weakref.ref, (watching[0]._session, watching[0]._session.steps)))

    noting = keras.callbacks.LambdaCallback(on_epoch_end=note)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            data = batches(1)
            kept.append(weakref.ref(data))
            model.fit(data, verbose=0, callbacks=[*watching, noting])
            del data
        # Iterators are freed on a thread of their own.
        wait_for(lambda: [each() for each in kept] == [None] * 3)
        kept = [weakref.ref(watching.pop()), *sessions]
        assert [each() for each in kept] == [None] * 7
    finally:
        gc.enable()


def test_steps_are_counted_apart_from_updates_over_several_fits(tmp_path):
    model = small_model(accumulated=5)
    for fit in (1, 2):
        first_steps, throughput = [], gpukit.Throughput(tmp_path)

        def note(batch, logs, to=first_steps, of=throughput):
            to.append(of._session.steps.step)

        noting = keras.callbacks.LambdaCallback(on_train_batch_end=note)
        model.fit(batches(12), verbose=0, callbacks=[throughput, noting])
        assert first_steps == list(range(12 * fit - 11, 12 * fit + 1))
        counted = throughput.summary
        assert (counted.steps, counted.executions) == (12, 12)
    assert steps_so_far(model) == 24
    assert int(model.optimizer.iterations.numpy()) == 4


@pytest.mark.parametrize(
    ("per_execution", "accumulated", "counted"),
    [(1, None, (5, 5)), (2, None, (5, 3)), (1, 2, (5, 5)), (2, 2, (5, 3))],
)
def test_data_of_unknown_length_are_counted_without_the_look_for_their_end(
    per_execution, accumulated, counted
):
    model = small_model(accumulated, steps_per_execution=per_execution)
    record = summary_of(model, batches(5).filter(lambda *_: True), callback=gpukit.Throughput(None))
    assert (record.steps, record.executions) == counted


def test_the_last_execution_of_a_validation_has_only_the_steps_that_are_left():
    data = batches(5)
    summary = summary_of(small_model(steps_per_execution=4), data, validation_data=data, epochs=2)
    for record in (summary.throughput, summary.validation):
        assert (record.steps, record.executions) == (10, 4)


@pytest.mark.parametrize(
    ("data", "passes"),
    [
        (lambda: examples(12).batch(4).repeat(), 2.0),
        (lambda: examples(12).repeat().batch(4).prefetch(1), 2.0),
        (lambda: examples(24).batch(4), None),
        (lambda: batches(3).filter(lambda *_: True).repeat(), None),
        (lambda: batches(3).repeat().map(lambda x, y: (tf.random.normal([2, 4]), y)), None),
        (lambda: batches(1).repeat(), None),
    ],
    ids=["batches", "examples", "once", "unknown", "drawn", "one"],
)
def test_how_often_a_validation_goes_over_repeated_data_is_known(data, passes):
    options = {"validation_data": data(), "validation_steps": 6, "epochs": 2}
    record = summary_of(small_model(), batches(3), **options).validation
    assert (record.steps, record.passes) == (12, passes)


@pytest.mark.parametrize("callback", [gpukit.Monitor, gpukit.InputStall, gpukit.Profiler])
def test_nothing_keeps_a_finished_run_s_data_alive(tmp_path, callback):
    """An iterator kept until the interpreter is gone could not end its generator any more."""

    def generate(source):
        for _ in range(6):
            yield np.full((2, 4), bool(source), "float32"), np.zeros((2, 1), "float32")

    source = {1}  # what a generator reads from
    kept, model, watching = weakref.ref(source), small_model(), callback(tmp_path)
    model.fit(generate(source), verbose=0, callbacks=[watching])
    del source
    gc.collect()
    assert kept() is None


class Listens(gpukit.Throughput):
    """Notes the errors of a call."""

    def __init__(self, log_dir):
        super().__init__(log_dir)
        self.heard = []

    def _begin(self, session, phase):
        super()._begin(session, phase)
        if phase == session.phase:
            session.steps.errors.add_action(self.heard.append)


def test_an_error_of_a_step_reaches_those_that_listen(tmp_path):
    def generate():
        for batch in range(6):
            if batch == 4:
                raise OSError("the disk is gone")
            yield np.zeros((2, 4), "float32"), np.zeros((2, 1), "float32")

    listening = Listens(tmp_path)
    with pytest.raises(tf.errors.OpError) as raised:
        small_model().fit(generate(), verbose=0, callbacks=[listening])
    assert listening.heard == [raised.value]
    monitor = gpukit.Monitor(None, verbose=0)
    with pytest.raises(tf.errors.OpError):
        small_model().fit(generate(), verbose=0, callbacks=[monitor])
    end_all()
    # And not TensorFlow's error around it.
    assert monitor.summary.ended_by == "OSError in the input of step 5, in epoch 1"
    assert monitor.summary.error_message == "the disk is gone"
    line = generate.__code__.co_firstlineno + 3
    assert monitor.summary.error_line.endswith(f"test_after_a_run.py:{line}")
    listening = Listens(tmp_path)
    small_model().fit(batches(3), verbose=0, callbacks=[listening])
    assert listening.heard == []  # the end of the data is none


@pytest.mark.parametrize("hook", ["on_epoch_begin", "on_train_batch_end", "on_test_batch_end"])
@pytest.mark.parametrize("position", [0, 1])
def test_an_error_of_another_callback_reaches_those_that_listen(tmp_path, hook, position):
    error, callbacks = RuntimeError("theirs"), [listening := Listens(tmp_path)]

    def fail(*arguments, **options):
        raise error

    callbacks.insert(position, keras.callbacks.LambdaCallback())
    setattr(callbacks[position], hook, fail)
    options = {"validation_data": batches(3), "verbose": 0, "callbacks": callbacks}
    with pytest.raises(RuntimeError):
        small_model().fit(batches(3), **options)
    assert listening.heard == [error]


EPOCHS = 4
OURS = "frees an iterator"


@pytest.fixture
def freed_on(monkeypatch):
    """Names of the threads on which iterators of datasets were freed."""
    names, make = [], tf.data.Dataset.__iter__

    def counted(dataset):
        iterator = make(dataset)
        weakref.finalize(iterator, lambda: names.append(threading.current_thread().name))
        return iterator

    monkeypatch.setattr(tf.data.Dataset, "__iter__", counted)
    return names


def joined(names):
    for thread in threading.enumerate():
        if thread.name == OURS:
            thread.join()
    return list(names)


def test_monitoring_keeps_no_iterator_longer_than_keras_does(freed_on):
    monitored, plain = [], []

    def fit(counts, *callbacks):
        freed_on.clear()

        def note(batch, logs):
            if batch == 2:
                counts.append(joined(freed_on))

        at_third_step = keras.callbacks.LambdaCallback(on_train_batch_end=note)
        model, given = small_model(), [at_third_step, *callbacks]
        model.fit(batches(3), epochs=EPOCHS, verbose=0, callbacks=given)
        counts.append(joined(freed_on))

    fit(monitored, gpukit.Monitor(None, verbose=0))
    fit(plain)
    assert list(map(len, monitored)) == list(map(len, plain))
    assert len(plain) == EPOCHS + 1
    assert monitored[-1].count(OURS) == EPOCHS  # the others fetched nothing
