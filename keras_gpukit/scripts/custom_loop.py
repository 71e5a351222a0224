"""Measures a script that iterates over a dataset in a loop of its own, without `fit`."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks.tf_datasets import has_model, read_model, shows_model, wrap_takes
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, RetracedFunction, ThroughputRecord
from keras_gpukit.scripts.eager_steps import LEAST_STEPS, EagerSteps
from keras_gpukit.sensors.stacks import outwards

if TYPE_CHECKING:
    from keras_gpukit.monitoring.retraced_functions import RetracedFunctions
    from keras_gpukit.records.environment import Environment

TO_SEE_MORE = """\
The loop at {place} is the script's own, so only its batches, the host and the GPUs were measured.
For more, profile 20 of its steps with these two lines, then run keras-gpukit report profile.
The number of a step is i, as in "for i, batch in enumerate(dataset)":
  {profile}  # around the 20 steps
      {trace}  # around each step"""
_PASS = "_gpukit_pass"
_LIBRARIES = tuple(os.path.join(*parts) for parts in (("keras", "src"), ("keras_gpukit", "")))


@dataclass
class _Loop:
    """A line that takes batches, over all of its passes. Each pass's first step is left out.

    Attributes:
        place: The line, such as "train.py:40".
        pipeline: Readings of tf.data's model.
        began_s: When it took its first batch, on the clock; its last step ended at `ended_s`.
    """

    place: str
    pipeline: Any
    began_s: float
    steps: int = 0
    waited_s: float = 0.0
    lasted_s: float = 0.0
    ended_s: float = 0.0


@dataclass
class _Pass:
    loop: _Loop | None
    batches: int = 0
    began_s: float = 0.0
    waited_s: float = 0.0
    is_in_step: bool = False

    def ends(self, now_s: float) -> None:
        """Adds the step that ends now, unless it was the first one."""
        counts, self.is_in_step = self.is_in_step and self.batches > 1, False
        if self.loop is not None and counts:
            self.loop.steps += 1
            self.loop.waited_s += self.waited_s
            self.loop.lasted_s += now_s - self.began_s
            self.loop.ended_s = now_s


class OwnLoops:
    """Times the batches that the script's main thread takes from datasets, and reads the machine.

    The machine is read from the first batch on.

    Attributes:
        eager: Counts the steps that run eagerly.
    """

    def __init__(self) -> None:
        self.eager = EagerSteps(self._start)
        self._loops: dict[str, _Loop] = {}
        self._readings: _Readings | None = None
        self._retraced: RetracedFunctions | None = None
        self._guard = Guard("Timing a loop over a dataset", "It is not measured.")

    def install(self) -> None:
        """Starts to time batches. Needs TensorFlow imported."""
        with self._guard:
            wrap_takes(self._timed)
            self.eager.install()

    def summary(self) -> RunSummary | None:
        """Ends the readings; returns the judged record of the longest loop, None without one."""
        if self._readings is None:
            return None
        self._readings.sampling.stop()
        loop, eager = self._longest, self.eager.throughput()
        if (loop is None and eager is None) or self._guard.failed_because is not None:
            return None
        return _summarize(loop, eager, self._readings)

    def retraced(self) -> tuple[RetracedFunction, ...]:
        """Returns the functions that were traced more than once since the first step; ends that."""
        if self._retraced is None:
            return ()
        self._retraced.close()
        return self._retraced.functions() or ()

    @property
    def span_s(self) -> tuple[float, float] | None:
        """When the longest loop and the eager steps began and ended; None without any."""
        loop, eager = self._longest, self.eager.span_s
        spans = [] if loop is None else [(loop.began_s, loop.ended_s)]
        spans += [] if eager is None else [eager]
        return (min(spans)[0], max(end for _, end in spans)) if spans else None

    @property
    def place(self) -> str | None:
        """Line that takes the batches of the loop that `summary` is of; None without one."""
        return None if self._longest is None else self._longest.place

    @property
    def _longest(self) -> _Loop | None:
        loops = [loop for loop in self._loops.values() if loop.steps >= LEAST_STEPS]
        return max(loops, key=lambda loop: loop.lasted_s, default=None)

    def _timed(self, take: Any) -> Any:
        import tensorflow as tf

        now, main = time.perf_counter, threading.main_thread().ident
        in_graph = tf.inside_function

        @functools.wraps(take)
        def timed(iterator: Any) -> Any:
            if threading.get_ident() != main or in_graph():
                return take(iterator)
            began_s = now()
            followed = vars(iterator).get(_PASS)
            if followed is not None:
                followed.ends(began_s)
            batch = take(iterator)
            if followed is None:
                followed = vars(iterator)[_PASS] = _Pass(self._loop_of_caller())
            followed.began_s, followed.waited_s = began_s, now() - began_s
            followed.batches, followed.is_in_step = followed.batches + 1, True
            if followed.loop is not None:
                self._poll(iterator, followed.loop, followed.batches)
            return batch

        return timed

    def _loop_of_caller(self) -> _Loop | None:
        """Returns the loop in the script that takes a batch; None if a library does."""
        from keras_gpukit.input.wait.watch import PipelineWatch

        for frame in outwards(sys._getframe(2)):
            file = frame.f_code.co_filename
            if any(library in file for library in _LIBRARIES):
                return None
            if is_of_the_script(file):
                line = place(file, frame.f_lineno)
                return self._loops.setdefault(
                    line, _Loop(line, PipelineWatch(), time.perf_counter())
                )
        return None

    def _poll(self, iterator: Any, loop: _Loop, batches: int) -> None:
        """Reads tf.data's model after the first batch and at every power of two."""
        if batches & (batches - 1) or self._guard.failed_because is not None:
            return
        with self._guard:
            self._start()
            if not shows_model(iterator):
                return
            if has_model(iterator):
                if batches == 1:
                    loop.pipeline.follow(iterator)
                loop.pipeline.add_reading(read_model(iterator))

    def _start(self) -> None:
        if self._readings is None:
            from keras_gpukit.monitoring.retraced_functions import RetracedFunctions

            self._readings = _Readings()
            self._retraced = RetracedFunctions()
            self._retraced.start()


class _Readings:
    """Readings of GPUs and host from now on."""

    def __init__(self) -> None:
        from keras_gpukit.callbacks.utilization import MachineReadings
        from keras_gpukit.monitoring.environment import process_environment
        from keras_gpukit.monitoring.run_output import RunOutput
        from keras_gpukit.monitoring.sampling import Sampling

        self.environment = process_environment()
        self.output, self.sampling = RunOutput(None), Sampling()
        self.machine = MachineReadings(self.environment.gpus, self.output, self.sampling)
        self.sampling.start()


def _summarize(
    loop: _Loop | None, eager: ThroughputRecord | None, readings: _Readings
) -> RunSummary:
    from keras_gpukit.rules import judge_run

    readings.machine.end()
    summary = RunSummary(
        environment=readings.environment,
        throughput=eager,
        utilization=readings.output.fold.utilization(),
        ending="completed",
    )
    if loop is not None:
        step_s = loop.lasted_s / loop.steps
        throughput = ThroughputRecord("fit", loop.steps, loop.steps, step_s, None)
        summary = replace(summary, throughput=throughput, input=_input(loop, readings.environment))
    return judge_run(summary)


def _input(loop: _Loop, environment: Environment) -> InputRecord:
    from keras_gpukit.rules.input.pipeline_causes import name_bottleneck

    wait_s, fraction = loop.waited_s / loop.steps, loop.waited_s / loop.lasted_s
    # GPUs compute while the loop waits for its next batch. Unproven on a GPU.
    return InputRecord(
        "fit",
        "timed calls of the dataset's iterator",
        confidence="upper bound" if environment.gpus else "exact",
        measured_steps=loop.steps,
        wait_s=wait_s,
        stall_fraction=fraction,
        pipeline=name_bottleneck(loop.pipeline.pipeline_record(wait_s), fraction, wait_s),
    )
