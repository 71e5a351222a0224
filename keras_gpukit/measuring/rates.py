"""How fast batches are made, and how fast a model trains on batches that are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.measuring.held_batches import replay
from keras_gpukit.measuring.inside_fit import Step, within_fit
from keras_gpukit.measuring.intervals import summarize
from keras_gpukit.records.diagnosis import Rate

# Of so many, three that were disturbed are left out of the interval on either side.
ROUNDS = 15
# Of each stretch, what is not counted: buffers are emptied or filled, idle cores wake up.
SETTLING = 0.25
# Fewer say nothing, however long they take.
MINIMUM_CALLS = 3

Call = Callable[[], Any]


def compute_rate(model: Any, batches: Any, *, seconds: float, rounds: int = ROUNDS) -> Rate:
    """Measures how fast a model trains on batches in memory, by its own compiled train step.

    It does train: call it within `untouched(model)`.

    Args:
        model: A compiled model.
        batches: Some batches in memory, from `hold`; they are trained on again and again.
        seconds: How long to measure. Tracing comes on top.
        rounds: Stretches that this time is divided into.
    """
    rates: list[float] = []

    def experiment(step: Step, iterator: Any) -> None:
        def train() -> Any:
            return step(iterator)

        run_for(train, seconds / rounds)
        batches_each = model.steps_per_execution
        rates.extend(rate_of(train, seconds / rounds, batches=batches_each) for _ in range(rounds))

    within_fit(model, replay(batches), experiment)
    return summarize(rates)


def rate_of(call: Call, seconds: float, *, batches: int = 1, settling: float = SETTLING) -> float:
    """Measures how often something can be done once it has settled.

    Args:
        call: What is done.
        seconds: How long, the settling included.
        batches: Batches in one call.
        settling: The share of the time that is not counted.

    Returns:
        Batches a second.
    """
    run_for(call, settling * seconds)
    began = time.perf_counter()
    calls = run_for(call, (1 - settling) * seconds, at_least=MINIMUM_CALLS)
    return calls * batches / (time.perf_counter() - began)


def run_for(call: Call, seconds: float, *, at_least: int = 1) -> int:
    """Calls again and again, and waits for the devices at the end.

    Returns:
        How many calls there were.
    """
    import tensorflow as tf

    calls = 0
    end = time.perf_counter() + seconds
    while calls < at_least or time.perf_counter() < end:
        call()
        calls += 1
    tf.test.experimental.sync_devices()
    return calls
