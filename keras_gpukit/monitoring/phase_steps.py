"""Times the steps of one phase of a monitored call, and computes the phase's records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keras_gpukit.errors import GPUKitError, Guard
from keras_gpukit.frameworks.keras_trainer import epoch_dataset
from keras_gpukit.frameworks.older_keras import gpu_runs_ahead
from keras_gpukit.frameworks.tf_datasets import host_iterator
from keras_gpukit.input.pipelines.randomness import repeated_batches
from keras_gpukit.input.pipelines.rebuilding import times_its_fetches
from keras_gpukit.input.wait.calls import (
    CallTimes,
    ExampleCounter,
    StepFunction,
    steps_of_fits,
    steps_of_passes,
)
from keras_gpukit.input.wait.clock import StepClock
from keras_gpukit.input.wait.closed_windows import ClosedWindows
from keras_gpukit.input.wait.meter_choice import MeterChoice, make_measurable
from keras_gpukit.input.wait.meters import RequestMeter
from keras_gpukit.input.wait.step_windows import StepWindows
from keras_gpukit.input.wait.totals import StepTotals
from keras_gpukit.input.wait.watch import PipelineWatch
from keras_gpukit.monitoring.call_frame import batch_of, epoch_iterator, epochs_of
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.steps import (
    InputRecord,
    Phase,
    StepWindow,
    ThroughputRecord,
    TimeBreakdown,
)
from keras_gpukit.rules.input.pipeline_causes import name_bottleneck

if TYPE_CHECKING:
    from keras_gpukit.monitoring.call_steps import CallSteps

OnWindow = Callable[[StepWindow], None]
Around = Callable[[StepFunction], StepFunction]

# The model's attribute that holds each phase's step function.
ATTRIBUTES = {"fit": "train_function", "evaluate": "test_function", "predict": "predict_function"}
REPLACED = "the step function was replaced while it was monitored"
NOT_MADE = "Keras had not made the step function when the run began"


class PhaseSteps:
    """Wraps a phase's step function in a clock while the phase runs.

    Attributes:
        pipeline: Reads tf.data's model of the input; None without one.
        is_between_epochs: Whether the steps of an epoch are over and the next has not started.
    """

    def __init__(self, call: CallSteps, phase: Phase) -> None:
        model, output = call.model, call.output
        is_call = phase == call.phase
        self.pipeline: PipelineWatch | None = None
        self.is_between_epochs = False
        self._model = model
        self._phase = phase
        self._frame = call.frame
        self._wall = wall = call.wall if is_call else None
        self._watchers: list[OnWindow] = [
            lambda window: output.write_record("steps", window, window.step)
        ]
        self._around: list[Around] = []
        self._on_pause: list[Callable[[], None]] = []
        self._function = ReplacedAttribute(model, ATTRIBUTES[phase])
        self._requests = RequestMeter() if phase == "predict" else None
        self._times_fetches = False
        # Keras' `EpochIterator`, which makes the phase's iterators; looking it up takes a while.
        self._epoch_iterator: Any = None
        self._batches: int | None = None  # of an epoch that ends with its data
        self._passes: float | None = None  # over data that are repeated
        self._calls = CallTimes(model.steps_per_execution, call.first_step)
        self._totals = StepTotals(
            phase,
            model.steps_per_execution,
            lambda record: output.read_fold(lambda fold: fold.measured(record)),
        )
        counts = not self._requests
        ended = ClosedWindows(
            self._totals,
            on_window=self._take,
            on_start=wall.add_epoch_wait if wall else lambda wait_s, began_s: None,
            examples=ExampleCounter(model, phase, batch_of(phase)[1]) if counts else None,
            suspended_since=call.suspended_since,
        )
        self._windows = StepWindows(self._calls, self._choice(), ended)
        self._clock = StepClock(
            self._calls,
            self._windows,
            wall=wall,
            on_error=call.errors.of_step if is_call else call.errors.of_validation,
            around_first_call=call.first_step_hooks if is_call else None,
            accepts=self._accepts,
            cost=call.cost,
        )

    @property
    def step(self) -> int:
        """Global step."""
        return self._calls.step

    @property
    def steps(self) -> int:
        """Number of steps that ran."""
        calls = self._calls
        if calls.steps_per_execution == 1:
            return calls.steps
        if self._phase == "fit":
            return steps_of_fits(self._model, calls, self._clock.pipelines)
        return steps_of_passes(calls, self._batches)

    @property
    def step_time_s(self) -> float | None:
        """Mean step time."""
        return self._totals.step_time_s

    @property
    def executions(self) -> int:
        """Number of times that the step function has returned."""
        return self._calls.count

    def watch(self, on_window: OnWindow) -> None:
        """Times the step function until `restore`; passes each finished window to a listener."""
        self._watchers.append(on_window)
        if self._function.is_replaced:
            return
        self._epoch_iterator = iterator = epoch_iterator(self._phase)
        steps = getattr(iterator, "steps_per_epoch", None)
        if steps is None:
            self._batches = getattr(iterator, "num_batches", None)
        elif batches := repeated_batches(epoch_dataset(iterator)):
            self._passes = steps / batches
        if self._requests is None:
            make_measurable(self._epoch_iterator, has_one_epoch=epochs_of(self._phase) == 1)
        step_function = self._function.current
        if step_function is None:
            # A loop in user code drives the callbacks. If we set a wrapper, Keras would take it for
            # a finished step function.
            self._clock.stop(NOT_MADE)
        else:
            self._function.replace(self._timed(step_function))

    def _timed(self, step_function: StepFunction, not_accepted: Any = None) -> StepFunction:
        if self._requests is not None:
            return self._clock.wrap_batches(step_function, self._requests)
        return self._clock.wrap(step_function, not_accepted)

    def surround(self, around: Around, on_pause: Callable[[], None] = lambda: None) -> None:
        """Wraps each step in another function, inside the clock, by means of `functools.wraps`.

        Steps that other code runs on its own data are not wrapped. `on_pause` is called when the
        steps are interrupted or over. Raises a `GPUKitError` if nothing could be restored later.
        """
        if not self._function.is_ours:
            raise GPUKitError("the step function is not Keras' own, or other code replaced it")
        surrounded = around(self._function.current.__wrapped__)
        self._around.append(around)
        self._function.replace(self._timed(surrounded, self._function.original))
        self._on_pause.append(on_pause)

    def cut_window(self) -> None:
        """Ends the current window of steps at the start of the call that is under way."""
        self._windows.cut()

    def requested(self) -> None:
        """Notes that `predict` requests a batch, which it fetches outside its step function."""
        if self._requests is not None:
            self._requests.requested()

    def pause(self, batch_ended_s: float = 0.0) -> None:
        """Notes that an epoch's end or a validation interrupts the steps."""
        for on_pause in self._on_pause:
            on_pause()
        self._clock.pause(batch_ended_s)
        if self._windows.had_short_epoch and not self._times_fetches:
            self._times_fetches = True
            make_measurable(self._epoch_iterator, has_short_epochs=True)

    def end_epoch(self) -> None:
        """Notes that the steps of an epoch are over; none run until `begin_epoch`."""
        if self._function.is_lost:
            self._clock.stop(REPLACED)
        self._windows.end_epoch()
        self.is_between_epochs = True

    def begin_epoch(self) -> None:
        """Wraps the step function that was made between two epochs, if any; it will be traced."""
        self.is_between_epochs = False
        made = self._function.current
        if made is None or not self._function.is_lost:
            return
        traces = self._function.restore() == "replaced"
        surrounded = made
        for around in self._around:
            surrounded = around(surrounded)
        self._function.replace(self._clock.wrap(surrounded, made, traces=traces))

    def restore(self) -> None:
        """Ends the phase and restores its step function; may be called repeatedly."""
        if self._function.is_replaced:
            self.pause()
            self._clock.end()
            outcome = self._function.restore()
            if outcome == "wrapped":
                self._clock.leave()
            elif outcome == "replaced" and not self.is_between_epochs:
                self._clock.stop(REPLACED)
            if self.pipeline is not None:
                with Guard("Ending the timing of a Grain dataset", "Grain continues to time it."):
                    self.pipeline.stop()
        self._epoch_iterator = None
        for added in (self._around, self._on_pause):  # a validation adds them each time
            added.clear()
        del self._watchers[1:]

    def release(self) -> None:
        """Forgets the data and callbacks of a call that is over."""
        self._clock.release()
        self._watchers.clear()
        self.pipeline = None

    def throughput(self) -> ThroughputRecord:
        """Returns step times and rates."""
        record = self._totals.throughput(self.steps, self._wall.total_s if self._wall else None)
        return replace(record, executions=self.executions, passes=self._passes)

    def input(self) -> InputRecord:
        """Returns the input wait, the costs of the pipeline's stages, and the time breakdown."""
        record = self._windows.input()
        breakdown = self._breakdown(record.wait_s, self.steps)
        return replace(record, breakdown=breakdown, pipeline=self._stages(record))

    def input_so_far(self) -> InputRecord:
        """Returns `input` as of a window that has just ended, without stages."""
        record, calls = self._windows.input(), self._calls
        steps = calls.before * calls.steps_per_execution
        breakdown = self._breakdown(record.wait_s, steps, self._windows.began_s)
        return replace(record, breakdown=breakdown)

    def with_stages(self, record: InputRecord) -> InputRecord:
        """Adds the costs of the pipeline's stages so far; may be called on any thread."""
        return replace(record, pipeline=self._stages(record, so_far=True))

    def _breakdown(
        self, wait_s: float | None, steps: int, until_s: float | None = None
    ) -> TimeBreakdown | None:
        """Returns the breakdown of the call's wall time; None unless every step was timed."""
        if self._wall is None or self._requests or not self._clock.saw_every_step:
            return None
        # The run's first step, and the steps whose wait counts as epoch start, are excluded.
        executions_apart = 1 + self._totals.starts
        waiting_steps = max(steps - executions_apart * self._calls.steps_per_execution, 0)
        if waiting_steps == 0:
            wait_s = 0.0
        wait_s = None if wait_s is None else wait_s * waiting_steps
        return self._wall.breakdown(self._calls.inside_s, wait_s, until_s)

    def _stages(self, record: InputRecord, *, so_far: bool = False) -> PipelineRecord | None:
        """Returns the pipeline's stages. If naming them fails, the input wait is not lost."""
        if self.pipeline is None:
            return None
        with Guard("Naming the stages of the pipeline", "They are unknown.") as guard:
            stages = self.pipeline.pipeline_record(record.wait_s, so_far=so_far)
            return name_bottleneck(stages, record.stall_fraction, record.wait_s)
        return PipelineRecord(unknown_because=guard.failed_because)

    def _choice(self) -> Callable[[Any], Any]:
        if self._requests is not None:
            return lambda source: self._requests
        choice = MeterChoice(
            self._function.current,
            self._calls.steps_per_execution,
            lambda: self._calls.count,
            overlaps=not self._model.run_eagerly,
            runs_ahead=gpu_runs_ahead(self._calls.steps_per_execution),
        )
        self.pipeline = choice.pipeline
        return choice

    def _take(self, window: StepWindow) -> None:
        for action in tuple(self._watchers):
            action(window)

    def _accepts(self, source: Any) -> bool:
        # `train_on_batch` in a callback also calls the step function, with a plain iterator. After
        # a failed run, another call may come before the step function is restored.
        fed_by_fit = isinstance(source, RequestMeter) or times_its_fetches(source)
        return (fed_by_fit or host_iterator(source) is not None) and not self._frame.over
