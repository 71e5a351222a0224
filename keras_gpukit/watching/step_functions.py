"""A model's step functions while they are watched: timed, and set back afterwards."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import GPUKitError, give_up
from keras_gpukit.input_wait.clock import StepClock
from keras_gpukit.input_wait.device_work import DeviceWork, runs_behind
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.measurable_input import make_measurable
from keras_gpukit.input_wait.meter_choice import MeterChoice
from keras_gpukit.input_wait.meters import Meter
from keras_gpukit.input_wait.request_meter import RequestMeter
from keras_gpukit.input_wait.self_cost import StepFunction
from keras_gpukit.input_wait.stages.watch import PipelineWatch
from keras_gpukit.input_wait.tf_private import host_iterator
from keras_gpukit.input_wait.totals import StepTotals
from keras_gpukit.input_wait.wall_time import WallTime
from keras_gpukit.records.steps import Phase, StepWindow
from keras_gpukit.watching.running_call import epoch_iterator

OnWindow = Callable[[StepWindow], None]

# The model's attribute that holds each phase's step function.
ATTRIBUTES: dict[Phase, str] = {
    "fit": "train_function",
    "evaluate": "test_function",
    "predict": "predict_function",
}


class FirstStepWatch:
    """Entered around the first step of a call; what fails in it is logged and skipped.

    Attributes:
        before: Called before the step.
        after: Called after it, also when it raised.
        spent_s: Time they took.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._entered = False
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._entered = True
        self._call(self.before)

    def __exit__(self, *exception: object) -> None:
        if self._entered:
            self._call(self.after)
            self._entered = False

    def close(self) -> None:
        """Leaves a first step in which an interrupt came, and forgets what was to be called."""
        self.__exit__()
        self.before, self.after = [], []

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began = time.perf_counter()
        for action in actions:
            try:
                action()
            except Exception as error:
                give_up("Watching the first step", error, "What it would have measured is unknown.")
        self.spent_s += time.perf_counter() - began


class StepFunctions:
    """Has a clock around each step function that is watched.

    Args:
        model: The model that is run.
        phase: What is run; its first step is the one that can be watched.
        first_step: Global step before it.
        on_window: Called with each finished window of steps, before those that `watch` was given.
        is_over: Whether the call has ended.
        wall: Where the call's wall time goes.
        stood_still_since: Whether the process stood still since a moment.
    """

    def __init__(
        self,
        model: Any,
        phase: Phase,
        first_step: int,
        on_window: OnWindow,
        is_over: Callable[[], bool],
        wall: WallTime,
        stood_still_since: Callable[[float], bool],
    ) -> None:
        self.clocks: dict[Phase, StepClock] = {}
        self.pipelines: dict[Phase, PipelineWatch] = {}
        self.request_meter = RequestMeter()
        self.first_call = FirstStepWatch()
        self.on_error: list[Callable[[BaseException], None]] = []
        self._model = model
        self._phase = phase
        self._first_step = first_step
        self._on_window = on_window
        self._is_over = is_over
        self._wall = wall
        self._stood_still_since = stood_still_since
        self._watchers: dict[Phase, list[OnWindow]] = {}
        # The original step function, and what took its place: the latest last.
        self._wrapped: dict[Phase, tuple[Any, list[Any]]] = {}
        # Of several callbacks one reports the ends of steps.
        self._reporters: dict[Phase, object] = {}
        self._on_pause: dict[Phase, list[Callable[[], None]]] = {}

    @property
    def overhead_s(self) -> float:
        """What timing costs again and again, so far."""
        return sum(clock.recurring_s for clock in self.clocks.values())

    @property
    def startup_s(self) -> float:
        """What timing and watching the first steps cost once."""
        return self.first_call.spent_s + sum(clock.startup_s for clock in self.clocks.values())

    def totals(self, phase: Phase) -> StepTotals:
        """A phase's windows, added up."""
        clock = self.clocks.get(phase)
        return StepTotals(phase) if clock is None else clock.totals

    def watch(self, phase: Phase, on_window: OnWindow) -> None:
        """Has a phase's step function timed.

        Args:
            phase: The phase that begins.
            on_window: Called with each finished window of steps.
        """
        self._watchers.setdefault(phase, []).append(on_window)
        if phase not in self._wrapped:
            self._wrap(phase)

    def surround(
        self,
        phase: Phase,
        around: Callable[[StepFunction], StepFunction],
        on_pause: Callable[[], None],
    ) -> None:
        """Puts something around each step of a phase that is watched, within its clock.

        Args:
            phase: "fit" or "evaluate", whose step functions are given an iterator.
            around: Makes, from what runs a step, what runs instead, by `functools.wraps`. Steps
                that others run, on data of their own, go without it.
            on_pause: Called when the phase's steps are interrupted or over.

        Raises:
            GPUKitError: If the phase has no step function that can be put back afterwards.
        """
        original, wrappers = self._wrapped.get(phase, (None, []))
        wrapped = wrappers[-1] if wrappers else None
        if original is None or getattr(self._model, ATTRIBUTES[phase]) is not wrapped:
            raise GPUKitError("the step function is not Keras' own, or other code replaced it")
        inside = getattr(wrapped, "__wrapped__", original)
        surrounded = around(inside)
        latest: weakref.ref[Any] | None = None

        @functools.wraps(surrounded)
        def choose(iterator: Any) -> Any:
            nonlocal latest
            if latest is None or iterator is not latest():
                if not self._accepts(iterator):
                    return inside(iterator)
                latest = weakref.ref(iterator)
            return surrounded(iterator)

        self._on_pause.setdefault(phase, []).append(on_pause)
        self._replace(phase, original, self.clocks[phase].wrap(choose))

    def note_finished(self, phase: Phase, by: object) -> None:
        """The results of a phase's next step are there.

        Args:
            phase: What the step belongs to.
            by: Whichever reports it; of several only the first counts.
        """
        clock = self.clocks.get(phase)
        if clock is not None and clock.device and self._reporters.setdefault(phase, by) is by:
            clock.device.note_finished()

    def pause(self, phase: Phase) -> None:
        """A phase's steps are interrupted, by an epoch's end or a validation."""
        for on_pause in self._on_pause.get(phase, ()):
            on_pause()
        if phase in self.clocks:
            self.clocks[phase].pause()

    def unwatch(self, phase: Phase) -> None:
        """A phase is over: its step function is restored."""
        self.pause(phase)
        self._watchers.pop(phase, None)
        if phase not in self._wrapped:
            return
        original, wrappers = self._wrapped[phase]
        current = getattr(self._model, ATTRIBUTES[phase], None)
        if any(current is each for each in wrappers):
            # What another session put underneath and has left since goes too.
            while hasattr(original, "gpukit_left"):
                original = original.gpukit_left
            setattr(self._model, ATTRIBUTES[phase], original)
        elif current is not original:
            # Other code wrapped or replaced the function since, and its owner keeps it.
            wrappers[-1].gpukit_left = original
            if _is_within(wrappers[-1], current):
                self.clocks[phase].leave()
            else:
                self.clocks[phase].stop("the step function was replaced while it was watched")
        # Only now: should an interrupt come, this is repeated.
        del self._wrapped[phase]

    def restore(self) -> None:
        """Every phase is over."""
        for phase in tuple(self._wrapped):
            self.unwatch(phase)
        self.first_call.close()

    def release(self) -> None:
        """Forgets the data and the callbacks of a call that is over."""
        for clock in self.clocks.values():
            clock.release()
        for actions in (self._watchers, self._on_pause, self.pipelines):
            actions.clear()
        self.on_error.clear()

    def _replace(self, phase: Phase, original: Any, wrapped: Any) -> None:
        # Noted before it is put in place: should an interrupt come, it is found and removed.
        self._wrapped.setdefault(phase, (original, []))[1].append(wrapped)
        setattr(self._model, ATTRIBUTES[phase], wrapped)

    def _wrap(self, phase: Phase) -> None:
        original = getattr(self._model, ATTRIBUTES[phase])
        if phase not in self.clocks:
            self.clocks[phase] = self._make_clock(phase, original)
        clock = self.clocks[phase]
        if phase != "predict":
            make_measurable(epoch_iterator(phase))
        if original is None:
            # A loop in user code drives the callbacks. Wrapped, it would look made to Keras.
            clock.windows.unknown_because = (
                "Keras had not made the step function when the run began"
            )
            return
        if phase == "predict":
            wrapped = clock.wrap_batches(original, self.request_meter)
        else:
            wrapped = clock.wrap(original)
        self._replace(phase, original, wrapped)

    def _make_clock(self, phase: Phase, step_function: Any) -> StepClock:
        steps_per_execution = self._model.steps_per_execution
        device = DeviceWork(steps_per_execution) if runs_behind(self._model) else None
        choose: Callable[[Any], Meter | str]
        if phase == "predict":

            def choose(source: Any) -> Meter:
                return self.request_meter
        else:
            choose = MeterChoice(
                step_function,
                steps_per_execution,
                overlaps=not self._model.run_eagerly and device is None,
            )
            self.pipelines[phase] = choose.pipeline

        def on_window(window: StepWindow) -> None:
            for action in (self._on_window, *self._watchers.get(phase, ())):
                action(window)

        def on_error(error: BaseException) -> None:
            for action in tuple(self.on_error):
                try:
                    action(error)
                except Exception as failure:
                    give_up("Reading a step's error", failure, "It is not reported.")

        return StepClock(
            phase=phase,
            steps_per_execution=steps_per_execution,
            first_step=self._first_step,
            on_window=on_window,
            on_error=on_error if phase == self._phase else None,
            examples=ExampleCounter(self._model) if phase != "predict" else None,
            around_first_call=self.first_call if phase == self._phase else None,
            choose=choose,
            wall=self._wall if phase == self._phase else None,
            accepts=self._accepts,
            stood_still_since=self._stood_still_since,
            device=device,
        )

    def _accepts(self, source: Any) -> bool:
        # `train_on_batch` in a callback calls the step function too, from a plain iterator; and
        # after a run that failed, another call may come before the step function is restored.
        fed_by_fit = source is self.request_meter or host_iterator(source) is not None
        return fed_by_fit and not self._is_over()


def _is_within(function: Any, wrapping: Any) -> bool:
    """Whether a function is called by another one, or is that one."""
    while wrapping is not None and wrapping is not function:
        wrapping = getattr(wrapping, "__wrapped__", None)
    return wrapping is function
