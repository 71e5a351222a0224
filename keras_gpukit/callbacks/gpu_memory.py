"""`GPUMemory`: what TensorFlow's allocators hold."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

from keras_gpukit.arguments import check_flag
from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.records.machine import MemoryRecord
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.names import MEMORY_FIGURES, memory_tag
from keras_gpukit.records.steps import Phase
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.watching.epoch_memory import EpochMemoryWatch
from keras_gpukit.watching.out_of_memory import OutOfMemoryWatch
from keras_gpukit.watching.session import Session
from keras_gpukit.watching.step_prediction import prediction_of


class GPUMemory(WatchingCallback[MemoryRecord]):
    """Reads current and peak memory of TensorFlow's allocator on each GPU.

    Writes `memory/<device>/current_bytes` and `memory/<device>/peak_bytes` about once a second.
    After each epoch of `fit` it also reads what this process holds, and what callbacks and the
    model keep.
    When the run ends by an out-of-memory error, the exception has a note that says why, and what
    would fit. TensorFlow's peak counters are set back when the run begins, so that the peak is the
    run's own.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
        reset_peak: False leaves TensorFlow's peak counters alone; the peak is then that of the
            whole process.
        predict: Whether to predict at the end of `fit` what a step needs, next to what was
            measured. The step is traced again for it; "auto" does it only where that takes less
            than 1 % of the run's time.

    Attributes:
        summary: After the run, a `MemoryRecord`.
        out_of_memory: Why memory ran out, where that ended the run.

    Raises:
        TypeError: If `log_dir` is no path or `reset_peak` no bool.
        ValueError: If `log_dir` is empty or a file, or `predict` none of the above.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = "logs",
        *,
        reset_peak: bool = True,
        predict: Literal["auto"] | bool = "auto",
    ) -> None:
        super().__init__(log_dir)
        check_flag("reset_peak", reset_peak)
        if predict not in ("auto", True, False):
            raise ValueError(f'`predict` must be "auto", True or False. Received: {predict=}')
        self._reset_peak = reset_peak
        self._predict: Literal["auto"] | bool = predict
        self._sensor: AllocatorSensor | None = None
        self._watch: OutOfMemoryWatch | None = None
        self._epochs: EpochMemoryWatch | None = None
        self.out_of_memory: OutOfMemory | None = None

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts reading."""
        if phase != session.phase:
            return
        self._summary = self.out_of_memory = None
        sensor = AllocatorSensor(session.environment.gpus, reset_peak=self._reset_peak)
        self._sensor = sensor
        self._watch = OutOfMemoryWatch(session, sensor)
        self._epochs = EpochMemoryWatch(session, sensor) if phase == "fit" else None

        def sample() -> None:
            readings = sensor.read_in_steps() if session.in_steps else sensor.read()
            tags = {
                memory_tag(memory.device, name): getattr(memory, name)
                for memory in readings
                for name in MEMORY_FIGURES
            }
            session.output.values(session.step, tags)
            for memory in readings:
                session.output.record("memory", memory, session.step)

        if sensor.devices:
            if self._reset_peak:  # else the peak until then may be that of another call
                session.on_first_step(lambda: None, sensor.first_step_ended)
            session.every_second("TensorFlow's allocators", sample)

    def end(self, session: Session, phase: Phase) -> None:
        """Sums up."""
        if phase != session.phase or self._sensor is None or self._watch is None:
            return
        weights_bytes, slots_bytes = held_between_steps(session.model)
        self._summary = replace(
            self._sensor.summarize(),
            weights_bytes=weights_bytes,
            slots_bytes=slots_bytes,
            epochs=self._epochs.record() if self._epochs else (),
        )
        self.out_of_memory = found = self._watch.found
        if found is not None:
            self._summary = replace(self._summary, prediction=found.prediction)
        else:
            predicted, because = prediction_of(session, self._predict, self._watch.held_before)
            self._summary = replace(
                self._summary, prediction=predicted, not_predicted_because=because
            )
        if self._epochs is not None:
            self._epochs.close()
        # A callback that watched can be copied.
        self._sensor = self._watch = self._epochs = None
