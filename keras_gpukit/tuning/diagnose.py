"""`diagnose`: measures how much faster a model would train if its input were free."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose, refuse
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.tuning import Diagnosis, Round
from keras_gpukit.reports.rates import diagnosis_view as render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.rules.gains import ceiling_gain
from keras_gpukit.rules.input.contention import contention, contradicts
from keras_gpukit.rules.savings import of_rates
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.sensors.sampling_thread import SamplingThread
from keras_gpukit.tuning.measured_rates import (
    Call,
    Step,
    busy_cpu_s,
    hold,
    rate_of,
    replay,
    run_for,
    summarize,
    wait_until_quiet,
    within_fit,
)
from keras_gpukit.tuning.sources import (
    ProgressLine,
    ShowProgress,
    check_experiment,
    check_model,
    endless,
)

# A machine's speed changes as much within seconds as within minutes, so many rounds give a more
# precise result than long ones. But when a round empties a full buffer, tf.data may double it, and
# refilling it takes cores from training. The range of six rounds is a 97 % interval of the median.
ROUNDS = 6
# Enough rounds if a step takes seconds.
FEWEST_ROUNDS = 3
# Waiting until the pipeline is idle takes additional time, up to this share of the planned time. A
# round that would take more is not started.
LEEWAY = 0.25
# Shares of a round's time: pipeline alone, training, and computation alone.
SHARES = (0.2, 0.45, 0.35)
TRAINING_SETTLES = 0.4
# Share of the total time for the slow start, while tf.data tunes itself.
WARM_UP = 0.1
# Maximum wait for an idle pipeline. Buffers may hold many batches; a pipeline that never becomes
# idle costs this time in each wait.
REST_S = 2.0
# If the pipeline becomes idle within this time, its buffers were nearly full.
FULL_S = 0.05
# Interval of the contention samples, each of three naps of a millisecond. It is long enough not to
# slow training down, and short enough for a median.
NAP_EVERY_S = 0.05


class RoundsInFit:
    """Measures in rounds: pipeline alone, training, and computation alone.

    Each round has all three, so that drift of the machine's speed affects them equally. Their order
    matters. Iterating the pipeline alone empties its buffers, so batches prepared earlier do not
    make training look faster. If the pipeline keeps up with training, its buffers are full
    throughout `fit`, so they are refilled before training. Before training from memory, the buffers
    of every pipeline are refilled, so that it is idle.
    """

    def __init__(
        self, model: Any, source: Any, seconds: float, show_progress: ShowProgress
    ) -> None:
        self.source = source
        self.rounds: list[Round] = []
        self.examples_per_batch: float | None = None
        self._model = model
        self._warm_up_s, self._rounds_s = WARM_UP * seconds, (1 - WARM_UP) * seconds
        self._show_progress = show_progress
        self._keeps_up = False

    def take(self, step: Step, iterator: Any) -> None:
        """Measures all rounds; must be called at the point where `fit` would train."""
        self._show_progress("first steps", 0)
        held = hold(iterator, getattr(self.source, "element_spec", None))
        self.examples_per_batch = _mean_examples(held)
        strategy = self._model.distribute_strategy
        memory = iter(strategy.experimental_distribute_dataset(replay(held)))

        fetch = partial(next, iterator)
        train, compute = partial(step, iterator), partial(step, memory)
        compute()
        train()
        run_for(train, self._warm_up_s)
        left_s = (1 + LEEWAY) * self._rounds_s
        for number in range(ROUNDS):
            self._show_progress(f"round {number + 1} of {ROUNDS}", number / ROUNDS)
            began = time.perf_counter()
            self.rounds.append(self._round(self._rounds_s / ROUNDS, fetch, train, compute))
            took_s = time.perf_counter() - began
            left_s -= took_s
            if len(self.rounds) >= FEWEST_ROUNDS and took_s > left_s:
                break

    def _round(self, seconds: float, fetch: Call, train: Call, compute: Call) -> Round:
        data_s, actual_s, compute_s = (share * seconds for share in SHARES)
        batches = self._model.steps_per_execution
        data_only = rate_of(fetch, data_s)
        if self._keeps_up:
            wait_until_quiet(REST_S)
        with _watched() as sensor:
            actual = rate_of(train, actual_s, batches=batches, settling=TRAINING_SETTLES)
            contended = sensor.contention_record()
        began = time.perf_counter()
        wait_until_quiet(REST_S)
        self._keeps_up = time.perf_counter() - began < FULL_S
        compute_only = rate_of(compute, compute_s, batches=batches)
        return Round(
            data_only, actual, compute_only, contended.cores_busy_fraction, contended.gil_wait_s
        )


@contextmanager
def _watched() -> Iterator[ContentionSensor]:
    sensor, thread = ContentionSensor(process_s=busy_cpu_s), SamplingThread(NAP_EVERY_S)
    thread.add_task("contention", sensor.take_naps)
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


def conclude(rounds: Sequence[Round]) -> Diagnosis:
    """Returns the medians of the rounds and the conclusions from them."""
    ceiling = summarize([round_.compute_only / round_.actual for round_ in rounds], "times")
    shortfall = summarize(
        [1 - round_.actual / min(round_.data_only, round_.compute_only) for round_ in rounds],
        "share",
    )
    in_sequence = statistics.median(
        round_.actual * (1 / round_.data_only + 1 / round_.compute_only) for round_ in rounds
    )
    data_only = summarize([round_.data_only for round_ in rounds])
    actual = summarize([round_.actual for round_ in rounds])
    is_contradictory = contradicts(data_only, actual)
    return Diagnosis(
        data_only=data_only,
        compute_only=summarize([round_.compute_only for round_ in rounds]),
        actual=actual,
        ceiling_gain=None if is_contradictory else ceiling_gain(ceiling),
        ceiling_interval=ceiling,
        contention=contention(
            shortfall,
            in_sequence,
            cores_busy_fraction=_median([round_.cores_busy_fraction for round_ in rounds]),
            gil_wait_s=_median([round_.gil_wait_s for round_ in rounds]),
        ),
        rounds=tuple(rounds),
        is_contradictory=is_contradictory,
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def diagnose(
    model: Any,
    dataset: Any,
    *,
    batch_size: int | None = None,
    seconds: float = 20.0,
    summary: RunSummary | None = None,
    verbose: Verbose = "auto",
) -> Diagnosis:
    """Measures the rates of the input, of the model, and of both together.

    In each of several rounds, it iterates the pipeline without the model, trains as `fit` does, and
    trains on a few batches in memory. The rate from memory divided by the rate of `fit` is the
    maximum speed-up of the steps by a better pipeline. The model is restored bit for bit, even if
    the experiment ends early: weights, optimizer, metrics and random numbers. Parts that were not
    built or compiled before are not afterwards. No callback of yours runs.

    The dataset is only iterated: from its start, and again if it ends. A dataset that reshuffles on
    each iteration has advanced by one iteration.

    Args:
        model: A compiled model, built or not.
        dataset: The argument of `fit`: a `tf.data.Dataset` of batches, a `keras.utils.PyDataset`,
            or a tuple of arrays `(x, y)` or `(x, y, sample_weight)`.
        batch_size: Examples per batch if the dataset is a tuple of arrays; 32 by default.
        seconds: Duration of the measurement. Tracing the train step and making the first batch take
            additional time. Slow steps may too, because there are at least three rounds.
        summary: Summary of a run of this model on this dataset, from `Monitor.summary`. The result
            then also has the time that the whole run would save, which includes epoch starts,
            validation and callbacks.
        verbose: 0 prints nothing; 1, 2 and "auto" show progress and print the result.

    Returns:
        The rates with their intervals, and the conclusions.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If the model is not compiled, the dataset is empty, or another argument is
            out of range. Exceptions of the dataset or the model are raised unchanged.

    Example:
        ```python
        diagnosis = gpukit.diagnose(model, dataset)
        diagnosis.ceiling_gain  # 1.4: steps are up to 1.4× faster with a better pipeline
        ```
    """
    check_experiment("diagnose", seconds=seconds)
    check_model(model)
    if summary is not None and not isinstance(summary, RunSummary):
        refuse("summary", "a RunSummary, such as Monitor.summary", summary, TypeError)
    check_verbose(verbose)
    began = time.perf_counter()
    with untouched(model), ProgressLine("diagnose", 1.0, shown=bool(verbose)) as show_progress:
        rounds = RoundsInFit(model, endless(dataset, batch_size), seconds, show_progress)
        within_fit(model, rounds.source, rounds.take)
    result = conclude(rounds.rounds)
    diagnosis = replace(
        result,
        saving=of_rates(summary, result.ceiling_interval)
        if summary is not None and result.ceiling_gain is not None
        else None,
        examples_per_batch=rounds.examples_per_batch,
        spent_s=time.perf_counter() - began,
    )
    if verbose:
        print_anywhere(render(diagnosis))
    return diagnosis
