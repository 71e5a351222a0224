"""Measures a pipeline, a model's computation and both together, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_gpukit.records.diagnosis import Round
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.sensors.sampling import SamplingThread
from keras_gpukit.trials.measuring.held_batches import hold, replay
from keras_gpukit.trials.measuring.inside_fit import Step
from keras_gpukit.trials.measuring.processor_time import (
    busy_cpu_s,
    own_cpu_s,
    wait_until_quiet,
)
from keras_gpukit.trials.measuring.rates import Call, rate_of, run_for

# A machine's speed changes as much within seconds as within minutes, so many rounds give a more
# precise result than long ones. But when a round empties a full buffer, tf.data may double it, and
# refilling it takes cores from training. So a pipeline that uses cores gets fewer rounds than one
# that only waits, such as for files on slow storage. The range of six rounds is a 97 % interval of
# the median. For twelve rounds, the interval leaves out two rounds on each side.
ROUNDS, WAITING_ROUNDS = 6, 12
# Share of one core. A pipeline that uses less while it is iterated alone only waits.
WAITING_SHARE = 0.2
# A round with fewer batches would not show the average behavior of the pipeline.
ROUND_BATCHES = 100
# Enough rounds if a step takes seconds.
FEWEST_ROUNDS = 3
# Waiting until the pipeline is idle takes additional time, up to this share of the planned time. A
# round that would take more is not started.
LEEWAY = 0.25
# Shares of a round's time: pipeline alone, training, and computation alone.
SHARES = (0.2, 0.45, 0.35)
TRAINING_SETTLES = 0.4
# Shares of the total time: for the slow start, while tf.data tunes itself, and (used twice) for
# measuring whether the pipeline uses cores.
WARM_UP, PROBE = 0.06, 0.02
# Maximum wait for an idle pipeline. Buffers may hold many batches; a pipeline that never becomes
# idle costs this time in each wait.
REST_S = 2.0
# If the pipeline becomes idle within this time, its buffers were nearly full.
FULL_S = 0.05
# Interval of the contention samples, each of three naps of a millisecond. It is long enough not to
# slow training down, and short enough for a median.
NAP_EVERY_S = 0.05

Tell = Callable[[str, float], None]


class Turns:
    """Measures in rounds: pipeline alone, training, and computation alone.

    Each round has all three, so that drift of the machine's speed affects them equally. Their order
    matters. Iterating the pipeline alone empties its buffers, so batches prepared earlier do not
    make training look faster. If the pipeline keeps up with training, its buffers are full
    throughout `fit`, so they are refilled before training. Before training from memory, the buffers
    of every pipeline are refilled, so that it is idle.

    Args:
        model: A compiled model.
        source: Endless source of batches, of any type that `fit` accepts.
        seconds: Duration of the measurement.
        tell: Called with the name of the next stage, and the completed share from 0 to 1.

    Attributes:
        source: Same as the argument.
        rounds: The measured rounds.
        examples_per_batch: Mean number of examples per batch; None if batches have no batch axis.
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
        """Measures all rounds; must be called at the point where `fit` would train.

        Args:
            step: The step function that Keras made for the model.
            iterator: The iterator that Keras made over the source.
        """
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
        run_for(fetch, self._probe_s)  # takes the batches that were made earlier
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
