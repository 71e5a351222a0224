"""The first step of a large model with Keras' default jit: how long, and what `Monitor` says."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from typing import Any

from benchmarks.gpu.part import Claim, Outcome, Part, Slice

WITHIN = 0.1


def first_step(small: bool) -> dict[str, Any]:
    """Fits ResNet50 for a few steps, and reads its record as the first one ends."""
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit
    from benchmarks.gpu.findings import findings_of
    from benchmarks.gpu.models import convolutional
    from benchmarks.gpu.stalled_fits import panel
    from keras_gpukit.saved_runs import load_report

    side, batch, steps = (8, 2, 3) if small else (224, 32, 20)

    class Clock(keras.callbacks.Callback):
        def on_train_batch_begin(self, number, logs=None):
            if number == 0:
                self.began_s = time.perf_counter()

        def on_train_batch_end(self, number, logs=None):
            if number == 0:
                self.took_s = time.perf_counter() - self.began_s
                self.message = panel(load_report(folder).runs[0].summary)

    if small:
        model = convolutional(8, 1, side)
    else:
        model = keras.applications.ResNet50(
            weights=None, classes=10, input_shape=(side, side, 3), classifier_activation=None
        )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    arrays = np.zeros((batch, side, side, 3), "float32"), np.zeros(batch, "int32")
    data = tf.data.Dataset.from_tensors(arrays).repeat(steps)
    with tempfile.TemporaryDirectory() as folder:
        monitor, clock = gpukit.Monitor(folder, verbose=0), Clock()
        model.fit(data, verbose=0, callbacks=[clock, monitor])
    summary = monitor.summary
    return {
        "took_s": clock.took_s,
        "jit": bool(model.jit_compile),
        "step_ms": summary.step_time_s and 1e3 * summary.step_time_s,
        "reported_s": summary.breakdown and summary.breakdown.first_step_s,
        "findings": findings_of(summary),
        "said": clock.message,
    }


def judge_reported(row: dict[str, Any]) -> Outcome:
    took_s, reported_s = row["took_s"], row["reported_s"]
    if took_s is None:
        return Outcome(None, "the first step did not end")
    if reported_s is None:
        return Outcome(False, f"The first step took {took_s:.1f} s, and nothing is reported.")
    return Outcome(
        abs(reported_s - took_s) <= WITHIN * took_s,
        f"The first step took {took_s:.1f} s{' with jit' if row['jit'] else ''}, {reported_s:.1f} "
        "s are reported.",
    )


def judge_written(row: dict[str, Any]) -> Outcome:
    message = "compil" in row["said"] or "trac" in row["said"]
    return Outcome(message, f"The report at the first step's end: {row['said'][:200]}")


PART = Part(
    "first-step",
    "How long does the first step take, and is it known while it runs?",
    {"resnet": Slice(lambda small, _: [("resnet", partial(first_step, small))], 120, alone=False)},
    (
        Claim(
            "reported",
            "the time of the first step of ResNet50 with Keras' default jit is reported within "
            "10 %",
            judge_reported,
            ("resnet",),
        ),
        Claim(
            "written",
            "while the first step runs, a report on the run says that it is traced or compiled",
            judge_written,
            ("resnet",),
        ),
    ),
)
