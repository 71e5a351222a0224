"""Measures rates where `fit` would train, on batches in memory too, with their intervals."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from keras_gpukit.input.pipelines.host_buffers import TENSOR_BYTES
from keras_gpukit.records.tuning import Rate
from keras_gpukit.rules.comparing.intervals import student
from keras_gpukit.sensors.host import busy_and_total_s
from keras_gpukit.sensors.interpreter import usable_cores

# The number of batches that training would have ready, and the memory they may take together.
HELD_BATCHES = 8
HELD_BYTES = 2**29
# Assumed size of a string in addition to its bytes. Our choice.
STRING_BYTES = 24

Step = Callable[[Any], Any]
Experiment = Callable[[Step, Any], None]


def within_fit(model: Any, source: Any, experiment: Experiment) -> None:
    """Runs an experiment at the point where `fit` would train.

    The iterator and the step function are therefore those that Keras itself makes. The step
    function is rebuilt, so the traces of the user's own training are neither used nor changed. No
    callback of the user runs. Call this within `untouched(model)`. What the experiment raises is
    raised after Keras has stopped the workers of a PyDataset.
    """
    import keras
    import tensorflow as tf

    finished = False
    failure: BaseException | None = None

    def take_over(logs: Any = None) -> None:
        step = model.train_function

        def once(iterator: Any) -> None:
            nonlocal finished, failure
            try:
                experiment(step, iterator)
                finished = True
            except (StopIteration, tf.errors.OutOfRangeError):
                pass  # the source ran out
            except BaseException as error:
                failure = error
            # Ends the epoch, where Keras stops the workers of a PyDataset.
            raise StopIteration

        model.train_function = once

    model.train_function = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        warnings.filterwarnings("ignore", ".*shuffle=True. was passed")
        begin = keras.callbacks.LambdaCallback(on_train_begin=take_over)
        try:
            model.fit(source, epochs=1, verbose=0, callbacks=[begin])
        except Exception:
            # Keras may fail to compute the logs of an epoch without a step.
            if failure is None:
                raise
    if failure is not None:
        raise failure
    if not finished:
        raise has_ended()


def without_model(source: Any, experiment: Experiment) -> None:
    """Runs an experiment with the iterator that Keras makes over a source."""
    import keras

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> dict[str, Any]:
            return {}

    model = Idle()
    model.compile(jit_compile=False)
    within_fit(model, source, experiment)


def hold(iterator: Any, element_spec: Any = None) -> Any:
    """Takes up to 512 MiB of batches from a pipeline into memory, as a finite `tf.data.Dataset`.

    It has the pipeline's `element_spec`, so that these batches cause no new trace; if that is
    unknown, their own with an open batch size, as in Keras. Batches that a strategy has split are
    joined again.
    """
    import tensorflow as tf

    held: Any = None
    size = 0
    for _ in range(HELD_BATCHES):
        try:
            batch = tf.nest.map_structure(_put_together, next(iterator))
        except StopIteration:
            raise has_ended() from None
        one = tf.data.Dataset.from_tensors(batch)
        held = one if held is None else held.concatenate(one)
        size += size_bytes(batch)
        if size > HELD_BYTES:
            break
    if element_spec is None:
        element_spec = tf.nest.map_structure(_leave_open, held.element_spec)
    variant = tf.data.experimental.to_variant(held)
    return tf.data.experimental.from_variant(variant, element_spec)


def replay(held: Any) -> Any:
    """Returns an endless dataset that repeats batches from memory.

    Autotuning is off because there is nothing to tune. Its thread may also miss its cancellation
    and then sleep for as long as the iterator has lived.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return held.repeat().prefetch(HELD_BATCHES).with_options(options)


def _put_together(part: Any) -> Any:
    import tensorflow as tf

    divided = isinstance(part, tf.distribute.DistributedValues)
    return tf.concat(part.values, axis=0) if divided else part


def _leave_open(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec((None, *spec.shape[1:]), spec.dtype)


def size_bytes(element: Any) -> int:
    """Returns the bytes that an element of a pipeline takes in memory."""
    import tensorflow as tf

    total = 0
    for part in tf.nest.flatten(element, expand_composites=True):
        if part is None:
            continue
        count = int(tf.size(part))
        if part.dtype == tf.string:
            text_bytes = int(tf.reduce_sum(tf.strings.length(part)))
            total += TENSOR_BYTES + STRING_BYTES * count + text_bytes
        else:
            total += TENSOR_BYTES + part.dtype.size * count
    return total


def has_ended() -> ValueError:
    """Returns the error for a dataset that ended although it should be endless."""
    return ValueError(
        "`dataset` must have at least one batch, and it must be possible to iterate over it again, "
        "which an exhausted generator does not allow. Received: a dataset that ended"
    )


CONFIDENCE = 0.95


def summarize(rounds: Sequence[float], unit: str = "batches/s") -> Rate:
    """Returns the median of the rounds' rates with its confidence interval."""
    return Rate(statistics.median(rounds), *median_interval(rounds), unit)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the confidence interval of the median, for any distribution (sign test).

    A value is as likely above the true median as below it, so the number of values on one side
    follows the binomial distribution. For five values or fewer, the interval is their whole range.
    Its confidence is then below 95 %: 94 % for five values, 75 % for three.
    """
    ordered = sorted(values)
    count, outside, tail = len(ordered), 0, 1 / 2 ** len(ordered)
    while True:
        tail += math.comb(count, outside + 1) / 2**count
        if 2 * tail > 1 - CONFIDENCE:
            return ordered[outside], ordered[-1 - outside]
        outside += 1


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns Student's t interval of the mean of several values; it is infinite for one value."""
    mean, freedom = statistics.fmean(values), len(values) - 1
    if not freedom:
        return -math.inf, math.inf
    half = student(freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


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
        train = partial(step, iterator)
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

    return busy_and_total_s()[0] if usable_cores() == psutil.cpu_count() else own_cpu_s()


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
