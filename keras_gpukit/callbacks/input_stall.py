"""`InputStall`: how long training waits for its next batch."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.callbacks.frames import epoch_iterator
from keras_gpukit.callbacks.session import Session
from keras_gpukit.callbacks.step_watching import StepWatchingCallback
from keras_gpukit.errors import give_up
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.stages.watch import PipelineWatch
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.pipelines.generators import PythonSource, python_source
from keras_gpukit.records.pipeline import PipelineRecord, PythonSourceRecord
from keras_gpukit.records.steps import InputRecord, Phase, StepWindow, TimeBreakdown
from keras_gpukit.sensors.interpreter import ContentionSensor
from keras_gpukit.sensors.python_time import PythonTimeSensor


class InputStall(StepWatchingCallback[InputRecord]):
    """Measures how long steps are blocked on their next batch.

    Keras fetches batches inside its train function, where callbacks cannot see the wait, so it is
    read from tf.data itself. Writes `input/wait_ms`, `input/stall_percent` and
    `input/buffered_batches`.

    With the wait come its spread and its course, what else the time went to, what the stages of
    the pipeline cost and which of them holds the run up.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, an `InputRecord`.
        validation: After a `fit` with validation data, that of the validation.

    Raises:
        TypeError: If `log_dir` is no path.
        ValueError: If `log_dir` is empty or a file.
    """

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts or goes on measuring."""
        super().begin(session, phase)
        if phase == session.phase:
            self._contention = ContentionSensor()
            session.sampler.add("threads that wait", self._contention.read)
            self._begin_python(session, phase)

    def _begin_python(self, session: Session, phase: Phase) -> None:
        self._python: PythonSource | None = python_source(epoch_iterator(phase))
        self._python_time: PythonTimeSensor | None = None
        if self._python is not None and not self._python.in_processes:
            self._python_time = sensor = PythonTimeSensor(self._python.code)

            def look() -> None:
                if session.wall.part == "steps":
                    sensor.read()

            session.sampler.add("the code that makes batches", look)

    def tags(self, window: StepWindow) -> dict[str, float | None]:
        """Wait, stall and buffer fill, where they are known."""
        if window.input_wait_s is None:
            return {}
        return {
            "input/wait_ms": window.input_wait_s / window.steps * 1e3,
            "input/stall_percent": window.input_wait_s / window.duration_s * 1e2,
            "input/buffered_batches": window.buffered_batches,
        }

    def sum_up(self, session: Session, totals: StepTotals) -> InputRecord:
        """The input wait of a phase."""
        clock = session.step_functions.clocks[totals.phase]
        record = totals.input(
            clock.meter.mechanism if clock.meter else None,
            clock.meter.confidence if clock.meter else None,
            clock.unknown_because,
        )
        pipeline = session.step_functions.pipelines.get(totals.phase)
        is_of_the_call = totals.phase == session.phase
        is_broken_down = is_of_the_call and totals.phase != "predict"
        return replace(
            record,
            spread=clock.spread.record(),
            pipeline_start=clock.starts.record(),
            breakdown=_breakdown(session, clock, record.wait_s) if is_broken_down else None,
            pipeline=None if pipeline is None else _stages(pipeline, record),
            python=self._python_record(totals) if is_of_the_call else None,
            contention=self._contention.record() if is_of_the_call else None,
        )

    def _python_record(self, totals: StepTotals) -> PythonSourceRecord | None:
        if self._python is None:
            return None
        busy = self._python_time.mean_threads() if self._python_time else None
        step_time_s = totals.step_time_s
        return PythonSourceRecord(
            name=self._python.name,
            location=self._python.location,
            workers=self._python.workers,
            in_processes=self._python.in_processes,
            busy_workers=busy,
            time_per_batch_s=None if busy is None or step_time_s is None else busy * step_time_s,
        )


def _breakdown(session: Session, clock: StepClock, wait_s: float | None) -> TimeBreakdown | None:
    """The call's wall time by what it went to, from the mean wait of a step; if all were seen."""
    if not clock.saw_every_step:
        return None
    # The first step of the run, and those whose wait is known to be their epoch's start.
    executions_apart = 1 + clock.starts.epochs
    steps_apart = executions_apart * session.model.steps_per_execution
    steps = max(session.steps(session.phase) - steps_apart, 0)
    return session.wall.breakdown(None if wait_s is None else wait_s * steps)


def _stages(pipeline: PipelineWatch, record: InputRecord) -> PipelineRecord:
    """The pipeline's stages; what fails in naming them must not take the wait with it."""
    try:
        return pipeline.record(record.stall_fraction, record.wait_s)
    except Exception as error:
        give_up("Naming the stages of the pipeline", error, "They are unknown.")
        return PipelineRecord(unknown_because=f"{type(error).__name__}: {error}")
