"""Utilization: what `Utilization` reports of a busy and of a waiting GPU."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.gpu.judging import judge_each
from benchmarks.gpu.part import Claim, Measured, Outcome, Part, Slice

LOADS = ("busy", "waiting")
"""Steps that follow each other, and steps that wait twice as long as they compute."""
SECONDS = 8.0

CLAIMS = (
    Claim(
        "loads",
        "a busy GPU has at least 90 % utilization, and a waiting one is at least 20 percentage "
        "points lower",
        "other figures, in which case utilization shows less than assumed",
    ),
    Claim(
        "others",
        "no memory of other processes is reported on a GPU that has none, also in a container",
        "memory of others",
    ),
)


def run_loads(size: int, duration_s: float) -> dict[str, Any]:
    """Fits under each load with `Utilization`.

    Args:
        size: Width of the layers and examples in a batch.
        duration_s: Seconds of each load.
    """
    from dataclasses import asdict

    import keras
    import tensorflow as tf

    import keras_gpukit as gpukit

    gpukit.configure_gpus(verbose=False)
    layers = [keras.layers.Dense(size) for _ in range(2)]
    model = keras.Sequential([keras.Input((1,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    batch = tf.ones((size, 1)), tf.ones((size, 1))

    class Until(keras.callbacks.Callback):
        def __init__(self, ends_s: float) -> None:
            super().__init__()
            self._ends_s = ends_s

        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = time.monotonic() >= self._ends_s

    def fit(dataset: Any, seconds: float, *callbacks: Any) -> None:
        until = Until(time.monotonic() + seconds)
        arguments = {"steps_per_epoch": 10, "epochs": 10**6, "verbose": 0}
        model.fit(dataset.repeat(), callbacks=[*callbacks, until], **arguments)

    def waits(*batch: Any) -> Any:
        slept = tf.py_function(lambda: time.sleep(2 * step_s), [], [])
        with tf.control_dependencies([slept]):
            return tuple(map(tf.identity, batch))

    steady = tf.data.Dataset.from_tensors(batch)
    fit(steady, 0.0)  # traces
    start_s = time.monotonic()
    fit(steady, 0.0)
    step_s = (time.monotonic() - start_s) / 10
    figures = {}
    for load, dataset in zip(LOADS, (steady, steady.repeat().map(waits)), strict=True):
        utilization = gpukit.Utilization(None)
        fit(dataset, duration_s, utilization)
        figures[load] = [asdict(each) for each in utilization.summary.gpus]
    return figures


def judge_loads(figures: dict[str, Any]) -> Outcome:
    busy, waiting = (
        figures[load][0]["utilization_percent"] if figures[load] else None for load in LOADS
    )
    if busy is None or waiting is None:
        return Outcome(None, "NVML does not report utilization here")
    return Outcome(
        busy >= 90 and waiting <= busy - 20,
        f"Utilization is {busy:.0f} % under the busy load, {waiting:.0f} % under the waiting one.",
    )


def judge_others(figures: dict[str, Any]) -> Outcome:
    others = [gpu["memory_others_max_bytes"] for gpu in figures["busy"]]
    said = "nothing is" if not any(others) else f"{max(filter(None, others)) / 2**20:.0f} MiB are"
    return Outcome(not any(others), f"Of the memory of other processes, {said} reported.")


def judge(measured: Measured) -> dict[str, Outcome]:
    """Judges what both loads show."""
    judges = {"loads": judge_loads, "others": judge_others}
    return judge_each(measured, {claim: (("loads",), judges[claim]) for claim in judges})


PART = Part(
    "utilization",
    "Does `Utilization` report whether a GPU is busy?",
    {
        "all": Slice(
            lambda small, _: [
                ("loads", partial(run_loads, 64 if small else 8192, 1.0 if small else SECONDS))
            ],
            40,
        )
    },
    CLAIMS,
    judge,
)
