"""Times the steps of one phase of a monitored call, and computes the phase's records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.measurable import times_its_fetches
from keras_gpukit.input.wait.clock import StepClock
from keras_gpukit.input.wait.device_work import DeviceWork, runs_behind
from keras_gpukit.input.wait.examples import ExampleCounter
from keras_gpukit.input.wait.measurable_input import make_measurable
from keras_gpukit.input.wait.meter_choice import MeterChoice
from keras_gpukit.input.wait.meters import Meter
from keras_gpukit.input.wait.request_meter import RequestMeter
from keras_gpukit.input.wait.self_cost import StepFunction
from keras_gpukit.input.wait.stages.watch import PipelineWatch
from keras_gpukit.input.wait.tf_private import host_iterator
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.records.steps import (
    InputRecord,
    Phase,
    StepWindow,
    ThroughputRecord,
    TimeBreakdown,
)
from keras_gpukit.rules.input.bottleneck import name_bottleneck
from keras_gpukit.watching.call_frame import CallFrame, batch_of, epoch_iterator, has_one_epoch
from keras_gpukit.watching.first_step import FirstStepHooks
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute
from keras_gpukit.watching.step_count import FitCount
from keras_gpukit.watching.watched_function import WatchedFunction

OnWindow = Callable[[StepWindow], None]

# The model's attribute that holds each phase's step function.
ATTRIBUTES = {"fit": "train_function", "evaluate": "test_function", "predict": "predict_function"}


class PhaseSteps:
    """Wraps a phase's step function in a clock while the phase runs.

    Args:
        model: The model that is run.
        phase: "fit", "evaluate" or "predict".
        first_step: Global step before the call.
        on_window: Called with each finished window of steps, before the listeners of `watch`.
        on_error: Called with each exception of a step, except for the end of the data.
        stood_still_since: Returns whether the process was suspended since a moment.
        frame: Stack frame of the call.
        wall: Accounts for the call's wall time; None for a phase inside the call.
        first_call: Context manager around the first step; None for a phase inside the call.

    Attributes:
        watched: The step function.
        pipeline: Reads tf.data's model of the input; None without one.
    """

    def __init__(
        self,
        model: Any,
        phase: Phase,
        first_step: int,
        *,
        on_window: OnWindow,
        on_error: Callable[[BaseException], None],
        stood_still_since: Callable[[float], bool],
        frame: CallFrame,
        wall: WallTime | None,
        first_call: FirstStepHooks | None,
    ) -> None:
        self._model = model
        self._phase = phase
        self._counted = FitCount(model, first_step) if phase == "fit" else None
        self._frame = frame
        self._wall = wall
        self._on_window: list[OnWindow] = [on_window]
        self._watchers: list[OnWindow] = []
        self._on_pause: list[Callable[[], None]] = []
        self._function = ReplacedAttribute(model, ATTRIBUTES[phase])
        self._requests = RequestMeter()
        self.pipeline: PipelineWatch | None = None
        self._times_fetches = False
        # Keras' `EpochIterator`, which makes the phase's iterators; looking it up takes a while.
        self._epoch_iterator: Any = None
        self._device = DeviceWork() if runs_behind(model) else None
        # If several callbacks report the ends of steps, only this one counts.
        self._reporter: object = None
        self._clock = StepClock(
            phase=phase,
            steps_per_execution=model.steps_per_execution,
            first_step=first_step,
            on_window=self._take,
            on_error=on_error,
            examples=(
                None
                if phase == "predict"
                else ExampleCounter(model, phase, batch_size=batch_of(phase)[1])
            ),
            around_first_call=first_call,
            choose=self._make_choice(),
            wall=wall,
            accepts=self._accepts,
            stood_still_since=stood_still_since,
            device=self._device,
        )
        self.watched = WatchedFunction(self._function, self._clock)

    @property
    def step(self) -> int:
        """Global step."""
        return self._clock.step

    @property
    def follows_device(self) -> bool:
        """Whether ends of steps must be reported: the device finishes them asynchronously."""
        return self._device is not None

    @property
    def recurring_s(self) -> float:
        """Recurring overhead so far of timing and of all other wrappers around each step."""
        return self.watched.recurring_s

    @property
    def startup_s(self) -> float:
        """One-time overhead of timing the first steps."""
        return self._clock.startup_s

    def watch(self, on_window: OnWindow) -> None:
        """Times the step function until `restore`; passes each finished window to a listener."""
        self._watchers.append(on_window)
        if self._function.is_replaced:
            return
        self._epoch_iterator = epoch_iterator(self._phase)
        if self._phase != "predict":
            make_measurable(self._epoch_iterator, has_one_epoch=has_one_epoch(self._phase))
        self.watched.wrap(self._requests if self._phase == "predict" else None)

    def surround(
        self,
        around: Callable[[StepFunction], StepFunction],
        alone: Callable[[StepFunction], StepFunction],
        on_pause: Callable[[], None],
    ) -> None:
        """Wraps each step in another function, inside the clock; not for `predict`.

        Args:
            around: Wraps a function that runs a step, using `functools.wraps`. Steps that other
                code runs on its own data are not wrapped.
            alone: Wraps a function in the same way outside a run, to measure the overhead.
            on_pause: Called when the steps are interrupted or over.

        Raises:
            GPUKitError: If there is no step function that can be restored afterwards.
        """
        self.watched.surround(around, alone)
        self._on_pause.append(on_pause)

    def cut_window(self) -> None:
        """Ends the current window of steps at the start of the call that is under way."""
        self._clock.windows.cut()

    def requested(self) -> None:
        """Notes that `predict` requests a batch, which it fetches outside its step function."""
        self._requests.requested()

    def note_finished(self, by: object) -> None:
        """Notes that the results of the next step are available.

        Args:
            by: Callback that reports it. If several callbacks do, only the first one counts.
        """
        if self._device is None:
            return
        self._reporter = self._reporter or by
        if self._reporter is by:
            self._device.note_finished()

    def pause(self) -> None:
        """Notes that an epoch's end or a validation interrupts the steps."""
        for on_pause in self._on_pause:
            on_pause()
        self._clock.pause()
        if self._clock.windows.had_short_epoch and not self._times_fetches:
            self._times_fetches = True
            make_measurable(self._epoch_iterator, has_short_epochs=True)

    def restore(self) -> None:
        """Ends the phase and restores its step function; may be called repeatedly."""
        if self._function.is_replaced:
            self.pause()
            self._clock.work_out()
            self.watched.restore()
            if self.pipeline is not None:
                with Guard("Ending the timing of a Grain dataset", "Grain continues to time it."):
                    self.pipeline.stop()
        self._epoch_iterator = None
        self._watchers.clear()

    def release(self) -> None:
        """Forgets the data and callbacks of a call that is over."""
        self._clock.release()
        for actions in (self._on_window, self._watchers, self._on_pause):
            actions.clear()
        self.watched.release()
        self.pipeline = self._reporter = None

    @property
    def steps(self) -> int:
        """Number of steps that ran."""
        clock = self._clock
        if self._counted is None or clock.steps_per_execution == 1:
            return clock.steps
        return self._counted.steps(clock.calls, clock.steps_per_execution, clock.pipelines)

    @property
    def step_time_s(self) -> float | None:
        """Mean step time."""
        return self._clock.totals.step_time_s

    @property
    def executions(self) -> int:
        """Number of times that the step function has returned."""
        return self._clock.calls

    def throughput(self) -> ThroughputRecord:
        """Returns step times and rates."""
        clock, steps = self._clock, self.steps
        record = clock.totals.throughput(steps, self._wall.total_s if self._wall else None)
        updates = self._counted.updates(steps, clock.pipelines) if self._counted else None
        return replace(record, updates=updates, executions=clock.calls)

    def input(self) -> InputRecord:
        """Returns the input wait, the costs of the pipeline's stages, and the time breakdown."""
        record = self._totals()
        breakdown = self._breakdown(record.wait_s, self.steps)
        return replace(record, breakdown=breakdown, pipeline=self._stages(record))

    def input_so_far(self) -> InputRecord:
        """Returns `input` as of a window that has just ended, without stages."""
        record, windows = self._totals(), self._clock.windows
        breakdown = self._breakdown(record.wait_s, windows.steps_before, windows.began_s)
        return replace(record, breakdown=breakdown)

    def with_stages(self, record: InputRecord) -> InputRecord:
        """Adds the costs of the pipeline's stages so far; may be called on any thread."""
        return replace(record, pipeline=self._stages(record, so_far=True))

    def _totals(self) -> InputRecord:
        meter = self._clock.waits.meter
        return self._clock.totals.input(
            meter.mechanism if meter else None,
            meter.confidence if meter else None,
            self._clock.waits.unknown_because,
        )

    def _breakdown(
        self, wait_s: float | None, steps: int, until_s: float | None = None
    ) -> TimeBreakdown | None:
        """Returns the breakdown of the call's wall time; None unless every step was timed."""
        clock = self._clock
        if self._wall is None or self._phase == "predict" or not clock.saw_every_step:
            return None
        # The run's first step, and the steps whose wait counts as epoch start, are excluded.
        executions_apart = 1 + clock.totals.starts.epochs
        waiting_steps = max(steps - executions_apart * clock.steps_per_execution, 0)
        if waiting_steps == 0:
            wait_s = 0.0
        return self._wall.breakdown(None if wait_s is None else wait_s * waiting_steps, until_s)

    def _stages(self, record: InputRecord, *, so_far: bool = False) -> PipelineRecord | None:
        """Returns the pipeline's stages. If naming them fails, the input wait is not lost."""
        if self.pipeline is None:
            return None
        with Guard("Naming the stages of the pipeline", "They are unknown.") as guard:
            stages = self.pipeline.record(record.wait_s, so_far=so_far)
            return name_bottleneck(stages, record.stall_fraction, record.wait_s)
        return PipelineRecord(unknown_because=guard.failed_because)

    def _make_choice(self) -> Callable[[Any], Meter | str]:
        if self._phase == "predict":
            return lambda source: self._requests
        choice = MeterChoice(
            self._function.current,
            self._model.steps_per_execution,
            lambda: self._clock.calls,
            overlaps=not self._model.run_eagerly,
        )
        self.pipeline = choice.pipeline
        return choice

    def _take(self, window: StepWindow) -> None:
        for action in (*self._on_window, *self._watchers):
            action(window)

    def _accepts(self, source: Any) -> bool:
        # `train_on_batch` in a callback also calls the step function, with a plain iterator. After
        # a failed run, another call may come before the step function is restored.
        fed_by_fit = source is self._requests or times_its_fetches(source)
        return (fed_by_fit or host_iterator(source) is not None) and not self._frame.over
