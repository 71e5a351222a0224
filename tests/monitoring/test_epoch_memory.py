"""Memory is read after each epoch, also where looking at what is kept takes long."""

import weakref
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from helpers.stopped_clock import StoppedClock

from keras_gpukit import GPUMemory
from keras_gpukit.monitoring import epoch_memory
from keras_gpukit.monitoring.epoch_memory import FitMemory
from keras_gpukit.records import EpochMemory, Kept

EPOCHS = epoch_memory.ALWAYS_READ + 12


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock.of(monkeypatch, epoch_memory)


def watched(steps, read, look, add_fit=None):
    """The watch of a call's memory; what is kept is looked at each time."""
    kept = SimpleNamespace(read_largest=look)
    fits = SimpleNamespace(has_grown=lambda in_use_bytes: True, kept=kept, add_fit=add_fit)
    return epoch_memory.EpochMemoryWatch(steps, SimpleNamespace(read_allocators=read), fits)


def test_looking_at_what_is_kept_does_not_make_readings_seldom(clock):
    actions, looks, reads = [], [], []

    def look(owners):
        looks.append(clock.now_s)
        clock.now_s += 1.0
        return ()

    watched(steps(actions.append), lambda: reads.append(clock.now_s) or (), look)
    for _ in range(EPOCHS):
        clock.now_s += 1.0
        actions[0]()
    # A look of a second is repeated after a thousand, a reading that takes no time at once.
    assert len(reads) == EPOCHS
    assert len(looks) == epoch_memory.ALWAYS_READ


def steps(on_epoch_ended):
    return SimpleNamespace(
        model=SimpleNamespace(train_function=None, run_eagerly=False),
        step=40,
        wall=SimpleNamespace(tracings=0),
        on_epoch_ended=on_epoch_ended,
        output=SimpleNamespace(write_record=lambda kind, record, step: None),
        cost=SimpleNamespace(add=lambda spent_s, once: None),
    )


@pytest.mark.parametrize(("look_s", "looks"), [(0.0625, 10), (0.125, 3)])
def test_a_look_that_takes_the_processor_long_is_not_repeated_at_each_of_the_first_epochs(
    look_s, looks, clock
):
    actions, looked = [], []

    def look(owners):
        looked.append(look_s)
        clock.spent_s += look_s
        clock.now_s += look_s
        return ()

    watched(steps(actions.append), tuple, look)
    for _ in range(10):
        actions[0]()
    assert len(looked) == looks


def test_growth_that_only_the_reading_at_the_end_shows_is_kept():
    seen, added = (Kept("Saver.outputs", "host", 50_000_000),), []
    # The epochs were too short to be read.
    nothing, add = steps(lambda action: None), lambda reading, _: added.append(reading)
    watched(nothing, tuple, lambda owners: seen, add).end(completed=True)
    assert [each.kept for each in added] == [seen]
    assert added[0].left_bytes > 0


def test_a_model_that_is_compiled_before_each_fit_is_traced_again_but_not_two_in_turns():
    x, y = np.ones((8, 2)), np.ones((8, 1))
    first, second = (keras.Sequential([keras.layers.Dense(1)]) for _ in range(2))
    memory = GPUMemory(None)
    for compiles in (True, True, False, True):
        if compiles:
            first.compile("sgd", "mse", jit_compile=False)
        first.fit(x, y, verbose=0, callbacks=[memory])
    assert [each.tracings for each in memory.summary.fits] == [0, 1, 1, 2]
    second.compile("sgd", "mse", jit_compile=False)
    for model in (second, first, second, first):
        model.fit(x, y, verbose=0, callbacks=[memory])
    # The second model's first trace is one more, and the only one.
    assert [each.tracings for each in memory.summary.fits][4:] == [3, 3, 3, 3]


class Model:
    """The parts of a model that matter to the memory after fits."""

    train_function = None
    optimizer = None
    metrics = ()

    def __init__(self):
        self.variables = [np.zeros(256, "float32")]


def test_models_that_still_exist_are_counted_with_their_bytes_also_of_fits_without_a_monitor(
    monkeypatch,
):
    monkeypatch.setattr(epoch_memory, "_models", weakref.WeakKeyDictionary())
    fits, kept = FitMemory(), []
    for number in range(4):
        kept.append(Model())
        if number == 1:
            fits.skip(kept[-1])
            kept[-1].variables.append(np.zeros(256, "float32"))  # built in its fit
        else:
            fits.add_fit(EpochMemory(epoch=1, step=number), kept[-1])
        if number == 2:
            del kept[0]
    found = [(each.epoch, each.models, each.models_bytes) for each in fits.readings()]
    assert found == [(1, 1, 1024), (3, 3, 4096), (4, 3, 4096)]
    assert fits.readings()[-1].tracings == 1
