"""Which stage limits training: pipelines with one slow stage planted, and some with none.

    python benchmarks/stage_naming.py --json benchmarks/results/stage_naming.json

Each is trained on with `model.fit` while a `PipelineWatch` reads tf.data's model every few steps.
The name that it gives is compared with that of the planted stage. Around that stage stand others
that are cheap. Some planted stages compute, others sleep; none takes all cores.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import asdict
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from harness import argument_parser, print_table
from planted.slow_stages import BATCH, CASES, FEATURES, STEPS, Case, sleep_then
from results_file import save
from rich import print as show

from keras_gpukit.frameworks.tf_datasets import parse_model, read_model
from keras_gpukit.input.wait.watch import PipelineWatch
from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.rules.input.pipeline_causes import name_bottleneck

READ_EVERY = 16
SLOW_STEP_S = 0.03


class Sleep(keras.layers.Layer):
    """Makes each step take a known time."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + 0.0 * sleep_then(tf.reduce_sum(inputs), SLOW_STEP_S)


class Watching(keras.callbacks.Callback):
    """Feeds a watch, and sums up the waits, from what is read every few steps."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = PipelineWatch()
        self.wait_s = self.steps_s = 0.0
        self.steps = 0
        self.longest_read_s = 0.0
        self._iterator: Any = None
        self._calls = 0

    def on_train_begin(self, logs: Any = None) -> None:
        step = self.model.train_function

        def watched(iterator: Any) -> Any:
            entered_s = time.perf_counter()
            outputs = step(iterator)
            self._called(iterator, entered_s)
            return outputs

        self.model.train_function = watched

    def _called(self, iterator: Any, entered_s: float) -> None:
        if iterator is not self._iterator:
            self._iterator, self._calls = iterator, 0
            self.watch.follow(iterator)
        self._calls += 1
        if self._calls % READ_EVERY:
            return
        reading = read_model(iterator)
        model = parse_model(reading)
        began = time.perf_counter()
        self.watch.add_reading(reading)
        self.longest_read_s = max(self.longest_read_s, time.perf_counter() - began)
        if self._calls > READ_EVERY:
            elapsed_s = entered_s - self._entered_s
            self.wait_s += max(elapsed_s - sum(model.gap_times[-READ_EVERY:]) * 1e-6, 0.0)
            self.steps_s += elapsed_s
            self.steps += READ_EVERY
        self._entered_s = entered_s

    @property
    def stall_fraction(self) -> float | None:
        return self.wait_s / self.steps_s if self.steps_s else None


def run(case: Case) -> tuple[PipelineRecord, Watching, float]:
    slow_step = [] if case.slow_stage else [Sleep()]
    layers = [keras.Input((FEATURES,)), *slow_step, keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", jit_compile=False)
    watching = Watching()
    with tempfile.TemporaryDirectory() as folder:
        data = case.make(folder)
        if isinstance(data, tf.data.Dataset):
            data = data.take(STEPS)
        targets = {"y": data[:, :1], "batch_size": BATCH} if isinstance(data, np.ndarray) else {}
        model.fit(data, **targets, verbose=0, callbacks=[watching])
    began = time.perf_counter()
    wait_s = watching.wait_s / watching.steps if watching.steps else None
    record = name_bottleneck(
        watching.watch.pipeline_record(wait_s), watching.stall_fraction, wait_s
    )
    return record, watching, time.perf_counter() - began


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="cases whose name has this in it")
    parser.add_argument("--stages", action="store_true", help="print every stage")
    arguments = parser.parse_args()

    rows = []
    for case in CASES:
        if arguments.only and arguments.only not in case.name:
            continue
        record, watching, record_s = run(case)
        named = record.bottleneck.name if record.bottleneck else None
        rows.append(
            {
                "pipeline": case.name,
                "slow_stage": case.slow_stage,
                "named": named,
                "right": named == case.slow_stage and record.unknown_because is None,
                "bottleneck": asdict(record.bottleneck) if record.bottleneck else None,
                "unknown_because": record.unknown_because,
                "stall_fraction": watching.stall_fraction,
                "step_ms": watching.steps_s / watching.steps * 1e3,
                "longest_read_us": watching.longest_read_s * 1e6,
                "record_ms": record_s * 1e3,
            }
        )
        if arguments.stages:
            show(rows[-1], *record.stages)

    planted = [row["right"] for row in rows if row["slow_stage"]]
    others = [row["right"] for row in rows if not row["slow_stage"]]
    counts = {
        "slow_stages_named": sum(planted),
        "slow_stages": len(planted),
        "left_alone": sum(others),
        "without_slow_stage": len(others),
    }
    print_table(
        "Is the slow stage named?",
        ("pipeline", "slow stage", "named", "work", "ms a batch", "share", "stall", ""),
        [_shown(row) for row in rows],
        "{slow_stages_named} of {slow_stages} slow stages named, "
        "{left_alone} of {without_slow_stage} pipelines without one left alone".format(**counts),
    )
    save(arguments.json, __file__, steps=STEPS, **counts, pipelines=rows)


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    stage, of_stage = row["bottleneck"], ("", "", "")
    if stage:
        cost = f"{stage['cost_per_batch_s'] * 1e3:.2f}"
        of_stage = (stage["work"], cost, f"{stage['share']:.0%}")
    named = row["named"] or row["unknown_because"] or "none"
    verdict = "right" if row["right"] else "WRONG"
    stall = f"{row['stall_fraction']:.0%}"
    return row["pipeline"], row["slow_stage"] or "none", named, *of_stage, stall, verdict


if __name__ == "__main__":
    main()
