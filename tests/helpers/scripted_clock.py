"""A clock that a test advances, for all that a monitored call of Keras is timed with."""

from __future__ import annotations

import time

import keras

from helpers.stopped_clock import StoppedClock
from keras_gpukit.input.wait.clock import StepClock
from keras_gpukit.input.wait.step_windows import StepWindows
from keras_gpukit.input.wait.wall_time import WallTime

STEP_S = 0.25


def scripted_clock(monkeypatch) -> StoppedClock:
    """Has calls that begin from now on timed by a clock that it returns."""
    stopped, real = StoppedClock(), time.perf_counter
    clock = stopped.perf_counter
    monkeypatch.setattr(time, "perf_counter", clock)
    for made in (StepClock, StepWindows, WallTime):
        init = made.__init__
        positional = tuple(clock if each is real else each for each in init.__defaults__ or ())
        monkeypatch.setattr(init, "__defaults__", positional or None)
        if "now" in (init.__kwdefaults__ or {}):
            monkeypatch.setitem(init.__kwdefaults__, "now", clock)
    return stopped


def clocked_model(clock: StoppedClock) -> keras.Model:
    """A model each of whose steps, in training or not, takes a quarter of a second of the clock."""

    class Clocked(keras.Sequential):
        def train_step(self, data):
            clock.now_s += STEP_S
            return super().train_step(data)

        def test_step(self, data):
            clock.now_s += STEP_S
            return super().test_step(data)

    model = Clocked([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model
