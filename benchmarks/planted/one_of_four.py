"""One of the workers that `straggler_truth.py` starts: trains once for each trial that it is given.

    python one_of_four.py FOLDER INDEX TRIAL...

A trial is such as "input-2": the third worker's input is slow. The work of a step is a sleep, as if
there were a GPU for each worker, so that workers do not compete for this machine's cores. Before
each trial it waits for a file "go-<trial>", and the chief writes its verdict to "<trial>.json".
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit
from keras_gpukit.rules.cluster.compared_workers import exchange_s, margins_of, step_s

STEPS = 80
FEATURES, BATCH = 64, 64
WORK_S = 0.040
"""Of each worker's step."""
SLOW_WORK_S = 0.060
"""On top of it, of a worker whose compute is slow."""
SLOW_INPUT_S = 0.400
"""Of each global batch of a worker whose input is slow, which lasts for four steps of 40 ms."""


def main() -> None:
    """Trains."""
    folder, index, trials = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    setup = gpukit.configure_gpus(strategy="multi_worker", verbose=False)
    parent = os.getppid()
    for trial in trials:
        while not (folder / f"go-{trial}").exists():
            if os.getppid() != parent:
                os._exit(1)  # the benchmark was killed; TensorFlow would wait for the others
            time.sleep(0.05)
        kind, _, culprit = trial.partition("-")
        slow = kind if culprit == str(index) else "even"
        monitor = gpukit.Monitor(folder / trial, verbose=0)
        with setup.scope():
            model = made_model(WORK_S + (SLOW_WORK_S if slow == "compute" else 0.0))
        model.fit(data(slow == "input"), steps_per_epoch=STEPS, verbose=0, callbacks=[monitor])
        if index == 0:
            (folder / f"{trial}.json").write_text(json.dumps(verdict(monitor.summary)))
        (folder / f"done-{trial}-{index}").touch()


class Work(keras.layers.Layer):
    """Takes some time, as a GPU would."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def call(self, inputs: Any) -> Any:
        return inputs + 0.0 * tf.stop_gradient(slept(inputs, self.seconds))


def slept(tensor: Any, seconds: float) -> Any:
    """Returns the tensor after some time."""

    def sleep(value: Any) -> Any:
        time.sleep(seconds)
        return value

    return tf.ensure_shape(tf.numpy_function(sleep, [tensor], tf.float32), tensor.shape)


def made_model(work_s: float) -> keras.Model:
    model = keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(64), Work(work_s), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    return model


def data(is_slow: bool) -> tf.data.Dataset:
    """Batches without end; every worker makes all of them, and trains on a quarter of each."""
    rows = np.random.default_rng(0).random((BATCH, FEATURES), dtype="float32")
    batches = tf.data.Dataset.from_tensors((rows, rows[:, :1])).repeat()
    if is_slow:
        batches = batches.map(lambda x, y: (slept(x, SLOW_INPUT_S), y))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def verdict(summary: Any) -> dict[str, Any]:
    """What the chief says of its workers, and the figures that it rests on."""
    found = next((finding for finding in summary.findings if finding.code == "straggler"), None)
    saving = found.saving if found else None
    workers = summary.workers
    return {
        "found": found.title if found else None,
        "evidence": {figure.name: figure.value for figure in found.evidence} if found else {},
        "promised_s": [saving.low_s, saving.high_s] if saving else None,
        "steps": summary.steps,
        "wall_s": summary.throughput.wall_s,
        "step_ms": [1e3 * (member.step_time_s or 0.0) for member in workers.members],
        "input_wait_ms": [1e3 * (member.input_wait_s or 0.0) for member in workers.members],
        "steps_compared": [len(member.compared) for member in workers.members],
        "latest": max(_lateness(workers, place) for place in range(len(workers.members))),
        "exchange_ms": 1e3 * (exchange_s(workers) or 0.0),
        "median_step_ms": 1e3 * (step_s(workers) or 0.0),
        "round_trip_ms": {
            f"{member.index}-{trip.peer}": 1e3 * trip.lowest_s
            for member in workers.members
            for trip in member.round_trips
        },
        "overhead_us": 1e6 * (summary.overhead_s or 0.0),
        "not_judged": summary.verdict.not_applicable.get("straggler"),
    }


def _lateness(workers: Any, place: int) -> tuple[float, float]:
    """A worker's median margin over the step time, and the share of steps that it is last in."""
    margins_s = margins_of(workers, place)
    of_s = step_s(workers)
    if not margins_s or not of_s:
        return 0.0, 0.0
    last = sum(margin_s > 0 for margin_s in margins_s) / len(margins_s)
    return statistics.median(margins_s) / of_s, last


if __name__ == "__main__":
    main()
