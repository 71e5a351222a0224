"""Says while no step of a call ends for long, and what the process does, by its threads' stacks.

Files and functions of Keras and TensorFlow by which a stack is recognized, seen on Keras 3.12 to
3.15 and TensorFlow 2.21. If one is renamed, the description is less precise.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import KERAS_ADAPTERS, TENSORFLOW_DATA, place
from keras_gpukit.monitoring.call_steps import CallSteps
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.event import Hang, HangKind
from keras_gpukit.records.steps import Part
from keras_gpukit.reports import units
from keras_gpukit.sensors.stack_parts import named
from keras_gpukit.sensors.stacks import stacks_of_threads

LEAST_S = 60.0
"""Minimum time without a step that is reported; our choice."""
LEAST_STEPS = 20
"""Minimum time without a step that is reported, in usual step times; our choice."""
_CALLBACKS = os.path.join("keras", "src", "callbacks", "callback_list.py")
_TRACING = "func_graph_from_py_func"
_CALLED_BY_TENSORFLOW = os.path.join("tensorflow", "python", "ops", "script_ops.py")
_OF_INPUT = TENSORFLOW_DATA, KERAS_ADAPTERS
# Lines on which Python code waits for another thread.
_WAITS = re.compile(r"\.(acquire|join|wait)\(|\bwith .*lock", re.IGNORECASE)
_BUSY_CORES = 0.5
# Numbers of the system calls read and pread64, on x86-64 and on ARM.
_READS = {"x86_64": ("0", "17"), "aarch64": ("63", "67")}
_MOST_STACKS, _MOST_FRAMES = 6, 12


class HangWatch:
    """Reports a time without a step, once while it lasts and once when it is over.

    Parts that are long by nature, such as a validation, are reported by their name too, but not
    again until they take twice as long as before.
    """

    def __init__(self, steps: CallSteps, *, in_cluster: bool = False) -> None:
        self._steps = steps
        self._in_cluster = in_cluster
        self._executions = 0
        self._since_s = time.perf_counter()  # when the last step was seen to end
        self._longest_s: dict[Part, float] = {}
        self._last_poll = self._since_s, time.process_time()
        self._reported: Hang | None = None
        self._reported_part: Part | None = None
        self._again_s = 0.0

    def poll(self) -> None:
        """Looks whether steps go on; called about once a second, on the sampling thread."""
        now_s, process_s = time.perf_counter(), time.process_time()
        (last_s, last_process_s), self._last_poll = self._last_poll, (now_s, process_s)
        executions = self._steps.executions
        if executions != self._executions:
            if self._reported is not None:
                self._report_end(self._reported, now_s)
            self._executions, self._since_s = executions, now_s
        elif self._steps.suspended_since(self._since_s):
            self._since_s = now_s
        lasted_s = now_s - self._since_s
        if lasted_s < (self._again_s if self._reported else self._limit_s()):
            return
        passed_s = now_s - last_s
        cores = (process_s - last_process_s) / passed_s if passed_s > 0 else None
        self._report(lasted_s, cores)

    def _limit_s(self) -> float:
        steps = self._steps
        usual_s: float = steps.model.steps_per_execution * (steps.own.step_time_s or 0.0)
        longest_s = self._longest_s.get(steps.wall.part, 0.0)
        return max(LEAST_S, LEAST_STEPS * usual_s, 2 * longest_s)

    def _report(self, lasted_s: float, cores: float | None) -> None:
        steps = self._steps
        part = steps.wall.part
        training = as_stack(steps.frame.stack())
        others = stacks_of_others(steps.frame.thread)
        kind, words, where = describe(
            training, others.values(), part, cores=cores, in_cluster=self._in_cluster
        )
        is_first, began_s = self._reported is None, time.time() - lasted_s
        stacks = shown(training, others)
        self._reported = Hang(began_s, steps.step, words, kind, stacks, input_place=where)
        self._reported_part = part
        self._again_s = 2 * lasted_s
        steps.output.write_record("hang", self._reported)
        if is_first:
            usual_s = steps.own.step_time_s
            usually = "" if usual_s is None else f" (usually {units.duration(usual_s)})"
            _say(f"no step has ended for {units.duration(lasted_s)}{usually}: {words}.")

    def _report_end(self, hang: Hang, now_s: float) -> None:
        self._reported, lasted_s = None, now_s - self._since_s
        if self._reported_part not in (None, "steps"):
            self._longest_s[self._reported_part] = lasted_s
        over = replace(hang, lasted_s=lasted_s)
        self._steps.output.write_record("hang", over, hang.step)
        self._steps.output.event("hang", self._since_s, now_s)
        _say(f"steps continue after {units.duration(lasted_s)}.")


def _say(text: str) -> None:
    with Guard("Reporting a hang", "It is in the record."):
        stream = sys.stderr
        # In a terminal, Keras' progress bar is on the current line.
        start = "\n" if stream.isatty() else ""
        stream.write(f"{start}keras-gpukit: {text}\n")  # in one piece, which `launch` shows once
        stream.flush()


class Frame(NamedTuple):
    """One frame of a stack."""

    file: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({place(self.file, self.line)})"

    @property
    def waits(self) -> bool:
        """Whether the line waits for another thread."""
        return bool(_WAITS.search(linecache.getline(self.file, self.line)))


Stack = Sequence[Frame]
"""Frames of a thread, the innermost first."""

Activity = tuple[HangKind, str, str | None]
"""A kind, in words that follow "no step for 60 s:", and the place of `Hang.input_place`."""


def describe(
    training: Stack, others: Iterable[Stack], part: Part, *, cores: float | None, in_cluster: bool
) -> Activity:
    """Returns what the process does."""
    hook = _callback(training)
    if hook is not None:
        is_own = getattr(_own(training), "function", None) == hook.function
        where = _own(training) if is_own else f"{hook.function}{_where(training)}"
        return "work", f"in the callback {where}{_lock(training)}", None
    if any(frame.function == _TRACING for frame in training):
        return "work", f"tracing the step{_where(training)}", None
    inputs = [stack for stack in others if _is_of_input(stack)]
    by_user = [stack for stack in inputs if _own(stack) is not None]
    # Of several threads, one that does not itself wait for another is the cause.
    for stack in sorted(by_user, key=lambda stack: bool(_lock(stack))):
        return _waiting(str(_own(stack)), _lock(stack))
    own = _own(training)
    if own is not None:
        return "work", f"in {own}{_lock(training)}", None
    path = _file_being_read()
    if path is not None:
        return _waiting(f"a read of {path}")
    if cores is not None and cores >= _BUSY_CORES:
        step = "the first step" if part == "first step" else "a step"
        doing = f"computing or compiling {step}, or making its batch"
        return "work", f"{doing} ({cores:.1f} cores are busy)", None
    if in_cluster:
        return "worker", "waiting for another worker", None
    if inputs:
        return "input", "waiting for input", None
    return "idle", "waiting for input or a device: the process is idle", None


def _waiting(place: str, lock: str = "") -> Activity:
    return "input", f"waiting for input, {place}{lock}", place


def stacks_of_others(training_thread: int) -> dict[str, Stack]:
    """Returns the stacks of all threads but the training thread and our own, by thread name."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {
        f"{names.get(ident, 'thread')} {ident}": as_stack(stack)
        for ident, stack in stacks_of_threads().items()
        if ident not in (training_thread, threading.get_ident())
        and not str(names.get(ident)).startswith("gpukit-")
    }


def as_stack(frames: Iterable[FrameType]) -> Stack:
    """Returns a stack that keeps nothing alive, from frames, the innermost first."""
    return [
        Frame(frame.f_code.co_filename, named(frame.f_code), frame.f_lineno or 0)
        for frame in frames
    ]


def shown(training: Stack, others: dict[str, Stack]) -> tuple[str, ...]:
    """Returns stacks in a form for the record: those in the input or in user code."""
    chosen = {"training thread": training}
    chosen |= {name: stack for name, stack in others.items() if _own(stack) or _is_of_input(stack)}
    return tuple(
        f"{name}: {' < '.join(map(str, stack[:_MOST_FRAMES]))}"
        for name, stack in list(chosen.items())[:_MOST_STACKS]
    )


def _own(stack: Stack) -> Frame | None:
    """Returns the innermost frame of the script, as far as AutoGraph has not rewritten it."""
    own = (frame for frame in stack if is_of_the_script(frame.file))
    return next(own, None)


def _where(stack: Stack) -> str:
    own = _own(stack)
    return "" if own is None else f", {own}"


def _lock(stack: Stack) -> str:
    return ", which waits for another thread or a lock" if stack and stack[0].waits else ""


def _callback(stack: Stack) -> Frame | None:
    """Returns the outermost hook of a callback that Keras is calling."""
    hook = None
    for inner, outer in pairwise(stack):
        if outer.file.endswith(_CALLBACKS) and not inner.file.endswith(_CALLBACKS):
            hook = inner
    return hook


def _is_of_input(stack: Stack) -> bool:
    return any(
        frame.file.endswith(_CALLED_BY_TENSORFLOW) or any(part in frame.file for part in _OF_INPUT)
        for frame in stack
    )


def _file_being_read() -> str | None:
    """Returns the file that a thread of tf.data is blocked on; None if none is, or unknown."""
    reads = _READS.get(os.uname().machine, ()) if sys.platform == "linux" else ()
    for task in Path("/proc/self/task").glob("*") if reads else ():
        try:
            if not (task / "comm").read_text().startswith("tf_"):
                continue
            call, number, *_ = (task / "syscall").read_text().split()
            path = os.readlink(f"/proc/self/fd/{int(number, 16)}") if call in reads else ""
        except (OSError, ValueError):  # it has ended, is running, or may not be read
            continue
        if path.startswith("/"):
            return path
    return None
