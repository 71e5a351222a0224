"""Reports a running call less and less often: in its records, and in a notebook.

A run in progress has no summary yet, and a process that is killed never writes one. If it is killed
because host memory ran out, it cannot report that, so a warning comes before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard, logger
from keras_gpukit.input.pipelines.host_buffers import host_buffers
from keras_gpukit.input.wait.readings import Sizes, measured_element_bytes
from keras_gpukit.monitoring.call_frame import callback_list, dataset_of_fit, epochs_of
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.monitoring.sampling import Schedule
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.pipeline import HostBuffer, HostBuffers
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, StepWindow, ThroughputRecord
from keras_gpukit.reports.evidence import in_one_line
from keras_gpukit.reports.run_words import running
from keras_gpukit.reports.terminal import LiveDisplay
from keras_gpukit.rules import judge_run
from keras_gpukit.rules.whole_run.memory_grows import InputFillsMemory
from keras_gpukit.saved_runs.folding import RunFold
from keras_gpukit.sensors.host import left_bytes

FIRST_INPUT_S = 4.0
"""Run time at which the pipeline's stages are first looked at, after some windows of steps."""
LEAST_PAUSE_S, MOST_PAUSE_S = 8.0, 300.0
FIRST_VERDICT_S = 5.0
"""Run time at which the first verdict is made."""
NOT_READABLE = "the input is not a tf.data pipeline of this process alone"
NOT_READ = "the run was over before its pipeline was read"
FAILED = "its pipeline could not be read"


class InputSoFar:
    """Writes the input wait and the pipeline's stages so far.

    The figures are taken between two steps, when a window of steps ends. Finding the stages takes
    milliseconds, so this is done on the sampling thread.
    """

    def __init__(self, steps: CallSteps, complete: Callable[[InputRecord], InputRecord]) -> None:
        self._steps = steps
        self._complete = complete
        self._schedule = Schedule(FIRST_INPUT_S, LEAST_PAUSE_S, MOST_PAUSE_S)
        self._taken: tuple[ThroughputRecord, InputRecord] | None = None

    def on_window(self, window: StepWindow) -> None:
        """Takes the figures when a window ends, if due; called on the training thread."""
        if not self._steps.wall.is_over and self._schedule.is_due():
            own = self._steps.own
            self._taken = own.throughput(), own.input_so_far()

    def write(self) -> None:
        """Writes the figures that were taken; called on the sampling thread."""
        taken, self._taken = self._taken, None
        if taken is not None:
            throughput, so_far = taken
            record = self._complete(self._steps.own.with_stages(so_far))
            self._steps.output.write_record("throughput", throughput)
            self._steps.output.write_record("input", record)


class HostBufferWatch:
    """Looks at the caches and shuffle buffers of a `fit`, and warns before memory runs out."""

    def __init__(self, steps: CallSteps) -> None:
        self._call = steps
        self._schedule = Schedule()
        params = getattr(callback_list("fit"), "params", None) or {}
        self._epoch_steps: int | None = params.get("steps")
        epochs = epochs_of("fit")
        self._steps = self._epoch_steps * epochs if self._epoch_steps and epochs else None
        # Released once it was read, because it keeps the data alive.
        self._dataset: Any = dataset_of_fit()
        self._unknown_because = NOT_READABLE if self._dataset is None else NOT_READ
        self._buffers: tuple[HostBuffer, ...] | None = None
        self._has_warned = False

    def poll(self) -> None:
        """Looks at the buffers if that is due; called on the sampling thread."""
        # Reading tf.data runs operations. During the first step, an operation on another thread
        # may be counted as one of the step, whose graphs are collected for the placement.
        if self._call.step == self._call.first_step or not self._schedule.is_due():
            return
        dataset, self._dataset = self._dataset, None
        if dataset is not None:
            self._unknown_because = FAILED  # if this raises
            self._buffers = host_buffers(dataset, self._steps)
        record = self.buffers_record()
        self._call.output.write_record("host_buffers", record)
        found = None if self._has_warned else InputFillsMemory().find_in(record)
        if found is not None and found.severity == "critical":
            self._has_warned = True
            warned = (found.title, in_one_line(found), found.advice[0])
            logger.warning("keras_gpukit: %s. %s %s.", *warned)

    def buffers_record(self) -> HostBuffers:
        """Returns the current contents of the caches and shuffle buffers."""
        if self._buffers is None:
            return HostBuffers(unknown_because=self._unknown_because)
        if any(buffer.element_bytes is None for buffer in self._buffers):
            pipeline = self._call.own.pipeline
            sizes = measured_element_bytes(pipeline.latest_model() if pipeline else None)
            self._buffers = tuple(_with_size(buffer, sizes) for buffer in self._buffers)
        return HostBuffers(
            self._buffers,
            steps=self._call.step - self._call.first_step,
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


class LiveView:
    """Shows in a notebook what the call is doing, its step time, its stall and the verdict so far.

    It is updated on the sampling thread. After a failure it stays as it is, and nothing is logged.
    """

    def __init__(self, output: RunOutput) -> None:
        self._output = output
        self._schedule = Schedule(FIRST_VERDICT_S)
        self._verdict = Verdict()
        self._display: LiveDisplay | None = None
        self._guard = Guard("The live view", "It is left out.")
        self._guard.logs = False
        with self._guard:
            self._display = LiveDisplay("keras-gpukit: starting")

    def update(self) -> None:
        """Shows the run so far; called on the sampling thread."""
        if self._display is None or self._guard.failed_because is not None:
            return
        with self._guard:
            if self._schedule.is_due():
                self._verdict = judge_run(self._output.read_fold(RunFold.summary)).verdict
            self._display.show(self._output.read_fold(self._text))

    def close(self) -> None:
        """Removes it from the cell's output: the verdict on the whole run follows."""
        if self._display is not None:
            with self._guard:
                self._display.show("")

    def _text(self, fold: RunFold) -> str:
        # A whole summary takes milliseconds. The parts of the wall time are updated less often.
        waits = fold.input()
        figures = RunSummary(
            fold.latest.get("environment") or Environment({}),
            throughput=fold.throughput(),
            input=waits and replace(waits, breakdown=None),
            verdict=self._verdict,
        )
        return running(figures, fold.progress())
