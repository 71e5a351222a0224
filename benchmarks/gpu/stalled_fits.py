"""Fits whose input stall is known from what the GPU did meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import keras_gpukit as gpukit
from benchmarks.gpu.kernel_gaps import GapCapture, idle_between_kernels
from benchmarks.gpu.producers import make, transferred
from benchmarks.gpu.work import TinyOperations, compiled
from benchmarks.planted.known_times import FEATURES, READY
from keras_gpukit.profiling import find_profiles, read_profile

FEWEST, MOST = 5, 100
"""Executions in a fit."""
TINY_OPERATIONS = 500


class Way:
    """Fits of one model, compiled in one way.

    Args:
        busy: Returns the layer that takes a step's time.
        steps_per_execution: Steps that Keras starts together.
        jit: Whether XLA compiles the step.
        fit_s: How long fits should take.
    """

    def __init__(
        self,
        busy: Callable[[], keras.layers.Layer],
        steps_per_execution: int,
        *,
        jit: bool,
        fit_s: float,
    ) -> None:
        self._busy = busy
        self._options = {"steps_per_execution": steps_per_execution, "jit_compile": jit}
        self._each = steps_per_execution
        self._fit_s = fit_s
        self._model = compiled(busy(), FEATURES, **self._options)
        row = self._fit(self._model, READY.make(FEWEST * self._each, 0.0))  # also traces
        self._step_s = row["step_ms"] / 1e3

    def ready(self) -> dict[str, Any]:
        """Fits batches that are ready: how long the GPU idles though nothing is waited for."""
        return self._fit(self._model, READY.make(self._steps(0.0), 0.0))

    def stalled(self, pipeline: str, percent: int, *, to_device: bool = False) -> dict[str, Any]:
        """Fits batches that take so long that a given part of each step is stalled."""
        batch_s = self._step_s / (1 - percent / 100) if percent else self._step_s / 2
        data = make(pipeline, self._steps(batch_s), batch_s)
        if to_device:
            device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
            data = data.apply(tf.data.experimental.prefetch_to_device(device))
        return self._fit(self._model, data)

    def transferred(self, features: int) -> dict[str, Any]:
        """Fits large batches that are ready on the host, and take long to reach the GPU."""
        model = compiled(self._busy(), features, **self._options)
        model.fit(transferred(2 * self._each, features), verbose=0)  # traces
        return self._fit(model, transferred(self._steps(0.0), features))

    def _steps(self, batch_s: float) -> int:
        executions = round(self._fit_s / (self._each * max(batch_s, self._step_s)))
        return self._each * min(max(executions, FEWEST), MOST)

    def _fit(self, model: Any, data: Any) -> dict[str, Any]:
        stall, capture = gpukit.InputStall(None), GapCapture()
        model.fit(data, verbose=0, callbacks=[stall, capture])
        record, gaps = stall.summary, capture.gaps
        return {
            "reported": record.stall_fraction,
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "step_ms": 1e3 * gaps.execution_s / self._each,
            "idle_ms": None if gaps.idle_s is None else 1e3 * gaps.idle_s / self._each,
            "idle_while_fetching": gaps.idle_while_fetching,
            "host_spans": capture.stall(overlapping=self._each > 1),
        }


def launches(steps: int) -> dict[str, Any]:
    """Monitors a model whose operations take less time than their launch."""
    model = compiled(TinyOperations(TINY_OPERATIONS), FEATURES)
    with tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        profiler = gpukit.Profiler(logs, at_steps=(steps // 2,))
        model.fit(READY.make(steps, 0.0), verbose=0, callbacks=[monitor, profiler])
        [path] = find_profiles(logs)
        idle, profile = idle_between_kernels(path), read_profile(path)
    summary = monitor.summary
    return {
        "findings": [finding.code for finding in summary.findings],
        "reported": summary.input_stall_fraction,
        "step_ms": 1e3 * summary.step_time_s,
        "idle": idle,
        "parts_ms": {part: 1e3 * part_s for part, part_s in profile.parts_s.items()},
    }
