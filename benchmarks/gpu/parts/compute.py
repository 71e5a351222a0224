"""Steps that compute badly for a planted cause: what the change saves, and a capture of each."""

from __future__ import annotations

import gzip
import shutil
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Cases, Part, Slice

EPOCH_S, EPOCHS, ROUNDS = 0.3, 3, 2
CAPTURED_STEPS = 4


def cases(small: bool, folder: Path) -> Cases:
    """Measures the ceilings of the device, then each cause."""
    from benchmarks.gpu.compute_causes import causes

    yield "ceilings", partial(ceilings, small)
    for name, trainings in causes(small).items():
        yield name, partial(measure, name, trainings, small, folder)


def ceilings(small: bool) -> dict[str, Any]:
    """Returns what products and copies reach at best on this device."""
    import tensorflow as tf

    from benchmarks.gpu.work import per_repeat_s

    size, numbers = (256, 2**16) if small else (8192, 2**28)
    rates = {}
    for name, dtype, tf32 in (
        ("float64", "float64", True),
        ("float32", "float32", False),
        ("TF32", "float32", True),
        ("float16", "float16", True),
        ("bfloat16", "bfloat16", True),
    ):
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        factor = tf.cast(tf.random.normal((size, size), stddev=size**-0.5), dtype)
        taken_s = per_repeat_s(lambda value, by=factor: tf.matmul(value, by), factor, 10, 3)
        rates[name] = 2e-12 * size**3 / taken_s
    values = tf.ones(numbers)
    taken_s = per_repeat_s(lambda value: value + 1.0, values, 10, 3)
    host = values.numpy()
    copied_s = per_repeat_s(lambda value: tf.constant(host), values, 2, 3)
    return {
        "tflops": rates,
        "device_gb_per_s": 8e-9 * numbers / taken_s,
        "to_device_gb_per_s": 4e-9 * numbers / copied_s,
    }


def measure(name: str, trainings: Any, small: bool, folder: Path) -> dict[str, Any]:
    """Times the training as it is and as fixed, by turns, and captures both."""
    models = {
        of: (training, training.compiled())
        for of, training in zip(("wasteful", "fixed"), trainings, strict=True)
        if training is not None
    }
    row: dict[str, Any] = {f"{of}_ms": [] for of in models}
    steps = {of: _warm_up(*pair, small) for of, pair in models.items()}
    for _ in range(1 if small else ROUNDS):
        for of, pair in models.items():
            row[f"{of}_ms"].append(_step_ms(*pair, steps[of]))
    for of, pair in models.items():
        path = folder / f"{name.replace(' ', '_')}-{of}.tar.gz"
        row[f"{of}_findings"] = _capture(*pair, steps[of], path)
    return row


def _warm_up(training: Any, model: Any, small: bool) -> int:
    """Traces, and returns how many steps make a short epoch."""
    model.fit(training.data(), steps_per_epoch=2, verbose=0)
    few = 3 if small else 10
    step_s = 1e-3 * _step_ms(training, model, few)
    return max(few, min(500, round((0.02 if small else EPOCH_S) / step_s)))


def _step_ms(training: Any, model: Any, steps: int) -> float:
    from benchmarks.gpu.precisions import EpochClock

    clock, others = EpochClock(), [make() for make in training.callbacks]
    model.fit(
        training.data(),
        steps_per_epoch=steps,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[clock, *others],
    )
    return 1e3 * statistics.median(clock.epochs_s[1:]) / steps


def _capture(training: Any, model: Any, steps: int, path: Path) -> list[dict[str, Any]]:
    """Keeps the record and a profile of a short fit; returns the findings."""
    import keras_gpukit as gpukit
    from benchmarks.gpu.findings import findings_of

    with tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        profiler = gpukit.Profiler(logs, at_steps=(20,), steps=CAPTURED_STEPS)
        model.fit(
            training.data(),
            steps_per_epoch=max(40, steps),
            epochs=EPOCHS,
            verbose=0,
            callbacks=[monitor, profiler, *(make() for make in training.callbacks)],
        )
        for events in Path(logs).rglob("events.out.*"):
            events.unlink()
        with tempfile.TemporaryDirectory() as packed:
            made = shutil.make_archive(str(Path(packed, "logs")), "tar", logs)
            path.write_bytes(gzip.compress(Path(made).read_bytes(), 6))
    return findings_of(monitor.summary)


PART = Part(
    "compute",
    "Which change fixes a step that computes badly, and what does a capture show of it?",
    {"all": Slice(cases, 240)},
    (),
)
