"""`InputStall`: how long training waits for its next batch."""

from __future__ import annotations

import os
from dataclasses import replace

from keras_gpukit.callbacks.base import StepWatchingCallback
from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.generators import PythonSource, python_source
from keras_gpukit.monitoring.call_frame import batch_of, epoch_iterator, open_shapes
from keras_gpukit.monitoring.run_so_far import HostBufferWatch, InputSoFar
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.pipeline import (
    HostBuffers,
    PipelineRecord,
    PythonSourceRecord,
    StageRecord,
)
from keras_gpukit.records.steps import InputRecord, Part, Phase
from keras_gpukit.sensors.interpreter import ContentionSensor, NewThreadsSensor
from keras_gpukit.sensors.stack_parts import CodeWatch

GENERATOR = "generator"  # kind of the stage that fetches from Python code


class InputStall(StepWatchingCallback[InputRecord]):
    """Measures how long steps are blocked on their next batch.

    Keras fetches batches inside its train function, where callbacks cannot see the wait, so it is
    read from tf.data itself. Writes `input/wait_ms`, `input/stall_percent` and
    `input/buffered_batches`.

    The record also has the distribution of the wait, the parts of the remaining time, the cost of
    each stage of the pipeline, and the stage that is the bottleneck.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, an `InputRecord`.
        validation: After a `fit` with validation data, the `InputRecord` of the validation.
        host_buffers: After a `fit`, the caches and shuffle buffers of its pipeline.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self.host_buffers: HostBuffers | None = None
        self._buffers: HostBufferWatch | None = None
        # Set now, since an interrupt may end a run while it starts.
        self._contention = ContentionSensor()
        self._new_threads: NewThreadsSensor | None = None
        self._python: dict[Phase, tuple[PythonSource, CodeWatch | None]] = {}
        self._open_shapes: tuple[str, ...] | None = None

    def _begin(self, session: Session, phase: Phase) -> None:
        super()._begin(session, phase)
        if phase != session.phase:
            if phase not in self._python:
                with Guard("Finding the code that makes batches", "It has no name."):
                    self._begin_python(session, phase, "validation")
            return
        self._python = {}
        self.host_buffers = self._buffers = self._new_threads = None
        self._contention = ContentionSensor()
        sampling, steps = session.sampling, session.steps
        sampling.every_second("threads that wait", self._contention.take_naps)
        with Guard("Reading the times of threads", "The CPU time of the input is unknown."):
            self._new_threads = sensor = NewThreadsSensor()
            sampling.every_second(
                "the times of threads", lambda: sensor.read_times(in_steps=steps.in_steps)
            )
        sampling.every_second("pipelines that start", steps.poll_pipelines)
        self._begin_python(session, phase, "steps")
        spec, _ = batch_of("fit")
        self._open_shapes = None if spec is None else open_shapes(spec)
        if phase == "fit":
            with Guard("Reading caches and shuffle buffers", "What they hold is unknown."):
                self._buffers = buffers = HostBufferWatch(steps)
                sampling.every_second("how full caches and shuffle buffers are", buffers.poll)
        if session.output.log_dir is not None:
            so_far = InputSoFar(steps, lambda record: self._completed(session, record))
            steps.on_window(phase, so_far.on_window)
            sampling.every_second("the input so far", so_far.write)

    def _begin_python(self, session: Session, phase: Phase, part: Part) -> None:
        if (source := python_source(epoch_iterator(phase))) is None:
            return
        wall, codes = session.steps.wall, source.codes
        watch = None
        if codes:
            in_pool = source.library == "Keras" and source.workers > 1
            watch = CodeWatch(codes, when=lambda: wall.part == part, in_pool=in_pool)
            session.sampling.watch_code(watch)
        self._python[phase] = source, watch

    def _record(self, session: Session, phase: Phase) -> InputRecord:
        record = session.steps.of(phase).input()
        if phase == session.phase:
            record = self._completed(session, record)
            if self._buffers is not None:
                with Guard("Reading caches and shuffle buffers", "What they hold is unknown."):
                    self.host_buffers = self._buffers.buffers_record()
                    session.output.write_record("host_buffers", self.host_buffers)
            # After a run, the callback must not keep the run's data alive.
            self._python, self._buffers = {}, None
        else:
            python = self._python_record(phase, session.steps.of(phase).step_time_s)
            record = replace(record, python=python)
        session.output.write_record("input", record)
        return record

    def _completed(self, session: Session, record: InputRecord) -> InputRecord:
        python = self._python_record(session.phase, session.steps.own.step_time_s)
        threads, gpus = self._new_threads, session.environment.gpus
        contention = self._contention.contention_record(
            # With GPUs, steps and input do not compete for cores.
            input_cores=threads.cores() if threads and not gpus else None,
            input_queued_ratio=threads.queued_ratio() if threads else None,
        )
        return replace(
            record,
            python=python,
            pipeline=_by_its_slowest(record.pipeline, python),
            contention=contention,
            open_shapes=self._open_shapes,
        )

    def _python_record(self, phase: Phase, step_time_s: float | None) -> PythonSourceRecord | None:
        # The sampling thread calls this too, and the run may end meanwhile.
        if (python := self._python.get(phase)) is None:
            return None
        source, time_in_it = python
        if time_in_it is None:
            return source.python_record(None, None, step_time_s)
        return source.python_record(time_in_it.slowest(), time_in_it.mean_threads(), step_time_s)


def _by_its_slowest(
    pipeline: PipelineRecord | None, source: PythonSourceRecord | None
) -> PipelineRecord | None:
    """Names the stage that fetches from a PyTorch `DataLoader` by the code found to be slowest."""
    if pipeline is None or source is None or source.library != "torch":
        return pipeline

    def named(stage: StageRecord) -> StageRecord:
        is_loader = stage.kind == GENERATOR
        return replace(stage, name=source.name, location=source.location) if is_loader else stage

    slowest = pipeline.bottleneck
    return replace(
        pipeline,
        stages=tuple(map(named, pipeline.stages)),
        bottleneck=None if slowest is None else named(slowest),
    )
