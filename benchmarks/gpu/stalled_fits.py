"""Fits whose input stall is known from what the GPU did meanwhile."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_gpukit as gpukit
from benchmarks.gpu.kernel_gaps import GapCapture
from benchmarks.gpu.models import compiled, products_for
from benchmarks.planted.known_times import BATCH, FEATURES, PIPELINES, READY

FEWEST, MOST = 5, 100
"""Executions in a fit."""


class Way:
    """Fits of one model, in one way of running, whose steps compute for `step_s`.

    If `synchronous`, Keras waits for each step's loss, as for callbacks that are not `async_safe`.
    """

    def __init__(
        self,
        step_s: float,
        *,
        fit_s: float,
        steps_per_execution: int = 1,
        jit: bool = False,
        synchronous: bool = False,
    ) -> None:
        self._each, self._fit_s, self._synchronous = steps_per_execution, fit_s, synchronous
        self._options = {"steps_per_execution": steps_per_execution, "jit_compile": jit}
        self._busy = products_for(step_s)
        self._model = compiled(self._busy(), FEATURES, **self._options)
        batches = READY.make(FEWEST * self._each, 0.0)
        self._fit(self._model, batches, synchronous=True)  # traces
        row = self._fit(self._model, batches, synchronous=True)
        self._step_s = row["step_ms"] / 1e3

    def ready(self) -> dict[str, Any]:
        """Fits batches that are ready: how long the GPU idles though nothing is waited for."""
        return self._fit(self._model, READY.make(self._steps(0.0), 0.0), self._synchronous)

    def stalled(self, pipeline: str, percent: int) -> dict[str, Any]:
        """Fits batches that take so long that a given part of each step is stalled."""
        batch_s = self._step_s / (1 - percent / 100) if percent else self._step_s / 2
        data = PIPELINES[pipeline].make(self._steps(batch_s), batch_s)
        return self._fit(self._model, data, self._synchronous)

    def transferred(self, features: int) -> dict[str, Any]:
        """Fits large batches that are ready on the host, and take long to reach the GPU."""
        model = compiled(self._busy(), features, **self._options)
        batch = np.zeros((BATCH, features), "float32"), np.zeros((BATCH, 1), "float32")
        batches = tf.data.Dataset.from_tensors(batch).repeat
        model.fit(batches(2 * self._each), verbose=0)  # traces
        return self._fit(model, batches(self._steps(0.0)), self._synchronous)

    def _steps(self, batch_s: float) -> int:
        executions = round(self._fit_s / (self._each * max(batch_s, self._step_s)))
        return self._each * min(max(executions, FEWEST), MOST)

    def _fit(self, model: keras.Model, data: Any, synchronous: bool) -> dict[str, Any]:
        stall, capture = gpukit.InputStall(None), GapCapture(async_safe=not synchronous)
        model.fit(data, verbose=0, callbacks=[stall, capture])
        record, gaps = stall.summary, capture.gaps
        return {
            "reported": record.stall_fraction,
            "most": record.most_stall_fraction,
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "step_ms": 1e3 * gaps.execution_s / self._each,
            "idle_ms": None if gaps.idle_s is None else 1e3 * gaps.idle_s / self._each,
            "idle_while_fetching": gaps.idle_while_fetching,
        }
