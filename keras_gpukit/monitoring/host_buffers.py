"""Monitors how full the caches and shuffle buffers of a call's input are, and warns early.

A process that is killed because host memory ran out cannot report it, so the warning comes before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.input.pipelines.host_buffers import host_buffers
from keras_gpukit.input.wait.readings import Sizes, measured_element_bytes
from keras_gpukit.monitoring.call_frame import callback_list, dataset_of_fit, epochs_of
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.pipeline import HostBuffer, HostBuffers
from keras_gpukit.reports.evidence import in_one_line
from keras_gpukit.rules.memory.memory_grows import InputFillsMemory
from keras_gpukit.sensors.host import left_bytes

EVERY = 1.5
"""Factor by which the run time grows from one look to the next, so looks become rare."""
NOT_READABLE = "the input is not a tf.data pipeline of this process alone"
NOT_READ = "the run was over before its pipeline was read"
FAILED = "its pipeline could not be read"


class HostBufferWatch:
    """Looks at the buffers of a monitored `fit`, less and less often."""

    def __init__(self, session: Session, now: Callable[[], float] = time.perf_counter) -> None:
        self._session = session
        self._now = now
        self._began_s = self._due_s = now()
        params = getattr(callback_list("fit"), "params", None) or {}
        self._epoch_steps: int | None = params.get("steps")
        epochs = epochs_of("fit")
        self._steps = self._epoch_steps * epochs if self._epoch_steps and epochs else None
        # Released once it was read, because it keeps the data alive.
        self._dataset: Any = dataset_of_fit()
        self._unknown_because = NOT_READABLE if self._dataset is None else NOT_READ
        self._buffers: tuple[HostBuffer, ...] | None = None
        self._has_warned = False
        session.every_second("how full caches and shuffle buffers are", self.poll)

    def poll(self) -> None:
        """Looks at the buffers if a look is due; called on the sampling thread."""
        now_s = self._now()
        # Reading tf.data runs operations. During the first step, an operation on another thread
        # would split the graphs that the device placement is read from.
        if now_s < self._due_s or self._session.step == self._session.first_step:
            return
        self._due_s = self._began_s + EVERY * (now_s - self._began_s)
        dataset, self._dataset = self._dataset, None
        if dataset is not None:
            self._unknown_because = FAILED  # if this raises
            self._buffers = host_buffers(dataset, self._steps)
        record = self.record()
        self._session.output.record("host_buffers", record, self._session.step)
        found = None if self._has_warned else InputFillsMemory().find_in(record)
        if found is not None and found.severity == "critical":
            self._has_warned = True
            warned = (found.title, in_one_line(found), found.advice[0])
            logger.warning("keras_gpukit: %s. %s %s.", *warned)

    def record(self) -> HostBuffers:
        """Returns the current contents of the caches and shuffle buffers."""
        if self._buffers is None:
            return HostBuffers(unknown_because=self._unknown_because)
        if any(each.element_bytes is None for each in self._buffers):
            pipeline = self._session.own_steps.pipeline
            sizes = measured_element_bytes(pipeline.latest_model() if pipeline else None)
            self._buffers = tuple(_with_size(each, sizes) for each in self._buffers)
        return HostBuffers(
            self._buffers,
            steps=self._session.step - self._session.first_step,
            epoch_steps=self._epoch_steps,
            left_bytes=left_bytes(),
        )


def _with_size(buffer: HostBuffer, sizes: Sizes) -> HostBuffer:
    """Adds the element size that tf.data measured, if shapes do not determine it."""
    measured = sizes.get((buffer.kind, buffer.place))
    if buffer.element_bytes is not None or measured is None:
        return buffer
    because = buffer.unknown_because if buffer.elements is None else None
    return replace(buffer, element_bytes=measured, unknown_because=because)
