"""Takes a profile of a run by itself, reads it, and compares its input stall with the live one."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_gpukit.layer_names import layers_in
from keras_gpukit.monitoring.environment import large_tables
from keras_gpukit.monitoring.operation_lines import with_lines
from keras_gpukit.monitoring.repeated_calls import with_repeats
from keras_gpukit.monitoring.script_globals import with_sources
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.read import READ_WITHIN_S, read_apart, read_profile
from keras_gpukit.profiling.recorder import (
    LEAST_AUTOMATIC_EXECUTIONS,
    MOST_AUTOMATIC_STEPS,
)
from keras_gpukit.records.cluster import trains_with_others
from keras_gpukit.records.profile import CaptureRecord, ProfileRecord, ProfilerRecord
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.rules.whole_run.capture_triggers import (
    EVENT_COST_S,
    AutomaticCaptures,
    CPUCaptures,
    events_of_step,
)
from keras_gpukit.saved_runs.folding import RunFold

SMALL_BYTES = 2 << 20
"""Size up to which a profile is read in this process: it takes less time than starting another.
A profile of 2 MB has about 50,000 events, which took 0.4 s."""
INTERRUPTED = "the run was interrupted"
# Set by Nsight Systems and Nsight Compute, as CUPTI's documentation on injection describes.
_INJECTION = "CUDA_INJECTION64_PATH"


def runs_on_gpu(session: Session) -> bool:
    """Whether TensorFlow uses a GPU."""
    return bool(session.environment.gpus)


def not_automatic_because(session: Session, other_profilers: Iterable[Any]) -> str | None:
    """Returns why a run must not be profiled unless it is asked for; None if it may be."""
    steps = session.model.steps_per_execution
    others = [type(profiler).__name__ for profiler in other_profilers]
    if trains_with_others(session.environment.worker):
        return "TensorFlow's profiler may crash a worker of a cluster"
    if others:
        return f"{others[0]} captures profiles"
    if os.environ.get(_INJECTION):
        return f"another profiler is at work: the environment has {_INJECTION}"
    if LEAST_AUTOMATIC_EXECUTIONS * steps > MOST_AUTOMATIC_STEPS:
        return f"a profile of several executions of {steps} steps would be large"
    return None


class AutomaticCapture:
    """Decides on a run's automatic captures, and reads the one of steady steps.

    The window of steps is cut at the first and the last step that the profile counts. So the live
    stall is known for exactly these steps: a run with bursts differs from any ten of its steps.
    """

    def __init__(self, session: Session, log_dir: Path) -> None:
        self._session = session
        self._log_dir = log_dir
        self._waits = not runs_on_gpu(session)  # the steps need the cores: reading can wait
        self._unread: tuple[Path, CaptureRecord] | None = None
        self.when: AutomaticCaptures | CPUCaptures
        if runs_on_gpu(session):
            self.when = AutomaticCaptures(time.time())
        else:
            environment = session.environment
            self.when = CPUCaptures(
                time.time(),
                # Of the session alone: a cycle would keep the model after its run.
                lambda: session.steps.own.input_so_far().breakdown,
                functools.partial(_cost_s, session),
                # A verdict depends on what only a profile of such steps shows.
                suspected=bool(environment.preprocessing)
                or environment.runs_eagerly
                or large_tables(session.model),
            )
        self._cut_at_step: int | None = None
        self._after_cut: list[StepWindow] = []
        self._reader: threading.Thread | None = None
        self._unread_because: str | None = None
        self.profile: ProfileRecord | None = None
        """Contents of the profile of steady steps; None until it was read."""

    def cut(self) -> None:
        """Notes that the call under way begins or ends the part of a capture that counts."""
        steps = self._session.steps.own
        steps.cut_window()
        if self._cut_at_step is None:
            self._cut_at_step = steps.step + self._session.model.steps_per_execution

    def keep(self, window: StepWindow) -> None:
        """Keeps the windows after the first cut, as many as there may be up to the second one."""
        after = self._cut_at_step is not None and window.step > self._cut_at_step
        if after and len(self._after_cut) < MOST_AUTOMATIC_STEPS:
            self._after_cut.append(window)

    def read_profile_of(self, record: CaptureRecord) -> None:
        """Starts to read the profile of a capture on another thread, if it is of steady steps."""
        if record.trigger != "steady" or record.path is None:
            return
        if self._session.ending == "interrupted":  # the user waits for the process to end
            self._unread_because = INTERRUPTED
        else:
            path = self._log_dir / record.path
            if self._waits and (record.profile_bytes or 0) <= SMALL_BYTES:
                self._unread = path, record
                return
            self._unread_because = f"it was not read within {READ_WITHIN_S:g} s"
            self._reader = threading.Thread(
                target=self._read, args=(path, record), name="gpukit-profile-reader", daemon=True
            )
            self._reader.start()

    def completed(self, record: ProfilerRecord) -> ProfilerRecord:
        """Waits for the reading, and returns the run's record with its result."""
        unread, self._unread = self._unread, None
        if unread is not None and self._session.ending == "interrupted":
            self._unread_because = INTERRUPTED
        elif unread is not None:
            began_s = time.thread_time()
            self._read(*unread)
            self._session.cost.add(time.thread_time() - began_s, once=True)
        if self._reader is not None:
            self._reader.join(READ_WITHIN_S)
        captures = tuple(
            self._compared(capture) if capture.trigger == "steady" else capture
            for capture in record.captures
        )
        return replace(record, captures=captures, none_automatic_because=self.when.none_because)

    def _read(self, path: Path, record: CaptureRecord) -> None:
        try:
            profile = read_profile(path) if self._reader is None else read_apart(path)
            for add in (with_sources, with_repeats, with_lines):
                with suppress(Exception):  # the profile is right without them
                    profile = add(profile, self._session.model)
            self.profile, self._unread_because = profile, None
            output = self._session.output
            output.write_record("profile", self.profile, record.first_step)
            output.write_record("capture", self._compared(record), record.first_step)
        except Exception as error:  # the file and its reader's process may fail in any way
            self._unread_because = str(error) or type(error).__name__

    def _compared(self, capture: CaptureRecord) -> CaptureRecord:
        profile = self.profile
        if profile is None:
            return replace(capture, unread_because=self._unread_because)
        is_whole = capture.incomplete_because is None and not profile.problems
        sees_device = bool(profile.devices) or not self._session.environment.gpus
        # On a CPU the live wait is the stall, and a profile of a few noisy steps refutes nothing.
        compares = is_whole and sees_device and runs_on_gpu(self._session)
        least, most = self._live_stall(profile.steps) if compares else (None, None)
        return replace(
            capture,
            stall_fraction=profile.stall_fraction,
            live_stall_fraction=least,
            live_most_stall_fraction=most,
        )

    def _live_stall(self, steps: int) -> tuple[float | None, float | None]:
        """Returns the range of the stall of the first steps after the first cut.

        The second figure is None if there is no range, and both are None if the stall is unknown.
        """
        fold, counted = RunFold(), 0
        for window in self._after_cut:
            if window.input_wait_s is None or counted >= steps:
                break
            counted += window.steps
            fold.add_record("steps", window, window.time_s, window.step)
        found = fold.input() if counted == steps else None
        least, most = (found.stall_fraction, found.most_stall_fraction) if found else (None, None)
        return least, most if most != least else None


def _cost_s(session: Session, step_time_s: float) -> float:
    """Returns what a capture of one execution costs, in seconds."""
    placement = session.output.read_fold(lambda fold: fold.latest.get("placement"))
    steps: int = session.model.steps_per_execution
    recurs = any(hasattr(layer, "cell") for layer in layers_in(session.model))
    weights = len(session.model.trainable_variables)
    events = events_of_step(step_time_s, placement, weights, recurs=recurs)
    return EVENT_COST_S * steps * events
