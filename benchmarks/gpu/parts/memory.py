"""Memory: what `GPUMemory` reports of tensors of known sizes, and of a real out-of-memory error."""

from __future__ import annotations

import os
import statistics
import time
from functools import partial
from typing import Any

from benchmarks.gpu.nvml import added_bytes, read_gpus
from benchmarks.gpu.part import Claim, Outcome, Part, Slice

GIB = 2**30
MIB = 2**20
HELD, SPIKE = 2, 3
"""Units that a variable holds, and that a step takes for a moment."""
CPU_ALLOCATOR = {
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256",
}


def count_as_gpus_do() -> None:
    """Without a GPU, gives the CPU an allocator that keeps count and runs out, as a GPU's does.

    Before TensorFlow's runtime starts.
    """
    if not read_gpus():
        os.environ.update(CPU_ALLOCATOR)


def plant(small: bool) -> dict[str, Any]:
    """Fits models while tensors of known sizes are held or taken for a moment."""
    unit = 8 * MIB if small else 2 * GIB
    count_as_gpus_do()
    before = read_gpus()
    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)

    class Spike(keras.layers.Layer):
        def call(self, inputs):
            drawn = tf.random.uniform([SPIKE * unit // 4])
            return inputs + 1e-30 * tf.reduce_max(drawn)

    class FirstOnly(keras.layers.Layer):
        """Takes memory in its first call alone, as the search for algorithms does."""

        def build(self, shape):
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, inputs):
            def taken():
                return tf.reduce_max(tf.random.uniform([SPIKE * unit // 4]))

            spike = tf.cond(self.calls < 1, taken, lambda: 0.0)
            with tf.control_dependencies([self.calls.assign_add(1.0)]):
                return inputs + 1e-30 * spike

    def build(*layers: Any) -> Any:
        model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        return model

    plain, spiking = build(), build(Spike())

    def read(model: Any, **arguments: Any) -> dict[str, int]:
        memory = gpukit.GPUMemory(None, **arguments)
        model.fit(tf.zeros((32, 8)), tf.zeros((32, 1)), verbose=0, callbacks=[memory])
        device = memory.summary.devices[0]
        return {"current": device.current_bytes, "peak": device.peak_bytes}

    read(plain)  # what the first run loads stays
    figures: dict[str, Any] = {"unit": unit, "base": read(plain)}
    held = tf.Variable(tf.zeros([HELD * unit // 4]))
    figures["held"] = read(plain)
    figures["spike"] = read(spiking)
    figures["kept_peak"] = read(plain, reset_peak=False)
    figures["after"] = read(plain)
    figures["first_step"] = read_first_step(build(FirstOnly()), 1.5 if small else 5.0)
    figures["added_bytes"] = added_bytes(before, read_gpus())
    del held  # not before
    return figures | time_readings(256 if small else 16384)


def read_first_step(model: Any, seconds: float) -> dict[str, int | None]:
    """Fits for some seconds, so that the later steps are read, about once a second."""
    import tensorflow as tf

    import keras_gpukit as gpukit

    until_s = time.time() + seconds
    batch = tf.zeros((32, 8)), tf.zeros((32, 1))
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    data = batches.take_while(lambda *batch: tf.timestamp() < until_s)
    memory = gpukit.GPUMemory(None, predict=False)
    model.fit(data, verbose=0, callbacks=[memory])
    device = memory.summary.devices[0]
    return {
        "first": device.first_step_peak_bytes,
        "later": device.later_peak_bytes,
    }


def time_readings(size: int) -> dict[str, float]:
    """Times readings of the allocator while products of this size are still being computed."""
    import tensorflow as tf

    [device, *_] = [each.name for each in tf.config.list_logical_devices("GPU")] or ["CPU:0"]
    name = device.split("device:")[-1]
    product = values = tf.random.normal((size, size), stddev=size**-0.5)
    product = tf.linalg.matmul(product, values)
    product.numpy()
    start_s = time.perf_counter()
    for _ in range(50):  # on a GPU these only start here
        product = tf.linalg.matmul(product, values)
    readings = []
    for _ in range(200):
        reading_s = time.perf_counter()
        tf.config.experimental.get_memory_info(name)
        readings.append(1e6 * (time.perf_counter() - reading_s))
    read_s = time.perf_counter() - start_s
    tf.reduce_sum(product).numpy()
    return {
        "reading_us": statistics.median(readings),
        "slowest_reading_us": max(readings),
        "readings_end_s": read_s,
        "products_end_s": time.perf_counter() - start_s,
    }


def run_out() -> dict[str, Any]:
    """Fits with a batch that no memory holds, then with one that fits."""
    count_as_gpus_do()
    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Lambda(lambda inputs: tf.repeat(inputs, 2**20, axis=1)),
            keras.layers.Lambda(lambda inputs: tf.sort(inputs)[:, :1]),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(None, verbose=0)

    def fit(examples: int) -> str | None:
        data = tf.zeros((examples, 1)), tf.zeros((examples, 1))
        try:
            model.fit(*data, batch_size=examples, verbose=0, callbacks=[monitor])
        except Exception as error:
            return type(error).__name__
        return None

    return {"too_large": fit(2**18), "then": fit(4), "steps": monitor.summary.steps}


def judge_difference(what: str, difference: int, planted: int) -> Outcome:
    return Outcome(
        abs(difference - planted) <= 0.02 * planted,
        f"{what} rose by {difference / planted:.2%} of the {planted / GIB:g} GiB planted.",
    )


def judge_held(case: dict[str, Any]) -> Outcome:
    rise = case["held"]["current"] - case["base"]["current"]
    return judge_difference("current_bytes", rise, HELD * case["unit"])


def judge_peak(case: dict[str, Any]) -> Outcome:
    rise = case["spike"]["peak"] - case["held"]["peak"]
    return judge_difference("peak_bytes", rise, SPIKE * case["unit"])


def judge_reset(case: dict[str, Any]) -> Outcome:
    spike = case["spike"]["peak"]
    half = case["held"]["peak"] + SPIKE * case["unit"] / 2
    return Outcome(
        case["kept_peak"]["peak"] >= spike and case["after"]["peak"] < half,
        f"After a peak of {spike / GIB:.2f} GiB, a later run's is "
        f"{case['after']['peak'] / GIB:.2f} GiB, "
        f"and {case['kept_peak']['peak'] / GIB:.2f} GiB with `reset_peak=False`.",
    )


def judge_nvml(case: dict[str, Any]) -> Outcome:
    added, peak = max(case["added_bytes"].values()), case["spike"]["peak"]
    return Outcome(
        peak <= added <= 2 * peak + 3 * GIB,
        f"NVML shows {added / GIB:.2f} GiB more, with a peak of {peak / GIB:.2f} GiB.",
    )


def judge_first_step(case: dict[str, Any]) -> Outcome:
    figures, planted = case["first_step"], SPIKE * case["unit"]
    if figures["first"] is None or figures["later"] is None:
        return Outcome(False, "The first step, or the later ones, were not read.")
    before = case["after"]["peak"]
    rise = judge_difference("first_step_peak_bytes", figures["first"] - before, planted)
    later = figures["later"] - before
    return Outcome(
        bool(rise.holds) and later < planted / 2,
        f"{rise.evidence[:-1]}; the later steps' peak by {later / planted:.2%} of it.",
    )


def judge_reading(case: dict[str, Any]) -> Outcome:
    if case["readings_end_s"] >= 0.5 * case["products_end_s"]:
        return Outcome(None, "the GPU was idle for part of the readings")
    took_us = case["reading_us"]
    return Outcome(took_us <= 100.0, f"The median reading is {took_us:.4g} µs, the limit 100 µs.")


def judge_out_of_memory(case: dict[str, Any]) -> Outcome:
    return Outcome(
        case["too_large"] == "ResourceExhaustedError" and case["then"] is None,
        f"The fit ended with {case['too_large'] or 'no error'}, the next one with "
        f"{case['then'] or 'no error'}.",
    )


PART = Part(
    "memory",
    "Is what `GPUMemory` reports the memory that tensors take?",
    {
        "planted": Slice(lambda small, _: [("planted", partial(plant, small))], 45),
        "out-of-memory": Slice(lambda small, _: [("out_of_memory", run_out)], 45),
    },
    (
        *(
            Claim(name, expected, judge, ("planted",))
            for name, expected, judge in (
                (
                    "held",
                    "a variable of 4 GiB raises `current_bytes` by 4 GiB, within 2 %",
                    judge_held,
                ),
                (
                    "peak",
                    "a step that takes 6 GiB for a moment raises `peak_bytes` by 6 GiB, within 2 %",
                    judge_peak,
                ),
                (
                    "reset",
                    "the peak of a later run is its own; with `reset_peak=False` it is that of the "
                    "process",
                    judge_reset,
                ),
                (
                    "nvml",
                    "the GPU's memory in use by NVML grew by the peak, and at most 3 GiB more than "
                    "twice that",
                    judge_nvml,
                ),
                (
                    "reading",
                    "reading an allocator takes at most 0.1 ms while the GPU computes for longer",
                    judge_reading,
                ),
                (
                    "first_step",
                    "a first step that takes 6 GiB for a moment raises `first_step_peak_bytes` by "
                    "6 GiB, within 2 %; the later steps' peak, which does not contain them, stays "
                    "below half of that",
                    judge_first_step,
                ),
            )
        ),
        Claim(
            "out_of_memory",
            "an out-of-memory error reaches the caller of a monitored fit as TensorFlow raised it, "
            "and a smaller batch then trains",
            judge_out_of_memory,
            ("out_of_memory",),
        ),
    ),
)
