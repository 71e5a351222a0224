"""Finds a script's own training step whose operations run one by one, from Python."""

from __future__ import annotations

import dis
import functools
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.script import EagerStep
from keras_gpukit.records.steps import ThroughputRecord
from keras_gpukit.sensors.stack_parts import named
from keras_gpukit.sensors.stacks import StackSampler, stack_of_thread

LEAST_STEPS = 10
"""Fewest steps of a loop that is reported; fewer are a look at the data. Our choice."""


@dataclass
class _Steps:
    """Gradients that a line of the script computed."""

    code: CodeType
    line: int
    is_in_loop: bool
    in_replicas: bool
    began_s: float
    ended_s: float = 0.0
    count: int = 0


class EagerSteps:
    """Counts the gradients that the script's main thread, or its first replica, computes eagerly.

    Args:
        on_loop: Called once there are enough of them for a loop.
    """

    def __init__(self, on_loop: Callable[[], None] = lambda: None) -> None:
        self._on_loop = on_loop
        self._lines: dict[tuple[int, int], _Steps] = {}
        self._guard = Guard("Counting eager steps", "They are not counted any more.")

    def install(self) -> None:
        """Starts to count. Needs TensorFlow imported."""
        import tensorflow as tf

        original, in_graph = tf.GradientTape.gradient, tf.inside_function
        main = threading.main_thread().ident

        @functools.wraps(original)
        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            is_main = threading.get_ident() == main
            # A `MirroredStrategy` has a thread for each replica.
            replica = getattr(threading.current_thread(), "replica_id", None)
            if (is_main or replica == 0) and not in_graph():
                with self._guard:
                    self._note(sys._getframe(1), None if is_main else main)
            return original(tape, *args, **kwargs)

        tf.GradientTape.gradient = gradient

    @property
    def span_s(self) -> tuple[float, float] | None:
        """Moments of the first and the last gradients, on `time.perf_counter`; None without any."""
        longest = self._longest
        return None if longest is None else (longest.began_s, longest.ended_s)

    def longest_step(self, sampler: StackSampler) -> EagerStep | None:
        """Returns the step that was computed for the longest time; None without any."""
        found = self._longest
        if found is None:
            return None
        code = found.code
        return EagerStep(
            named(code),
            place(code.co_filename, found.line if found.is_in_loop else code.co_firstlineno),
            not found.is_in_loop,
            found.count - 1,
            found.ended_s - found.began_s,
            sampler.eager_s(code, found.began_s, found.ended_s),
            found.in_replicas,
        )

    def throughput(self) -> ThroughputRecord | None:
        """Returns the number and the time of these steps; None without any."""
        found = self._longest
        if found is None:
            return None
        steps = found.count - 1
        step_s = (found.ended_s - found.began_s) / steps
        return ThroughputRecord("fit", steps, steps, step_s, None)

    @property
    def _longest(self) -> _Steps | None:
        several = [steps for steps in self._lines.values() if steps.count > LEAST_STEPS]
        return max(several, key=lambda steps: steps.ended_s - steps.began_s, default=None)

    def _note(self, frame: FrameType, caller: int | None = None) -> None:
        # Keras computes gradients of its own eager steps, which belong to its call.
        if not is_of_the_script(frame.f_code.co_filename):
            return
        if caller is not None:  # a replica's thread: the step is what calls `strategy.run`
            callers = stack_of_thread(caller)
            frame = next(outer for outer in callers if is_of_the_script(outer.f_code.co_filename))
        now_s, code = time.perf_counter(), frame.f_code
        key = id(code), frame.f_lineno
        steps = self._lines.get(key)
        if steps is None:
            in_loop, in_replicas = _is_in_loop(frame), caller is not None
            steps = _Steps(code, frame.f_lineno, in_loop, in_replicas, now_s)
            self._lines[key] = steps
        steps.count, steps.ended_s = steps.count + 1, now_s
        if steps.count == LEAST_STEPS:
            self._on_loop()


def _is_in_loop(frame: FrameType) -> bool:
    """Whether the line that a frame is at belongs to a loop of the same function.

    From Python 3.12 on, what handles the exceptions of a `with` also jumps back, to the code after
    it; Python has then just left the handler.
    """
    found = list(dis.get_instructions(frame.f_code))
    return any(
        "JUMP" in instruction.opname
        and isinstance(instruction.argval, int)
        and instruction.argval <= frame.f_lasti < instruction.offset
        and not any(before.opname == "POP_EXCEPT" for before in found[max(at - 3, 0) : at])
        for at, instruction in enumerate(found)
    )
