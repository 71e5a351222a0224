"""`Profiler`: captures a profile of a few steps at the moment that matters."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.profiling.capturing.settings import CaptureSettings
from keras_gpukit.profiling.capturing.triggers import put_signals_back
from keras_gpukit.records.capture import ProfilerRecord
from keras_gpukit.records.steps import Phase
from keras_gpukit.watching.call_frame import callbacks_of_fit
from keras_gpukit.watching.captures import CaptureWatch
from keras_gpukit.watching.session import Session


class Profiler(WatchingCallback[ProfilerRecord]):
    """Captures profiles of a few training steps for TensorBoard's Profile tab.

    It does so at given steps, at intervals, on demand, and on anomalies: when for three seconds
    in a row steps take longer, stall more on their input, or leave GPUs more idle than in the last
    minute of the run. Profiles have their steps marked, also those that other code takes meanwhile;
    several steps per execution are marked as one. In a cluster, where a capture may crash a worker,
    only those that are asked for are taken.

    Args:
        log_dir: Records are written to `<log_dir>/gpukit`, profiles to `plugins/profile` in it.
        steps: Steps of a capture, at most 50. Of several steps in one execution, as many whole
            executions as fit in, and at least one. A capture ends with the epoch.
        at_steps: Steps of the run at which a capture starts; the first step is 1. None stands for
            step 20, and for none in a cluster.
        every_steps: A capture starts at each multiple of it.
        every_minutes: Minutes from one capture's start to the next one's.
        on_demand: Whether to capture when the file `<log_dir>/gpukit/capture` appears, as with
            `touch`. It is looked for about once a second, and removed.
        signal_number: `signal.SIGUSR1` or `signal.SIGUSR2`: that signal starts a capture. Its
            handler is restored after the run.
        slower: How many times the usual step time is too long; None does not look at it.
        stall_rise: By how much the stall fraction may rise, 0 to 1; None does not look at it.
        utilization_drop: By how much GPUs' mean utilization may fall; None does not look at it.
        max_captures: Captures in a run.
        max_bytes: Disk space of all profiles in the log directory.
        cooldown_s: Minimum seconds between two captures triggered by anomalies.

    Attributes:
        summary: After the run, a `ProfilerRecord`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of range, or `log_dir` empty or a file.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        *,
        steps: int = 10,
        at_steps: Collection[int] | None = None,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        on_demand: bool = True,
        signal_number: signal.Signals | int | None = None,
        slower: float | None = 1.5,
        stall_rise: float | None = 0.2,
        utilization_drop: float | None = 0.3,
        max_captures: int = 10,
        max_bytes: int = 500 * 2**20,
        cooldown_s: float = 60.0,
    ) -> None:
        super().__init__(log_dir, optional=False)
        self._settings = CaptureSettings(
            steps=steps,
            at_steps=at_steps,
            every_steps=every_steps,
            every_minutes=every_minutes,
            on_demand=on_demand,
            signal_number=signal_number,
            slower=slower,
            stall_rise=stall_rise,
            utilization_drop=utilization_drop,
            max_captures=max_captures,
            max_bytes=max_bytes,
            cooldown_s=cooldown_s,
        )
        self._captures: CaptureWatch | None = None

    @property
    def summary(self) -> ProfilerRecord | None:
        """What became of the captures; None before the first run."""
        self.lifecycle.end_if_over()
        put_signals_back()  # after it, as another thread may have ended the run
        return self._summary

    def captures_so_far(self) -> ProfilerRecord | None:
        """What became of the captures in its folder: its own, or those of the one it yields to."""
        profiler = self._of_fit()
        return profiler._captures.record if profiler._captures else profiler._summary

    def begin(self, session: Session, phase: Phase) -> None:
        """Begins to mark steps, and to look for what asks for a capture."""
        if phase != session.phase:
            return
        self._summary = None
        put_signals_back()
        if self._of_fit() is not self:
            return
        epoch_steps = (self.params or {}).get("steps")
        self._captures = captures = CaptureWatch(session, self._settings, epoch_steps)
        captures.start(session)

    def end(self, session: Session, phase: Phase) -> None:
        """Ends a running capture, waits for it to be written, and makes the summary."""
        captures = self._captures
        if phase != session.phase or captures is None:
            return
        session.end_phase(phase)
        try:
            captures.close()
        finally:
            self._summary = captures.record
            self._captures = None  # a callback that watched can be copied

    def _of_fit(self) -> Profiler:
        """The one that captures into its folder: that of `Monitor` leaves it to one of the user."""
        listed = [each for each in callbacks_of_fit() if isinstance(each, Profiler)]
        same_folder = [each for each in listed if each._log_dir == self._log_dir]
        return self if self in same_folder or not same_folder else same_folder[0]
