"""Measures rates: of any function, and of training on batches in memory; and processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.records.diagnosis import Rate
from keras_gpukit.sensors.interpreter import usable_cores
from keras_gpukit.trials.measuring.inside_fit import Step, replay, within_fit
from keras_gpukit.trials.measuring.intervals import summarize

# With 15 rounds, the interval leaves out the three lowest and the three highest rates.
ROUNDS = 15
# Share of each measurement that is not counted, while buffers empty or fill and idle cores wake up.
SETTLING = 0.25
# Fewer calls give no reliable rate, however long they take.
MINIMUM_CALLS = 3

# Share of one core. Below it, a process runs nothing but periodic checks.
QUIET_SHARE = 0.1
LOOK_EVERY_S = 0.02

Call = Callable[[], Any]


def compute_rate(model: Any, held: Any, *, seconds: float, rounds: int = ROUNDS) -> Rate:
    """Measures how fast a model trains on batches in memory, with its own compiled train step.

    This trains the model: call it within `untouched(model)`.
    """
    rates: list[float] = []

    def experiment(step: Step, iterator: Any) -> None:
        def train() -> Any:
            return step(iterator)

        each_s, batches = seconds / rounds, model.steps_per_execution
        run_for(train, each_s)
        rates.extend(rate_of(train, each_s, batches=batches) for _ in range(rounds))

    within_fit(model, replay(held), experiment)
    return summarize(rates)


def rate_of(call: Call, seconds: float, *, batches: int = 1, settling: float = SETTLING) -> float:
    """Returns how many batches per second a function gives once its speed has settled."""
    run_for(call, settling * seconds)
    began = time.perf_counter()
    calls = run_for(call, (1 - settling) * seconds, at_least=MINIMUM_CALLS)
    return calls * batches / (time.perf_counter() - began)


def run_for(call: Call, seconds: float, *, at_least: int = 1) -> int:
    """Calls a function repeatedly, waits for the devices, and returns the number of calls."""
    import tensorflow as tf

    calls = 0
    end = time.perf_counter() + seconds
    while calls < at_least or time.perf_counter() < end:
        call()
        calls += 1
    tf.test.experimental.sync_devices()
    return calls


def busy_cpu_s() -> float:
    """Returns the seconds for which the cores available to this process were busy.

    If all cores are available, the work of other processes counts too. If not, as in some
    containers, only this process and its children count.
    """
    import psutil

    if usable_cores() != psutil.cpu_count():
        return own_cpu_s()
    times = psutil.cpu_times()
    # Linux counts time spent on guests as user time too.
    aside = ("idle", "iowait", "guest", "guest_nice")
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in aside))


def own_cpu_s() -> float:
    """Returns the processor seconds that this process and its running descendants have used."""
    import psutil

    spent_s = time.process_time()
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile
        spent_s += times.user + times.system
    return spent_s


def wait_until_quiet(limit_s: float) -> None:
    """Waits until this process is idle, for example because its buffers are full."""
    end = time.perf_counter() + limit_s
    while time.perf_counter() < end:
        before_s = time.process_time()
        time.sleep(LOOK_EVERY_S)
        if time.process_time() - before_s < QUIET_SHARE * LOOK_EVERY_S:
            return
