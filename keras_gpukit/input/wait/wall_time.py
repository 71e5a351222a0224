"""Breaks down the wall time of a monitored call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from keras_gpukit.records.steps import Part, TimeBreakdown
from keras_gpukit.sensors.compilations import Compilations, compilations

# Parts in which steps run that may be compiled again.
_WITH_STEPS: frozenset[Part] = frozenset({"steps", "validation"})
_NOTHING = Compilations(0, 0.0)
LONGEST = 5
"""Number of the longest restarts that are kept."""


class _Now(NamedTuple):
    """Current part, since when, the seconds of each part before, and the longest epoch starts.

    It is replaced as a whole: the sampling thread reads it, and an interrupt counts no time twice.
    """

    part: Part
    since_s: float
    spent_s: dict[Part, float]
    ended_s: float | None = None
    restarts_s: tuple[float, ...] = ()


class WallTime:
    """Assigns each moment of a call to one part.

    The part "steps" contains the steps and the time between them. How much of it was inside the
    step function, the code that times it knows.

    `on_part` is called with each part that has ended, its start and its end on the clock.
    `completed` adds to a breakdown what it gets along with the seconds between steps.
    """

    def __init__(
        self,
        part: Part,
        now: Callable[[], float] = time.perf_counter,
        on_part: Callable[[Part, float, float], None] = lambda part, began_s, ended_s: None,
        completed: Callable[[TimeBreakdown, float], TimeBreakdown] = lambda parts, between_s: parts,
        compiled: Callable[[], Compilations | None] = compilations,
    ) -> None:
        self._now = now
        self._on_part = on_part
        self._completed = completed
        self._compiled = compiled
        # What was compiled when it was last counted, and so far within parts that run steps.
        self._compiled_before = compiled()
        self._compiled_in: dict[Part, Compilations] = {}
        self._began_s = now()
        self._now_in = _Now(part, self._began_s, {})
        # Seconds inside the step function that are in other parts than "steps".
        self._apart_s = 0.0
        # Seconds of steps that were traced again, and their number.
        self._traced: tuple[float, int] = (0.0, 0)
        # Those of them since the current part began, and all that a new shape caused.
        self._noted: tuple[float, int] = (0.0, 0)
        self._new_shapes = 0

    @property
    def total_s(self) -> float:
        """Seconds of the call: until now or, once it is over, until its end."""
        ended_s = self._now_in.ended_s
        return (self._now() if ended_s is None else ended_s) - self._began_s

    @property
    def is_over(self) -> bool:
        """Whether the call is over."""
        return self._now_in.ended_s is not None

    def spent_s(self, part: Part) -> float:
        """Returns the seconds spent in a part, not counting an interval in progress."""
        return self._now_in.spent_s.get(part, 0.0)

    @property
    def tracings(self) -> int:
        """Number of times that the step was traced again so far."""
        return self._traced[1]

    @property
    def part(self) -> Part:
        """Current part; once the call is over, the last one."""
        return self._now_in.part

    def switch(self, part: Part, at_s: float | None = None) -> None:
        """Ends the current part and begins another; does nothing once the call is over.

        It happens at a time on the clock, or now; if another part began later, at its beginning.
        """
        if not self.is_over:
            at_s = max(self._now() if at_s is None else at_s, self._now_in.since_s)
            self._switch(_Now(part, at_s, self._spent(self._now_in.part, at_s)))

    def end_steps(self, at_s: float, batch_ended_s: float) -> None:
        """Ends the part "steps"; callbacks after the last batch are part of "callbacks"."""
        self.switch("callbacks", at_s)
        if batch_ended_s > at_s:
            self.switch("other", batch_ended_s)

    def set_apart(self, seconds: float) -> None:
        """Notes seconds inside the step function that belong to another part than "steps"."""
        self._apart_s += seconds

    def add_tracing(self, seconds: float) -> None:
        """Counts the seconds of an epoch's first step, inside the step function, as tracing.

        They include the wait for its batch, whose length is unknown, and XLA's compilations.
        """
        noted_s, noted = self._noted
        self._traced = self._traced[0] + seconds - noted_s, self._traced[1] + 1 - noted
        self._new_shapes -= noted
        self._compiled_before = self._compiled()

    def note_tracing(self, seconds: float) -> None:
        """Counts the seconds of a tracing of Keras' own step, within a step, for a new shape.

        That of a run's first step is part of it, and that of an epoch's new step function is in
        what `add_tracing` counts.
        """
        if self.part == "steps":
            (traced_s, tracings), (noted_s, noted) = self._traced, self._noted
            self._traced, self._noted = (
                (traced_s + seconds, tracings + 1),
                (noted_s + seconds, noted + 1),
            )
            self._new_shapes += 1

    def add_epoch_wait(self, seconds: float, began_s: float) -> None:
        """Moves the wait for an epoch's first batch from the part "steps" to "epoch start"."""
        spent_s = self._now_in.spent_s
        moved: dict[Part, float] = {
            "steps": spent_s.get("steps", 0.0) - seconds,
            "epoch start": spent_s.get("epoch start", 0.0) + seconds,
        }
        self._now_in = self._now_in._replace(spent_s={**spent_s, **moved})
        self._apart_s += seconds
        self._on_part("epoch start", began_s, began_s + seconds)

    def end(self) -> None:
        """Ends the call; may be called repeatedly."""
        if not self.is_over:
            self._count_compilations()
            at_s, part = self._now(), self._now_in.part
            self._switch(_Now(part, at_s, self._spent(part, at_s), ended_s=at_s))

    def breakdown(
        self, inside_s: float, wait_s: float | None, until_s: float | None = None
    ) -> TimeBreakdown:
        """Returns the seconds of each part, until a time on the clock if "steps" is not over.

        Steps were `inside_s` in the step function, of which they waited `wait_s` for input.
        """
        spent, total_s = self._now_in.spent_s, self.total_s
        if until_s is not None:
            total_s = until_s - self._began_s
            spent = self._spent("steps", until_s)
        tracing_s, tracings = self._traced
        if not self.is_over:
            self._count_compilations()
        compiled, in_validation = self._compiled_again()
        tracing_s += compiled.spent_s if compiled else 0.0
        inside_s = max(inside_s - self._apart_s, 0.0)  # an interrupt came between the two
        between_s = max(spent.get("steps", 0.0) - inside_s, 0.0)
        tracing_s = min(max(tracing_s, 0.0), inside_s)
        steps_s = inside_s - tracing_s
        wait_s = None if wait_s is None else min(wait_s, steps_s)
        callbacks_s = spent.get("callbacks", 0.0) + between_s
        epoch_start_s, first_step_s = spent.get("epoch start", 0.0), spent.get("first step", 0.0)
        validation_s = spent.get("validation", 0.0)
        known_s = inside_s + callbacks_s + epoch_start_s + first_step_s + validation_s
        breakdown = TimeBreakdown(
            wall_s=total_s,
            input_s=wait_s,
            compute_s=None if wait_s is None else steps_s - wait_s,
            callbacks_s=callbacks_s,
            epoch_start_s=epoch_start_s,
            first_step_s=first_step_s,
            validation_s=validation_s - in_validation.spent_s,
            other_s=max(total_s - known_s, 0.0),
            tracing_s=tracing_s + in_validation.spent_s,
            tracings=tracings,
            tracings_of_shapes=self._new_shapes,
            compilations=compiled.programs + in_validation.programs if compiled else None,
            compiling_s=compiled.spent_s + in_validation.spent_s if compiled else None,
            longest_restarts_s=self._now_in.restarts_s,
        )
        return self._completed(breakdown, between_s)

    def _count_compilations(self) -> None:
        """Counts what XLA compiled since the last time, if steps ran meanwhile."""
        before, now = self._compiled_before, self._compiled()
        if self.part in _WITH_STEPS and before is not None and now is not None:
            so_far = self._compiled_in.get(self.part, _NOTHING)
            self._compiled_in[self.part] = Compilations(
                so_far.programs + now.programs - before.programs,
                so_far.spent_s + now.spent_s - before.spent_s,
            )
        self._compiled_before = now

    def _compiled_again(self) -> tuple[Compilations | None, Compilations]:
        """Returns what XLA compiled in steps and, apart from one for all, in validations."""
        programs, spent_s = self._compiled_in.get("validation", _NOTHING)
        share = (programs - 1) / programs if programs else 0.0
        again = Compilations(max(programs - 1, 0), spent_s * share)
        return self._compiled_in.get("steps"), again

    def _switch(self, next_in: _Now) -> None:
        if self.part != next_in.part and {self.part, next_in.part} & _WITH_STEPS:
            self._count_compilations()
        self._noted = (0.0, 0)
        ended, restarts_s = self._now_in, self._now_in.restarts_s
        if ended.part == "epoch start":
            took_s = next_in.since_s - ended.since_s
            restarts_s = tuple(sorted((*restarts_s, took_s), reverse=True)[:LONGEST])
        self._now_in = next_in._replace(restarts_s=restarts_s)
        self._on_part(ended.part, ended.since_s, next_in.since_s)

    def _spent(self, part: Part, until_s: float) -> dict[Part, float]:
        """Returns the seconds of each part, with those since the last change for a part."""
        spent_s = self._now_in.spent_s
        return {**spent_s, part: spent_s.get(part, 0.0) + until_s - self._now_in.since_s}
