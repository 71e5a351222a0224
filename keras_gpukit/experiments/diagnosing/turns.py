"""Measures a pipeline, a model's computing and both together in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_gpukit.experiments.diagnosing.processor_time import busy_cpu_s, wait_until_quiet
from keras_gpukit.experiments.rates import Call, Step, hold, rate_of, run_for
from keras_gpukit.records.diagnosis import Round
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.sensors.sampling import SamplingThread

# Their range is a 94 % interval of the median. Not more: each time a round empties a buffer that
# was full, tf.data may double it, and filling it takes ever longer.
ROUNDS = 5
# Where a step takes seconds, fewer have to do.
FEWEST_ROUNDS = 3
# Coming to rest takes time of its own; a round that would need more than this is not begun.
LEEWAY = 0.25
KINDS = ("data alone", "together", "compute alone")
STRETCHES = ROUNDS * len(KINDS)
# Training has half of a round. Where computing limits, the buffers fill again at its beginning,
# and making more batches than are used takes cores.
SHARES = (1 / 4, 1 / 2, 1 / 4)
TRAINING_SETTLES = 0.4
# Of the time, for what is slow only at the beginning, when tf.data tunes itself.
WARM_UP = 0.1
# Buffers may hold many batches; whatever never comes to rest costs this much in each round.
REST_S = 2.0
# Naps of 5 ms in all: seldom enough not to slow training down, often enough for a median.
NAP_EVERY_S = 0.05

Tell = Callable[[str, int], None]


class Turns:
    """Rounds in which each kind is measured once, so that a drift of the machine meets all alike.

    The order matters. Iterating alone leaves the pipeline's buffers empty, so that training from
    it is not flattered by what was prepared before; and before training from memory the pipeline
    is given the time to fill them, so that it is at rest.

    Args:
        model: A compiled model.
        source: What it is trained from, endless.
        seconds: How long to measure.
        tell: Told what comes next, and how many stretches of `STRETCHES` are done.

    Attributes:
        rounds: What was measured.
        examples_per_batch: Mean number of examples in a batch; None if batches have no such axis.
    """

    def __init__(self, model: Any, source: Any, seconds: float, tell: Tell) -> None:
        self.source = source
        self.rounds: list[Round] = []
        self.examples_per_batch: float | None = None
        self._model = model
        self._warm_up_s = WARM_UP * seconds
        self._rounds_s = (1 - WARM_UP) * seconds
        self._tell = tell

    def take(self, step: Step, iterator: Any) -> None:
        """Measures; called where `fit` would train.

        Args:
            step: The model's step function.
            iterator: Keras' own over the source.
        """
        self._tell("first steps", 0)
        held = hold(iterator, getattr(self.source, "element_spec", None))
        self.examples_per_batch = _mean_examples(held)
        strategy = self._model.distribute_strategy
        memory = iter(strategy.experimental_distribute_dataset(held.repeat()))

        def fetch() -> Any:
            return next(iterator)

        def train() -> Any:
            return step(iterator)

        def replay() -> Any:
            return step(memory)

        replay()
        train()
        run_for(train, self._warm_up_s)
        end = time.perf_counter() + (1 + LEEWAY) * self._rounds_s
        for _ in range(ROUNDS):
            began = time.perf_counter()
            self.rounds.append(self._round(fetch, train, replay))
            ended = time.perf_counter()
            if len(self.rounds) >= FEWEST_ROUNDS and ended + (ended - began) > end:
                break

    def _round(self, fetch: Call, train: Call, replay: Call) -> Round:
        data_s, actual_s, compute_s = (share * self._rounds_s / ROUNDS for share in SHARES)
        batches = self._model.steps_per_execution
        self._announce(0)
        data_only = rate_of(fetch, data_s)
        self._announce(1)
        with _watched() as sensor:
            actual = rate_of(train, actual_s, batches=batches, settling=TRAINING_SETTLES)
            contention = sensor.record()
        self._announce(2)
        wait_until_quiet(REST_S)
        compute_only = rate_of(replay, compute_s, batches=batches)
        return Round(
            data_only, actual, compute_only, contention.cores_busy_fraction, contention.gil_wait_s
        )

    def _announce(self, kind: int) -> None:
        self._tell(
            f"round {len(self.rounds) + 1}: {KINDS[kind]}", len(self.rounds) * len(KINDS) + kind
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
