"""`Profiler`: captures profiles of a few steps at the right moments."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from keras_gpukit.arguments import naming_likely
from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.monitoring.call_frame import callbacks_of_fit
from keras_gpukit.monitoring.captures import CaptureWatch
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.capture_settings import CaptureSettings
from keras_gpukit.records.profile import ProfilerRecord
from keras_gpukit.records.steps import Phase


class Profiler(WatchingCallback[ProfilerRecord]):
    """Captures profiles of a few training steps for TensorBoard's Profile tab.

    Captures start at given steps, at intervals, and on demand. Steps are marked in these profiles
    and in those that other code captures; several steps per execution are marked as one. In a
    cluster, where a capture may crash a worker, none is taken at step 20 by default.

    Args:
        log_dir: Records are written to `<log_dir>/gpukit`, profiles to `plugins/profile` in it.
        steps: Steps per capture, at most 50. With several steps per execution, only whole
            executions are captured, at least one. The end of an epoch ends a capture.
        at_steps: Steps of the run at which a capture starts; the first step is 1. None stands for
            step 20, but for no step in a cluster.
        every_steps: Number of steps at whose multiples a capture starts; None disables this.
        every_minutes: Minutes between scheduled captures; None disables this.
        on_demand: Whether to capture if the file `<log_dir>/gpukit/capture` appears, for example
            by `touch`. We look for it about once a second, and remove it.
        max_captures: Maximum number of captures in a run.
        max_bytes: Maximum size of all profiles in the log directory.

    Attributes:
        summary: After the run, a `ProfilerRecord`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If an argument is out of range, or `log_dir` is empty or a file.
    """

    @naming_likely
    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        *,
        steps: int = 10,
        at_steps: Collection[int] | None = None,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        on_demand: bool = True,
        max_captures: int = 10,
        max_bytes: int = 500 * 2**20,
    ) -> None:
        super().__init__(log_dir, optional=False)
        self.settings = CaptureSettings(
            steps=steps,
            at_steps=at_steps,
            every_steps=every_steps,
            every_minutes=every_minutes,
            on_demand=on_demand,
            max_captures=max_captures,
            max_bytes=max_bytes,
        )
        self._captures: CaptureWatch | None = None

    @property
    def so_far(self) -> ProfilerRecord | None:
        """Record of the captures so far."""
        return self._captures.profiler_record if self._captures else self._summary

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        self._summary = None
        if self.of_fit() is not self:
            return
        epoch_steps = (self.params or {}).get("steps")
        others = [callback for callback in callbacks_of_fit() if isinstance(callback, Profiler)]
        self._captures = captures = CaptureWatch(session, self.settings, epoch_steps, others)
        captures.start(session)

    def _end(self, session: Session, phase: Phase) -> None:
        captures = self._captures
        if phase != session.phase or captures is None:
            return
        try:
            captures.close()
        finally:
            self._summary = captures.profiler_record
            self._captures = None  # so that the callback can be copied after a run

    def of_fit(self) -> Profiler:
        """Returns the `Profiler` for its log directory: that of `Monitor` yields to the user's."""
        listed = [callback for callback in callbacks_of_fit() if isinstance(callback, Profiler)]
        same_folder = [profiler for profiler in listed if profiler.log_dir == self._log_dir]
        return self if self in same_folder or not same_folder else same_folder[0]


def profiler_of_monitor(log_dir: Path, *, automatic: bool) -> Profiler:
    """Returns the part of `Monitor` that captures on demand and, where safe, by itself."""
    profiler = Profiler(log_dir, at_steps=())
    profiler.settings = replace(profiler.settings, automatic=automatic)
    return profiler
