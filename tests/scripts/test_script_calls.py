"""Which calls of a script are counted, what of them is their start, and where the rest went."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import keras
import pytest
from helpers.stopped_clock import StoppedClock
from helpers.training import BATCH, arrays, keras_restored

from keras_gpukit.frameworks import keras_models
from keras_gpukit.scripts import main_module, script_calls
from keras_gpukit.scripts.script_calls import ScriptCalls

BATCHES = 4


def model(**options) -> keras.Model:
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse", **options)
    return made


@contextmanager
def timed(cost_s=lambda: 0.0) -> Iterator[ScriptCalls]:
    calls = ScriptCalls(cost_s)
    with keras_restored():
        calls.install()
        keras_models.on_each_list(lambda *made: calls.follow(*made[:2]))
        yield calls


def by_method(calls: ScriptCalls):
    return {each.method: each for each in calls.script_record(0.0, 0.0).calls}


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock.of(monkeypatch, script_calls)


def test_outermost_calls_count_with_their_line_and_their_batches(clock):
    x, y = arrays(BATCHES)
    trained, other = model(run_eagerly=True), model(run_eagerly=True)
    original = keras.Model.fit

    def train(epoch, logs):
        other.fit(*arrays(1), batch_size=BATCH, verbose=0)
        clock.now_s += 4

    trains = keras.callbacks.LambdaCallback(on_epoch_end=train)
    with timed() as calls:
        for _ in range(3):
            trained.fit(x, y, batch_size=BATCH, epochs=2, validation_data=(x, y), verbose=0)
        trained.fit(x, y, batch_size=BATCH, callbacks=[trains], verbose=0)
        trained.evaluate(x, y, batch_size=BATCH, verbose=0)
        for example in x[:2]:
            trained.predict(example[None], verbose=0)
            trained.train_on_batch(x[:1], y[:1])
    assert keras.Model.fit is original
    record = calls.script_record(clock.UNIX_S - 60, 5.0)
    found = sorted((each.method, each.count, each.batches) for each in record.calls)
    fits = ("fit", 1, BATCHES), ("fit", 3, 6 * BATCHES)
    others = ("predict", 2, 2), ("train_on_batch", 2, 2)
    assert found == [("evaluate", 1, BATCHES), *fits, *others]
    files = [each.place.partition(":")[0] for each in record.calls]
    assert files == ["tests/scripts/test_script_calls.py"] * 5
    assert len({each.place for each in record.calls}) == 5
    assert [each.total_s for each in record.calls] == [4, 0, 0, 0, 0]
    parts_s = record.imports_s, record.before_s, record.rest_s
    assert (record.wall_s, *parts_s) == (64, 5, 55, 0)


def test_a_call_that_traces_starts_until_its_first_batches_are_over():
    x, y = arrays(BATCHES)
    with timed() as calls:
        for _ in range(3):
            model().fit(x, y, batch_size=BATCH, validation_data=(x, y), verbose=0)
        fits = by_method(calls)["fit"]
        assert (fits.models, fits.traced_again) == (3, 2)
        assert 0.0 < fits.tracing_cpu_s <= fits.traced_again_s < fits.starting_s <= fits.total_s
        assert fits.repeated_s == 0.0
        trained = model()
        for compiles in (False, False, True, False):
            if compiles:
                trained.compile("sgd", "mse", jit_compile=False)
            trained.predict(x, batch_size=BATCH, verbose=0)
        predictions = by_method(calls)["predict"]
    assert (predictions.models, predictions.traced_again) == (1, 1)
    assert predictions.compiled.startswith("tests/scripts/test_script_calls.py:")
    assert 0.0 < predictions.repeated_s < predictions.starting_s


def test_what_monitoring_takes_is_no_start(clock):
    x, y = arrays(BATCHES)
    trained = model(run_eagerly=True)
    callback = keras.callbacks.LambdaCallback(on_train_begin=clock.takes(4))
    with timed(lambda: clock.now_s) as calls:
        trained.fit(x, y, callbacks=[callback], verbose=0)
    fits = by_method(calls)["fit"]
    assert (fits.total_s, fits.starting_s) == (4, 0)


def test_exceptions_pass_and_the_next_call_counts():
    x, y = arrays(BATCHES)
    trained = model(run_eagerly=True)

    def fails(batch, logs=None):
        raise ArithmeticError("of the script")

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=fails)
    with timed() as calls:
        keras_models.leave_out_of_tracebacks(main_module.PACKAGE)
        with pytest.raises(ArithmeticError) as failure:
            trained.fit(x, y, callbacks=[callback], verbose=0)
        trained.fit(x, y, verbose=0)
    frames = traceback.extract_tb(failure.value.__traceback__)
    assert not any("keras_gpukit/scripts" in frame.filename for frame in frames)
    assert sum(each.count for each in calls.script_record(0.0, 0.0).calls) == 2
