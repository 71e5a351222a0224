"""A clock that stands still but for what a test adds to it, for a module or a call of Keras."""

from __future__ import annotations

import time

STEP_S = 0.25


class StoppedClock:
    """Has the functions of `time` that measure; in `spent_s` of the time that is computed."""

    UNIX_S = 1.7e9

    def __init__(self) -> None:
        self.now_s = self.spent_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    monotonic = perf_counter

    def thread_time(self) -> float:
        return self.spent_s

    process_time = thread_time

    def time(self) -> float:
        return self.UNIX_S + self.now_s

    def takes(self, seconds: float):
        """A function that takes so long."""

        def hook(*arguments, **options):
            self.now_s += seconds

        return hook

    @classmethod
    def of(cls, monkeypatch, module) -> StoppedClock:
        """Has a module read a stopped clock, and returns it."""
        clock = cls()
        monkeypatch.setattr(module, "time", clock)
        return clock


def scripted_clock(monkeypatch) -> StoppedClock:
    """Has calls of Keras that begin from now on timed by a clock that it returns."""
    from keras_gpukit.input.wait.clock import StepClock
    from keras_gpukit.input.wait.step_windows import StepWindows
    from keras_gpukit.input.wait.wall_time import WallTime
    from keras_gpukit.sensors.sampling_thread import Heartbeat

    # Real threads beat meanwhile: a late one, on a busy machine, is no part of the scripted time.
    monkeypatch.setattr(Heartbeat, "stopped_since", lambda heartbeat, moment_s: False)
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


def clocked_model(clock: StoppedClock):
    """A model each of whose steps, in training or not, takes a quarter of a second of the clock."""
    import keras

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
