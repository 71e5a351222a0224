"""`GPUMemory`: memory that TensorFlow's allocators have in use."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal

from keras_gpukit.arguments import check_auto_or_flag, check_flag
from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.monitoring.epoch_memory import EpochMemoryWatch, FitMemory
from keras_gpukit.monitoring.out_of_memory_watch import OutOfMemoryWatch
from keras_gpukit.monitoring.session import Session
from keras_gpukit.monitoring.step_prediction import PredictionWatch
from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.steps import Phase
from keras_gpukit.sensors.allocator import NO_ALLOCATOR, AllocatorSensor


class GPUMemory(WatchingCallback[MemoryRecord]):
    """Reads current and peak memory of TensorFlow's allocator on each GPU.

    Writes `memory/<device>/current_bytes` and `memory/<device>/peak_bytes` about once a second.
    After each epoch of `fit` it also reads the memory of this process, and of the tensors that
    callbacks, the model and global variables of the script keep. It does so after each `fit` too,
    which shows growth over many short fits with one callback.
    If an out-of-memory error ends the run, a note on the exception says why memory ran out, and
    what would fit. TensorFlow's peak counters are reset when the run begins, so the peak belongs to
    this run, and when its first step has ended: on a GPU, cuDNN and XLA try algorithms in the first
    step, which may take much more memory than later steps need.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.
        reset_peak: Whether to reset TensorFlow's peak counters. If not, the peak is that of the
            whole process so far, and the peak of later steps is unknown.
        predict: Whether to predict the memory that a step needs, once the first epoch of `fit` has
            ended. This traces the step again; "auto" does so only once that takes at most 1 % of
            the run's time. Eager steps are traced when the run is over.

    Attributes:
        summary: After the run, a `MemoryRecord`.
        out_of_memory: Explanation of the out-of-memory error that ended the run; None without one.

    Raises:
        TypeError: If `log_dir` is not a path, or `reset_peak` is not a bool.
        ValueError: If `log_dir` is empty or a file, or `predict` is not "auto", True or False.
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
        check_auto_or_flag("predict", predict)
        self._reset_peak = reset_peak
        self._predict: Literal["auto"] | bool = predict
        self._watching: _Watching | None = None
        self.fits = FitMemory()
        self.out_of_memory: OutOfMemory | None = None

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        self._summary = self.out_of_memory = None
        steps, gpus = session.steps, session.environment.gpus
        sensor = AllocatorSensor(gpus, reset_peak=self._reset_peak)
        errors = OutOfMemoryWatch(steps, gpus, sensor)
        epochs = EpochMemoryWatch(steps, sensor, self.fits) if phase == "fit" else None
        prediction = PredictionWatch(session, self._predict, errors.other_bytes)
        self._watching = sensor, errors, epochs, prediction
        if sensor.devices:
            if self._reset_peak:  # otherwise the peak so far may be that of another call
                steps.on_first_step(lambda: None, sensor.first_step_ended)
            if session.output.claim("memory"):
                session.sampling.every_second(
                    "TensorFlow's allocators", lambda: _write(session, sensor.read_allocators())
                )

    def _end(self, session: Session, phase: Phase) -> None:
        if phase != session.phase or self._watching is None:
            return
        sensor, errors, epochs, prediction = self._watching
        self._watching = None  # so that the callback can be copied after a run
        if epochs is not None:
            epochs.end(completed=session.ending == "completed")
        self.out_of_memory = found = errors.found
        causes = prediction.causes()
        steps = session.steps.step - session.steps.first_step
        is_first = steps <= session.model.steps_per_execution
        _write(session, sensor.read_allocators(only_first_step=is_first))
        record = replace(
            causes,
            unknown_because=None if sensor.devices else NO_ALLOCATOR,
            prediction=found.prediction if found else causes.prediction,
            not_predicted_because=None if found else causes.not_predicted_because,
            fits=self.fits.readings() if epochs else (),
        )
        session.output.write_record("memory_by_cause", record)
        self._summary = session.output.fold.memory_record()


def _write(session: Session, readings: tuple[DeviceMemory, ...]) -> None:
    for memory in readings:
        session.output.write_record("memory", memory)


_Watching = tuple[AllocatorSensor, OutOfMemoryWatch, EpochMemoryWatch | None, PredictionWatch]
