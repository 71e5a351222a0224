"""A model's step functions while they are watched: timed, and set back afterwards."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import GPUKitError, give_up
from keras_gpukit.input_wait.choice import MeterChoice
from keras_gpukit.input_wait.clock import StepClock, StepFunction
from keras_gpukit.input_wait.examples import ExampleCounter
from keras_gpukit.input_wait.meters import Meter
from keras_gpukit.input_wait.stages.watch import PipelineWatch
from keras_gpukit.input_wait.tap import make_measurable
from keras_gpukit.input_wait.tf_private import host_iterator
from keras_gpukit.input_wait.timed_fetch import RequestMeter
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
    """Entered around the first step of a call; what fails in it is said and left.

    Attributes:
        before: Called before the step.
        after: Called after it, also when it raised.
        spent_s: Time they took.
    """

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._call(self.before)

    def __exit__(self, *exception: object) -> None:
        self._call(self.after)

    def _call(self, actions: list[Callable[[], None]]) -> None:
        began = time.perf_counter()
        for action in actions:
            try:
                action()
            except Exception as error:
                give_up("Watching the first step", error, "What it would have told is unknown.")
        self.spent_s += time.perf_counter() - began


class StepFunctions:
    """Has a clock around each step function that somebody watches.

    Args:
        model: The model that is run.
        phase: What is run; its first step is the one that can be watched.
        first_step: Global step before it.
        on_window: Called with each finished window of steps, before those who watch.
        is_over: Whether the call has ended.
        wall: Is told which part of the call's wall time begins.
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
        self._model = model
        self._phase = phase
        self._first_step = first_step
        self._on_window = on_window
        self._is_over = is_over
        self._wall = wall
        self._stood_still_since = stood_still_since
        self._watchers: dict[Phase, list[OnWindow]] = {}
        self._unwrapped: dict[Phase, tuple[Any, Any]] = {}
        self._on_pause: dict[Phase, list[Callable[[], None]]] = {}

    @property
    def overhead_s(self) -> float:
        """What timing costs again and again, so far."""
        return sum(clock.recurring_s for clock in self.clocks.values())

    @property
    def startup_s(self) -> float:
        """What timing and watching the first steps cost once."""
        return self.first_call.spent_s + sum(clock.startup_s for clock in self.clocks.values())

    def watch(self, phase: Phase, on_window: OnWindow) -> None:
        """Has a phase's step function timed.

        Args:
            phase: The phase that begins.
            on_window: Called with each finished window of steps.
        """
        self._watchers.setdefault(phase, []).append(on_window)
        if phase not in self._unwrapped:
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
        original, wrapped = self._unwrapped.get(phase, (None, None))
        if original is None or getattr(self._model, ATTRIBUTES[phase]) is not wrapped:
            raise GPUKitError("the step function is not Keras' own, or somebody else replaced it")
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

        wrapped = self.clocks[phase].wrap(choose)
        setattr(self._model, ATTRIBUTES[phase], wrapped)
        self._unwrapped[phase] = (original, wrapped)
        self._on_pause.setdefault(phase, []).append(on_pause)

    def pause(self, phase: Phase) -> None:
        """A phase's steps are interrupted, by an epoch's end or a validation."""
        for on_pause in self._on_pause.get(phase, ()):
            on_pause()
        if phase in self.clocks:
            self.clocks[phase].pause()

    def unwatch(self, phase: Phase) -> None:
        """A phase is over: its step function is set back."""
        self.pause(phase)
        self._watchers.pop(phase, None)
        if phase not in self._unwrapped:
            return
        original, wrapped = self._unwrapped.pop(phase)
        if getattr(self._model, ATTRIBUTES[phase], None) is wrapped:
            # What another session put underneath and has left since goes too.
            while hasattr(original, "gpukit_left"):
                original = original.gpukit_left
            setattr(self._model, ATTRIBUTES[phase], original)
        else:
            # Somebody else wrapped or replaced the function since; it is theirs now.
            wrapped.gpukit_left = original
            if _is_within(wrapped, getattr(self._model, ATTRIBUTES[phase], None)):
                self.clocks[phase].leave()
            else:
                self.clocks[phase].stop("the step function was replaced while it was watched")

    def set_back(self) -> None:
        """Every phase is over."""
        for phase in tuple(self._unwrapped):
            self.unwatch(phase)

    def _wrap(self, phase: Phase) -> None:
        original = getattr(self._model, ATTRIBUTES[phase])
        if phase not in self.clocks:
            self.clocks[phase] = self._make_clock(phase, original)
        clock = self.clocks[phase]
        if phase != "predict":
            make_measurable(epoch_iterator(phase))
        if original is None:
            # A loop of the user's own drives the callbacks. Wrapped, it would look made to Keras.
            clock.unknown_because = "Keras had not made the step function when the run began"
            return
        if phase == "predict":
            wrapped = clock.wrap_batches(original, self.request_meter)
        else:
            wrapped = clock.wrap(original)
        setattr(self._model, ATTRIBUTES[phase], wrapped)
        self._unwrapped[phase] = (original, wrapped)

    def _make_clock(self, phase: Phase, step_function: Any) -> StepClock:
        steps_per_execution = self._model.steps_per_execution
        choose: Callable[[Any], Meter | str]
        if phase == "predict":

            def choose(source: Any) -> Meter:
                return self.request_meter
        else:
            choose = MeterChoice(
                step_function, steps_per_execution, overlaps=not self._model.run_eagerly
            )
            self.pipelines[phase] = choose.pipeline

        def on_window(window: StepWindow) -> None:
            for tell in (self._on_window, *self._watchers.get(phase, ())):
                tell(window)

        return StepClock(
            phase=phase,
            steps_per_execution=steps_per_execution,
            first_step=self._first_step,
            on_window=on_window,
            examples=ExampleCounter(self._model) if phase != "predict" else None,
            around_first_call=self.first_call if phase == self._phase else None,
            choose=choose,
            wall=self._wall if phase == self._phase else None,
            accepts=self._accepts,
            stood_still_since=self._stood_still_since,
        )

    def _accepts(self, source: Any) -> bool:
        # `train_on_batch` in a callback calls the step function too, from a plain iterator; and
        # after a run that failed somebody else's may come before the step function is set back.
        fed_by_fit = source is self.request_meter or host_iterator(source) is not None
        return fed_by_fit and not self._is_over()


def _is_within(function: Any, wrapping: Any) -> bool:
    """Whether a function is called by another one, or is that one."""
    while wrapping is not None and wrapping is not function:
        wrapping = getattr(wrapping, "__wrapped__", None)
    return wrapping is function
