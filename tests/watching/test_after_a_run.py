"""What remains of a run that ended, or that was interrupted."""

from __future__ import annotations

import gc
import weakref

import interrupts
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.launches import wait_for

import keras_gpukit as gpukit
import keras_gpukit.watching.open_session as open_sessions
from keras_gpukit.sensors.older_keras import calls_are_numbered
from keras_gpukit.watching.call_errors import CallErrors
from keras_gpukit.watching.step_count import steps_so_far, updates_so_far


@pytest.mark.long
def test_after_an_interrupt_at_any_line_the_next_fit_is_as_new(tmp_path):
    trials = interrupts.Trials(tmp_path)
    lines = range(5, trials.lines, trials.lines // 12)
    assert [left for line in lines for left in trials.left_behind(line)] == []


# In `make test`, test_interrupts.py interrupts what wraps and restores, without a fit around it.
@pytest.mark.long
def test_an_interrupt_between_wrapping_and_noting_it_is_undone(tmp_path):
    # Each line in which a step function or a hook is wrapped and restored.
    trials = interrupts.Trials(tmp_path)
    lines = trials.lines_in("replaced_attribute.py", ("replace", "restore"))
    assert len(lines) > 10
    assert [left for line in lines for left in trials.left_behind(line)] == []


def test_an_interrupt_as_a_lock_is_let_go_holds_up_nothing_later(run_python):
    # Interrupted on its way out of a `with` block, Python leaves the lock as it is.
    run_python(
        """
import sys
from contextlib import suppress

from keras_gpukit.input.wait.stages import watch

pipeline = watch.PipelineWatch()


def record(interrupted_at):
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename != watch.__file__:
            return None
        if event == "line":
            count += 1
            if count == interrupted_at:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    with suppress(KeyboardInterrupt):
        pipeline.record(None)
    sys.settrace(None)
    return count


for line in range(1, record(None) + 1):
    record(line)
    pipeline.record(None)
""",
        timeout=60,
    )


def small_model(**options):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(**options), "mse")
    return model


@pytest.mark.parametrize("callbacks", [list, lambda: [gpukit.Monitor(None, verbose=0)]])
def test_the_data_of_a_fit_is_freed_with_it_and_waits_for_no_garbage_collector(callbacks):
    model, watching = small_model(), callbacks()
    kept = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            data = tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1))))
            kept.append(weakref.ref(data))
            model.fit(data, verbose=0, callbacks=watching)
            del data
        # Iterators are freed on a thread of their own.
        wait_for(lambda: [each() for each in kept] == [None] * 3)
    finally:
        gc.enable()


def test_a_monitor_and_its_session_are_freed_with_it_and_wait_for_no_garbage_collector(tmp_path):
    model, data = small_model(), (np.zeros((8, 4)), np.zeros((8, 1)))
    model.fit(*data, verbose=0, callbacks=[gpukit.Monitor(tmp_path, verbose=0)])
    gc.collect()
    gc.disable()
    try:
        watching = [gpukit.Monitor(tmp_path, verbose=0)]
        kept = [weakref.ref(watching[0])]

        def note(epoch, logs):
            kept.append(weakref.ref(watching[0]._lifecycle.session))

        noting = keras.callbacks.LambdaCallback(on_epoch_end=note)
        model.fit(*data, verbose=0, callbacks=[*watching, noting])
        watching.clear()
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()


def test_steps_are_counted_apart_from_updates_over_several_fits(tmp_path):
    model = small_model(gradient_accumulation_steps=5)
    data = tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1)))).repeat(12)
    for fit in (1, 2):
        first_steps = []
        throughput = gpukit.Throughput(tmp_path)
        note = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, to=first_steps, of=throughput: to.append(
                of._lifecycle.session.step
            )
        )
        model.fit(data, verbose=0, callbacks=[throughput, note])
        assert first_steps == list(range(12 * fit - 11, 12 * fit + 1))
        counted = throughput.summary
        assert (counted.steps, counted.updates, counted.executions) == (12, 2, 12)
    assert steps_so_far(model) == 24
    assert updates_so_far(model) == 4


@pytest.mark.parametrize(
    ("per_execution", "accumulated", "counted"),
    [(1, None, (5, 5, 5)), (2, None, (5, 5, 3)), (1, 2, (5, None, 5)), (2, 2, (5, 2, 3))],
)
def test_data_of_unknown_length_are_counted_without_the_look_for_their_end(
    per_execution, accumulated, counted
):
    # With one step per execution the optimizer of Keras up to 3.15 counts one more, which may look
    # like an update.
    if per_execution == 1 and accumulated == 2 and not calls_are_numbered():
        counted = (5, 2, 5)
    model = small_model(gradient_accumulation_steps=accumulated)
    model.steps_per_execution, model.jit_compile = per_execution, False
    data = tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1)))).repeat(5)
    throughput = gpukit.Throughput(None)
    model.fit(data.filter(lambda *_: True), verbose=0, callbacks=[throughput])
    record = throughput.summary
    assert (record.steps, record.updates, record.executions) == counted


@pytest.mark.parametrize("callback", [gpukit.Monitor, gpukit.InputStall, gpukit.Profiler])
def test_nothing_keeps_a_finished_run_s_data_alive(tmp_path, callback):
    class Source:
        """What a generator reads from."""

    source = Source()
    kept = weakref.ref(source)

    def generate(source=source):
        for _ in range(6):
            yield np.full((2, 4), bool(source), "float32"), np.zeros((2, 1), "float32")

    watching = callback(tmp_path)
    model = small_model()
    model.fit(generate(), verbose=0, callbacks=[watching])
    del source, generate
    gc.collect()
    assert kept() is None


ENDS_WITH_A_GENERATOR = """
import keras, numpy as np, tensorflow as tf
import keras_gpukit as gpukit

def generate():
    while True:
        yield np.zeros((2, 4), "float32"), np.zeros((2, 1), "float32")

spec = (tf.TensorSpec((2, 4)), tf.TensorSpec((2, 1)))
data = tf.data.Dataset.from_generator(generate, output_signature=spec)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
monitor = gpukit.Monitor(None)
model.fit(data, steps_per_epoch=4, epochs=2, verbose=0, callbacks=[monitor])
"""


def test_a_script_with_a_generator_exits_without_a_complaint_of_tensorflow(run_python):
    # An iterator kept until the interpreter is gone cannot end its generator any more.
    printed = run_python(ENDS_WITH_A_GENERATOR, TF_CPP_MIN_LOG_LEVEL="0").stderr
    assert "pyfunc_" not in printed
    assert "finalizing GeneratorDataset" not in printed


def test_an_error_of_a_step_reaches_those_that_listen(tmp_path):
    errors = []

    class Listens(gpukit.Throughput):
        def _begin(self, session, phase):
            super()._begin(session, phase)
            session.errors.add(errors.append)

    def generate():
        for batch in range(6):
            if batch == 4:
                raise OSError("the disk is gone")
            yield np.zeros((2, 4), "float32"), np.zeros((2, 1), "float32")

    with pytest.raises(tf.errors.OpError) as raised:
        small_model().fit(generate(), verbose=0, callbacks=[Listens(tmp_path)])
    assert errors == [raised.value]
    monitor = gpukit.Monitor(None, verbose=0)
    with pytest.raises(tf.errors.OpError):
        small_model().fit(generate(), verbose=0, callbacks=[monitor])
    open_sessions.end_all()
    assert (
        monitor.summary.ended_by == "OSError in the input of step 5, in epoch 1"
    )  # and not TensorFlow's error around it
    assert monitor.summary.error_message == "the disk is gone"
    line = generate.__code__.co_firstlineno + 3
    assert monitor.summary.error_line.endswith(f"test_after_a_run.py:{line}")
    errors.clear()
    data = tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1)))).repeat(3)
    small_model().fit(data, verbose=0, callbacks=[Listens(tmp_path)])
    assert errors == []  # the end of the data is none


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ("validation", "SIGTERM in a validation"),
        ("first step", "SIGTERM in the first step"),
        ("steps", "SIGTERM after step 1,250"),
    ],
)
def test_a_signal_is_named_with_what_it_interrupted(part, named):
    errors = CallErrors(lambda: 1250)
    errors.ended_by("SIGTERM", part)
    assert (errors.last, errors.kind) == (named, "signal")


class RaisesIn(keras.callbacks.Callback):
    """Raises in one of its hooks."""

    def __init__(self, hook, error):
        super().__init__()
        setattr(self, hook, self.fail)
        self.error = error

    def fail(self, *args, **kwargs):
        raise self.error


@pytest.mark.parametrize("hook", ["on_epoch_begin", "on_train_batch_end", "on_test_batch_end"])
@pytest.mark.parametrize("position", [0, 1])
def test_an_error_of_another_callback_reaches_those_that_listen(tmp_path, hook, position):
    errors = []

    class Listens(gpukit.Throughput):
        def _begin(self, session, phase):
            super()._begin(session, phase)
            if phase == session.phase:
                session.errors.add(errors.append)

    error = RuntimeError("theirs")
    callbacks = [Listens(tmp_path)]
    callbacks.insert(position, RaisesIn(hook, error))
    data = tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 1)))).repeat(3)
    with pytest.raises(RuntimeError):
        small_model().fit(data, validation_data=data, verbose=0, callbacks=callbacks)
    assert errors == [error]
