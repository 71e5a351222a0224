"""Fits whose input stall is known from what the GPU did meanwhile."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import keras
import tensorflow as tf
from rich.console import Console

import keras_gpukit as gpukit
from benchmarks.gpu.kernel_gaps import GapCapture
from benchmarks.gpu.producers import make, transferred
from benchmarks.gpu.work import compiled, products_for
from benchmarks.planted.known_times import FEATURES, READY
from keras_gpukit.reports.console import print_summary

FEWEST, MOST = 5, 100
"""Executions in a fit."""
HALF = 8 * 2**30
"""Bytes of each of two logical GPUs."""


class Way:
    """Fits of one model, in one way of running, whose steps compute for `step_s`.

    If `synchronous`, Keras waits for each step's loss, as for callbacks that are not `async_safe`.
    If `mirrored`, two logical GPUs share each batch.
    """

    def __init__(
        self,
        step_s: float,
        *,
        fit_s: float,
        steps_per_execution: int = 1,
        jit: bool = False,
        synchronous: bool = False,
        to_device: bool = False,
        mirrored: bool = False,
    ) -> None:
        self._each, self._fit_s, self._synchronous = steps_per_execution, fit_s, synchronous
        self._to_device, self._shows_panel = to_device, to_device or mirrored
        self._options = {"steps_per_execution": steps_per_execution, "jit_compile": jit}
        scope = two_replicas() if mirrored else contextlib.nullcontext()
        self._busy = products_for(step_s)
        with scope:
            self._model = compiled(self._busy(), FEATURES, **self._options)
        batches = READY.make(FEWEST * self._each, 0.0)
        self._fit(self._model, batches, synchronous=True)  # traces
        row = self._fit(self._model, batches, synchronous=True)
        self._step_s = row["step_ms"] / 1e3

    def ready(self) -> dict[str, Any]:
        """Fits batches that are ready: how long the GPU idles though nothing is waited for."""
        return self._fit(self._model, READY.make(self._steps(0.0), 0.0))

    def stalled(self, pipeline: str, percent: int) -> dict[str, Any]:
        """Fits batches that take so long that a given part of each step is stalled."""
        batch_s = self._step_s / (1 - percent / 100) if percent else self._step_s / 2
        return self._fit(self._model, make(pipeline, self._steps(batch_s), batch_s))

    def transferred(self, features: int) -> dict[str, Any]:
        """Fits large batches that are ready on the host, and take long to reach the GPU."""
        model = compiled(self._busy(), features, **self._options)
        model.fit(transferred(2 * self._each, features), verbose=0)  # traces
        return self._fit(model, transferred(self._steps(0.0), features))

    def _steps(self, batch_s: float) -> int:
        executions = round(self._fit_s / (self._each * max(batch_s, self._step_s)))
        return self._each * min(max(executions, FEWEST), MOST)

    def _fit(
        self, model: keras.Model, data: Any, *, synchronous: bool | None = None
    ) -> dict[str, Any]:
        if self._to_device:
            device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
            data = data.apply(tf.data.experimental.prefetch_to_device(device))
        synchronous = self._synchronous if synchronous is None else synchronous
        monitor = gpukit.Monitor(None, verbose=0) if self._shows_panel else None
        stall, capture = monitor or gpukit.InputStall(None), GapCapture(async_safe=not synchronous)
        model.fit(data, verbose=0, callbacks=[stall, capture])
        record = stall.summary.input if monitor else stall.summary
        gaps = capture.gaps
        row = {
            "reported": record.stall_fraction,
            "most": getattr(record, "most_stall_fraction", None),
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "step_ms": 1e3 * gaps.execution_s / self._each,
            "idle_ms": None if gaps.idle_s is None else 1e3 * gaps.idle_s / self._each,
            "idle_while_fetching": gaps.idle_while_fetching,
            "host_spans": capture.stall(overlapping=self._each > 1),
        }
        if monitor is not None:
            row["panel"] = panel(monitor.summary)
            row["own_overhead_ms"] = 1e3 * (monitor.summary.overhead_s or 0.0)
        return row


def two_replicas() -> Any:
    """Returns the scope of two logical GPUs; without a GPU, of two logical CPUs."""
    if tf.config.list_physical_devices("GPU"):
        setup = gpukit.configure_gpus(logical_gpus=[HALF, HALF], strategy="mirrored", verbose=False)
        return setup.scope()
    [cpu] = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    return tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"]).scope()


def panel(summary: Any) -> str:
    """Returns what the panel says at the end of a run, on one line."""
    written = io.StringIO()
    print_summary(summary, Console(file=written, width=2000), details=True)
    return re.sub(r"[╭╮╰╯─│\s]+", " ", written.getvalue()).strip()
