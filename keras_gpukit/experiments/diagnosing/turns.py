"""Measures a pipeline, a model's computing and both together in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_gpukit.measuring.held_batches import hold, replay
from keras_gpukit.measuring.inside_fit import Step
from keras_gpukit.measuring.processor_time import (
    busy_cpu_s,
    own_cpu_s,
    wait_until_quiet,
)
from keras_gpukit.measuring.rates import Call, rate_of, run_for
from keras_gpukit.records.diagnosis import Round
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.sensors.sampling import SamplingThread

# A machine's speed changes as much within seconds as within minutes, so many rounds give a more
# precise result than long ones. But when a round empties a full buffer, tf.data may double it, and
# refilling it takes cores from training. So a pipeline that uses cores gets fewer rounds than one
# that only waits, such as for files on slow storage. Six
# rounds' range is a 97 % interval of the median; of twelve, two are left out on each side.
ROUNDS, WAITING_ROUNDS = 6, 12
# Of one core, while the pipeline is iterated alone.
WAITING_SHARE = 0.2
# Rounds of fewer batches would not show the mean behaviour of the pipeline.
ROUND_BATCHES = 100
# Enough where a step takes seconds.
FEWEST_ROUNDS = 3
# Waiting for idle takes additional time; a round that would exceed this share is not started.
LEEWAY = 0.25
# Of a round: data alone, together, compute alone.
SHARES = (0.2, 0.45, 0.35)
TRAINING_SETTLES = 0.4
# Shares of the time: for the slow start, while tf.data tunes itself; and (twice) for finding out
# whether the pipeline uses cores.
WARM_UP, PROBE = 0.06, 0.02
# Buffers may hold many batches; a pipeline that never becomes idle costs this much per round.
REST_S = 2.0
# Buffers that fill within this time were nearly full.
FULL_S = 0.05
# For three naps of a millisecond: too seldom to slow training down, often enough for a median.
NAP_EVERY_S = 0.05

Tell = Callable[[str, float], None]


class Turns:
    """Rounds that measure each kind once, so that drift of the machine's speed affects all alike.

    The order matters. Iterating the pipeline alone empties its buffers, so batches prepared earlier
    do not make training look faster. A pipeline that keeps up with training refills them first, as
    they are full throughout `fit`; and before training from memory every pipeline does, so that it
    is idle.

    Args:
        model: A compiled model.
        source: What it is trained from, endless.
        seconds: How long to measure.
        tell: Called with the next stage and the share that is done, 0 to 1.

    Attributes:
        rounds: What was measured.
        examples_per_batch: Mean number of examples in a batch; None if batches have no such axis.
    """

    def __init__(self, model: Any, source: Any, seconds: float, tell: Tell) -> None:
        self.source = source
        self.rounds: list[Round] = []
        self.examples_per_batch: float | None = None
        self._model = model
        self._warm_up_s, self._probe_s = WARM_UP * seconds, PROBE * seconds
        self._rounds_s = (1 - WARM_UP - 2 * PROBE) * seconds
        self._tell = tell
        self._keeps_up = False

    def take(self, step: Step, iterator: Any) -> None:
        """Measures; called at the point where `fit` would train."""
        self._tell("first steps", 0)
        held = hold(iterator, getattr(self.source, "element_spec", None))
        self.examples_per_batch = _mean_examples(held)
        strategy = self._model.distribute_strategy
        memory = iter(strategy.experimental_distribute_dataset(replay(held)))

        def fetch() -> Any:
            return next(iterator)

        def train() -> Any:
            return step(iterator)

        def compute() -> Any:
            return step(memory)

        compute()
        train()
        run_for(train, self._warm_up_s)
        rounds = self._choose_rounds(fetch)
        left_s = (1 + LEEWAY) * self._rounds_s
        for number in range(rounds):
            self._tell(f"round {number + 1} of {rounds}", number / rounds)
            began = time.perf_counter()
            self.rounds.append(self._round(self._rounds_s / rounds, fetch, train, compute))
            took_s = time.perf_counter() - began
            left_s -= took_s
            if len(self.rounds) >= FEWEST_ROUNDS and took_s > left_s:
                break

    def _choose_rounds(self, fetch: Call) -> int:
        run_for(fetch, self._probe_s)  # batches made earlier
        began, spent_s = time.perf_counter(), own_cpu_s()
        batches = run_for(fetch, self._probe_s)
        took_s = time.perf_counter() - began
        if own_cpu_s() - spent_s > WAITING_SHARE * took_s:
            return ROUNDS
        in_all = self._rounds_s * batches / took_s
        return max(ROUNDS, min(WAITING_ROUNDS, int(in_all / ROUND_BATCHES)))

    def _round(self, seconds: float, fetch: Call, train: Call, compute: Call) -> Round:
        data_s, actual_s, compute_s = (share * seconds for share in SHARES)
        batches = self._model.steps_per_execution
        data_only = rate_of(fetch, data_s)
        if self._keeps_up:
            wait_until_quiet(REST_S)
        with _watched() as sensor:
            actual = rate_of(train, actual_s, batches=batches, settling=TRAINING_SETTLES)
            contention = sensor.record()
        began = time.perf_counter()
        wait_until_quiet(REST_S)
        self._keeps_up = time.perf_counter() - began < FULL_S
        compute_only = rate_of(compute, compute_s, batches=batches)
        return Round(
            data_only, actual, compute_only, contention.cores_busy_fraction, contention.gil_wait_s
        )


@contextmanager
def _watched() -> Iterator[ContentionSensor]:
    sensor, thread = ContentionSensor(process_s=busy_cpu_s), SamplingThread(NAP_EVERY_S)
    thread.add("contention", sensor.read)
    thread.start()
    try:
        yield sensor
    finally:
        thread.stop()


def _mean_examples(held: Any) -> float | None:
    import tensorflow as tf

    firsts = [next(part for part in tf.nest.flatten(batch) if part is not None) for batch in held]
    lengths = [int(tf.shape(first)[0]) for first in firsts if first.shape.rank]
    return statistics.fmean(lengths) if lengths else None
