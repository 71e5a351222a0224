"""Captures of fits, and what `read_profile` and xprof say of them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from benchmarks.gpu.models import Case
from benchmarks.gpu.precisions import Precision
from benchmarks.gpu.work import compiled, product_s, products_for
from benchmarks.harness import in_turns
from benchmarks.planted.known_times import FEATURES, READY
from benchmarks.xprof_figures import ask_xprof
from keras_gpukit.profiling import find_profiles, read_profile
from keras_gpukit.records.profile import ProfileRecord

FIRST = 6
"""The first captured step: by then the steps take their usual time."""
MOST_KERNELS = 20


class ByHand(keras.callbacks.Callback):
    """Captures as TensorFlow's guide does: it starts and stops on the training thread."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    def on_train_begin(self, logs: Any = None) -> None:
        self._folder = tempfile.TemporaryDirectory()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        began_s = time.perf_counter()
        if batch == FIRST:
            tf.profiler.experimental.start(self._folder.name)
            self.start_ms = 1e3 * (time.perf_counter() - began_s)
        if batch == FIRST + self._steps:
            tf.profiler.experimental.stop()
            self.stop_ms = 1e3 * (time.perf_counter() - began_s)

    def on_train_end(self, logs: Any = None) -> None:
        self._folder.cleanup()


def costs(work_s: float, steps: int, rounds: int) -> dict[str, Any]:
    """Measures how long a capture delays training, by hand and with `Profiler` in turns."""
    model = compiled(products_for(work_s)(), FEATURES)
    data = READY.make(FIRST + steps + 4, 0.0)

    def by_hand_ms() -> list[float]:
        callback = ByHand(steps)
        model.fit(data, verbose=0, callbacks=[callback])
        return [callback.start_ms, callback.stop_ms]

    def profiler_ms() -> float:
        with tempfile.TemporaryDirectory() as logs:
            profiler = gpukit.Profiler(logs, steps=steps, at_steps=(FIRST,))
            model.fit(data, verbose=0, callbacks=[profiler])
            return 1e3 * profiler.summary.captures[0].held_up_s

    model.fit(data, verbose=0)  # traces
    first = by_hand_ms()
    profiler_ms()
    return {
        "first_by_hand_ms": first,
        **in_turns({"by_hand_ms": by_hand_ms, "profiler_ms": profiler_ms}, rounds),
    }


def capture_products(precision: Precision, work_s: float, steps: int, logs: str) -> dict[str, Any]:
    """Captures a model of matrix products alone, whose time is also measured without a profile."""
    with precision.set():
        products = products_for(work_s)()
        model = compiled(products, FEATURES)
        path = capture(model, READY.make(FIRST + steps + 4, 0.0), steps, logs)
        work_ms = 1e3 * products.count * product_s(products.size, precision.dtype)
    return {"work_ms": work_ms, **described(path)}


def capture_model(case: Case, precision: Precision, steps: int, logs: str) -> dict[str, Any]:
    """Captures one of the usual kinds of models."""
    with precision.set():
        model = case.compiled(jit_compile=False)
        path = capture(model, case.data().take(FIRST + steps + 4), steps, logs)
    return described(path)


def capture(model: keras.Model, data: tf.data.Dataset, steps: int, logs: str) -> Path:
    """Returns the profile of some steps of a fit."""
    profiler = gpukit.Profiler(logs, steps=steps, at_steps=(FIRST,))
    model.fit(data, verbose=0, callbacks=[profiler])
    [path] = find_profiles(logs)
    return path


def described(path: Path) -> dict[str, Any]:
    """Returns what is read from a profile; figures of GPUs are None without one."""
    record = read_profile(path)
    gpu = record.devices[0] if record.devices else None
    return {
        "bytes": path.stat().st_size,
        "steps": record.steps,
        "steps_unknown_because": record.steps_unknown_because,
        "incomplete_because": record.incomplete_because,
        "problems": record.problems,
        "step_ms": milliseconds(record.step_time_s),
        "parts_ms": {part: milliseconds(part_s) for part, part_s in record.parts_s.items()},
        "kinds_ms": {kind: milliseconds(kind_s) for kind, kind_s in record.kinds_s.items()},
        "busy_fraction": gpu and gpu.busy_fraction,
        "tensor_core_fraction": gpu and gpu.tensor_core_fraction,
        "compute_capability": gpu and gpu.compute_capability,
        "kernels": kernels(record),
        "xprof": xprof(path),
    }


def kernels(record: ProfileRecord) -> list[dict[str, Any]]:
    """Returns the longest kernels."""
    return [
        {
            "name": kernel.name,
            "kind": kernel.kind,
            "tensor_core": kernel.tensor_core,
            "share": kernel.share,
            "mean_ms": 1e3 * kernel.time_s / kernel.count,
        }
        for kernel in record.kernels[:MOST_KERNELS]
    ]


def xprof(path: Path) -> dict[str, Any]:
    """Returns xprof's figures for the same profile."""
    asked = ask_xprof(path)
    kernels = asked["kernels"]
    time_s = sum(kernel["time_s"] for kernel in kernels.values())
    in_tensor_cores_s = sum(
        kernel["time_s"] for kernel in kernels.values() if kernel["tensor_core"]
    )
    return {
        "steps": asked["steps"],
        "step_ms": milliseconds(asked["step_time_s"]),
        "tensor_core_fraction": in_tensor_cores_s / time_s if time_s else None,
        "kernels_ms": {
            name: 1e3 * kernel["time_s"] / kernel["count"]
            for name, kernel in list(kernels.items())[:MOST_KERNELS]
        },
    }


def milliseconds(time_s: float | None) -> float | None:
    return None if time_s is None else 1e3 * time_s
