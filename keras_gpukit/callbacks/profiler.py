"""`Profiler`: captures a profile of a few steps at the moment that matters."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.errors import GPUKitError
from keras_gpukit.profiling.capturing.settings import CaptureSettings
from keras_gpukit.profiling.capturing.triggers import put_signals_back
from keras_gpukit.records.capture import ProfilerRecord
from keras_gpukit.records.steps import Phase
from keras_gpukit.watching.call_frame import callbacks_of_fit
from keras_gpukit.watching.captures import CaptureWatch
from keras_gpukit.watching.session import Session

ONLY_IN_FIT = "captures are of training steps, and this was no fit"


class Profiler(WatchingCallback[ProfilerRecord]):
    """Captures profiles of a few training steps for TensorBoard's Profile tab.

    It does so at given steps, every so often, when it is asked to, and when something goes wrong:
    when steps take longer, stall more on their input, or leave GPUs more idle than they did in the
    last minute of the run, for three seconds in a row. In each profile, also in those that others
    take meanwhile, the steps are marked. Of several steps in one execution, the execution is what
    the Profile tab takes for a step.

    Profiles go to `<log_dir>/gpukit/plugins/profile`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`.
        steps: Steps of a capture, at most 50. Of several steps in one execution, as many whole
            executions as fit in, and at least one. A capture ends with the epoch.
        at_steps: Steps of the run, the first one being 1, at which one begins.
        every_steps: One at each multiple of it.
        every_minutes: One so often.
        on_demand: Whether to capture when the file `<log_dir>/gpukit/capture`, as
            with `touch`. It is looked for about once a second, and removed.
        signal_number: `signal.SIGUSR1` or `signal.SIGUSR2` has that signal ask for a capture. What
            handled it before does so again after the run.
        slower: Times the usual step time that are too long; None does not look at it.
        stall_rise: By how much the stall fraction may rise, 0 to 1; None does not look at it.
        utilization_drop: By how much the GPUs' mean utilization may fall, 0 to 1; None does not
            look at it.
        max_captures: Captures in a run.
        max_bytes: Disk space of all profiles in the log directory.
        cooldown_s: Minimum seconds between two captures triggered by anomalies.

    Attributes:
        summary: After the run, a `ProfilerRecord`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of range, or `log_dir` None, empty or a file.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        *,
        steps: int = 10,
        at_steps: Collection[int] = (20,),
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
        if log_dir is None:
            raise ValueError(
                "`log_dir` must be a folder's path: a capture has to be written somewhere. "
                "Received: log_dir=None"
            )
        super().__init__(log_dir)
        self._settings = CaptureSettings(
            steps,
            at_steps,
            every_steps,
            every_minutes,
            on_demand,
            signal_number,
            slower,
            stall_rise,
            utilization_drop,
            max_captures,
            max_bytes,
            cooldown_s,
        )
        self._yields = False
        self._captures: CaptureWatch | None = None

    @property
    def summary(self) -> ProfilerRecord | None:
        """What became of the captures; None before the first run."""
        self.lifecycle.end_if_over()
        put_signals_back()  # after it, as another thread may have ended the run
        return self._summary

    @classmethod
    def on_demand_only(cls, log_dir: str | os.PathLike[str]) -> Profiler:
        """Returns one that only captures on request, and leaves that to any other `Profiler`."""
        profiler = cls(log_dir, at_steps=(), slower=None, stall_rise=None, utilization_drop=None)
        profiler._yields = True
        return profiler

    def begin(self, session: Session, phase: Phase) -> None:
        """Begins to mark steps, and to look for what asks for a capture."""
        if phase != session.phase:
            return
        self._summary = None
        put_signals_back()
        if phase != "fit":
            self._summary = ProfilerRecord(unknown_because=ONLY_IN_FIT)
            return
        assert self._log_dir is not None
        if self._yields and any(self._is_rival(each) for each in callbacks_of_fit()):
            return
        epoch_steps = (self.params or {}).get("steps")
        try:
            captures = CaptureWatch(session, self._log_dir, self._settings, epoch_steps)
        except GPUKitError as error:
            self._summary = ProfilerRecord(unknown_because=str(error))
            return
        self._captures = captures
        captures.start(session, self._log_dir)

    def end(self, session: Session, phase: Phase) -> None:
        """Ends a running capture, waits for it to be written, and makes the summary."""
        if phase != session.phase or phase != "fit":
            return
        session.end_phase(phase)
        captures = self._captures
        if captures is None:
            return
        try:
            captures.close()
        finally:
            self._summary = captures.record
            self._captures = None  # a callback that watched can be copied
        captures.amend_others()

    def _is_rival(self, callback: object) -> bool:
        return isinstance(callback, Profiler) and callback._log_dir == self._log_dir
