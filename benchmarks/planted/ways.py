"""Ways of running a step of a known time, and fits whose stall is known in two other ways."""

from __future__ import annotations

import functools
import statistics
import time

import keras
import tensorflow as tf
from xplane_truth import Capture

import keras_gpukit as gpukit
from planted.known_times import (
    BATCH,
    FEATURES,
    READY,
    Pipeline,
    expected_stall,
    noting_arrivals,
    sleep,
)

# Long enough to tell two points of a hundred, short enough for a profile.
INTERVAL_S = 1.5
STEP_S, SHORT_STEP_S = 0.03, 0.006
LONGEST_CAPTURE = 48
AGREE = 0.02
ATTEMPTS = 3

# "short" has steps of 6 ms, the others of 30 ms.
MODES = {
    "graph": {"jit_compile": False},
    "short": {"jit_compile": False},
    "jit": {"jit_compile": True},
    "eager": {"jit_compile": False, "run_eagerly": True},
}


class Sleep(keras.layers.Layer):
    """Makes a step take a known time. XLA cannot sleep."""

    def __init__(self, step_s: float) -> None:
        super().__init__()
        self.step_s = step_s

    def call(self, inputs):
        # TensorFlow has no operation that sleeps, but a dataset can, and a step can ask one. It
        # needs the inputs, or it would sleep while they are being fetched; and asked for a second
        # element, as it is, it would sleep once more.
        needed = tf.data.Dataset.from_tensors(0.0 * tf.reduce_sum(inputs))
        slept = needed.apply(sleep(self.step_s)).take(1)
        return inputs + slept.get_single_element()


class Sort(keras.layers.Layer):
    """Makes a step take about as long by work, on one core."""

    def build(self, input_shape):
        self.numbers = self.add_weight(shape=(130_000,), trainable=False, initializer="normal")

    def call(self, inputs):
        least = keras.ops.sort(self.numbers + tf.reduce_sum(inputs))[0]
        return inputs + tf.stop_gradient(least)


class Executions(keras.callbacks.Callback):
    """Notes when executions begin and end."""

    def on_train_begin(self, logs=None):
        self.begins_s: list[float] = []
        self.ends_s: list[float] = []

    def on_train_batch_begin(self, batch, logs=None):
        self.begins_s.append(time.perf_counter())

    def on_train_batch_end(self, batch, logs=None):
        self.ends_s.append(time.perf_counter())


class Way:
    """A way of running: a name in `MODES`, steps in an execution, "one" or "two" devices."""

    def __init__(self, mode: str, an_execution: int, devices: str) -> None:
        self.an_execution = an_execution
        self.sleeps = mode != "jit"
        step_s = SHORT_STEP_S if mode == "short" else STEP_S
        self.longest_capture = round(LONGEST_CAPTURE * STEP_S / step_s)
        self.overlaps = an_execution > 1 and mode != "eager"
        strategy = tf.distribute.get_strategy()
        if devices == "two":
            [cpu] = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * 2
            )
            # TensorFlow's default way to add up over CPUs fails where an execution has more steps.
            strategy = tf.distribute.MirroredStrategy(
                ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
            )
        with strategy.scope():
            busy = Sleep(step_s) if self.sleeps else Sort()
            self.model = keras.Sequential([keras.Input((FEATURES,)), busy, keras.layers.Dense(1)])
            options = {"steps_per_execution": an_execution, **MODES[mode]}
            self.model.compile(keras.optimizers.SGD(1e-6), "mse", **options)

    def fit(self, data: object, *callbacks: keras.callbacks.Callback) -> None:
        inputs, targets = data if isinstance(data, tuple) else (data, None)
        self.model.fit(
            inputs, targets, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks)
        )

    def fit_with_pauses(self, data: object, *callbacks: keras.callbacks.Callback) -> list[float]:
        """Returns what passes after each execution until callbacks know of its end.

        Watching has its parts too, and the pipeline goes on meanwhile.
        """
        bare, executions, returned_s = self.model.train_function, Executions(), []

        def train_function(iterator):
            outputs = bare(iterator)
            returned_s.append(time.perf_counter())
            return outputs

        # It shall be taken for Keras' own.
        train_function.__module__ = bare.__module__
        self.model.train_function = train_function
        self.fit(data, *callbacks, executions)
        self.model.train_function = bare
        return [end - back for back, end in zip(returned_s, executions.ends_s, strict=True)]

    def ready_step_s(self, pipeline: Pipeline = READY) -> float:
        """Step time where the batch was made before, and is handed over."""
        executions, count = Executions(), 24 // self.an_execution
        self.fit(pipeline.make(count * self.an_execution, 0.0), executions)
        # A generator's end is looked for by an execution that does not end.
        spans = zip(executions.begins_s, executions.ends_s, strict=False)
        return statistics.median([end - begin for begin, end in spans][1:]) / self.an_execution

    def waiting_step_s(self, batch_s: float) -> float:
        """Step time from its batch's arrival, that long after the batch before.

        It finds cores that were idle, and so takes longer than one that never waits.
        """
        count = 5 if self.an_execution == 1 else 3
        executions, arrivals_s, steps = Executions(), [], count * self.an_execution
        self.fit(noting_arrivals(steps, batch_s, arrivals_s), executions)
        # Mirrored, Keras looks at a first batch before it begins.
        last_s = arrivals_s[-steps:][self.an_execution - 1 :: self.an_execution]
        spans = zip(last_s, executions.ends_s, strict=True)
        return statistics.fmean([end - last for last, end in spans][1:])

    def batch_s(self, percent: int) -> float:
        """Time from one batch to the next that stalls so much of a step, or half a step for 0."""
        step_s = self.ready_step_s()
        return step_s / (1 - percent / 100) if percent else step_s / 2

    def measure(self, pipeline: Pipeline, percent: int) -> dict[str, object]:
        """Fits with a pipeline so slow that a given part of the step is stalled.

        The part is in percent; for 0 the pipeline takes half as long as the step. Where the machine
        was disturbed what is known contradicts itself: then it is done again.
        """
        self.fit(pipeline.make(2 * self.an_execution, 0.0))  # traces
        for _ in range(ATTEMPTS):
            row = self.measure_once(pipeline, self.batch_s(percent), waits=percent > 0)
            if row["constructed"] is None or abs(row["constructed"] - row["profile"]) <= AGREE:
                break
        return row

    def measure_once(self, pipeline: Pipeline, batch_s: float, *, waits: bool) -> dict[str, object]:
        wanted = round(INTERVAL_S / batch_s / self.an_execution)
        steps = min(
            max(wanted * self.an_execution, 12, 5 * self.an_execution), self.longest_capture
        )
        time_step = functools.partial(self.waiting_step_s, batch_s) if waits else self.ready_step_s
        steps_s = [time_step()]
        stall, capture = gpukit.InputStall(None), Capture()
        pauses_s = self.fit_with_pauses(pipeline.make(steps, batch_s), stall, capture)
        steps_s.append(time_step())
        record, step_s = stall.summary, statistics.fmean(steps_s)
        made_s = pipeline.made_s(batch_s)
        # Where batches are waited for, handing them over is part of making them; and a step that
        # works, and does not sleep, takes times that differ by more than handing over takes.
        known = not waits and self.sleeps
        hand_over_s = max(self.ready_step_s(pipeline) - step_s, 0.0) if known else 0.0
        constructed = expected_stall(
            pipeline,
            made_s,
            hand_over_s,
            step_s,
            pauses_s,
            self.an_execution,
            overlaps=self.overlaps,
        )
        return {
            "reported": record.stall_fraction,
            "most": record.most_stall_fraction,
            "profile": capture.stall(overlapping=self.overlaps),
            "constructed": constructed,
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "steps": steps,
            "step_ms": 1e3 * step_s,
            "batch_ms": 1e3 * made_s,
        }
