"""Captures profiles in a monitored `fit`: connects the triggers of captures to the recorder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_gpukit.errors import GPUKitError, Guard, logger
from keras_gpukit.frameworks.keras_models import profiled_batches
from keras_gpukit.monitoring.automatic_capture import (
    INTERRUPTED,
    AutomaticCapture,
    not_automatic_because,
)
from keras_gpukit.monitoring.call_frame import callbacks_of_fit
from keras_gpukit.monitoring.sampling import Schedule
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.capture import LARGEST_AMENDED_BYTES, amend
from keras_gpukit.profiling.capture_settings import (
    CaptureSettings,
    RequestFile,
    profile_files,
)
from keras_gpukit.profiling.recorder import Recorder
from keras_gpukit.records.cluster import trains_with_others
from keras_gpukit.records.names import FOLDER, REQUEST_FILE
from keras_gpukit.records.profile import CaptureRecord, ProfilerRecord
from keras_gpukit.records.steps import StepWindow
from keras_gpukit.whole_files import replace_file

MAY_CRASH = (
    "TensorFlow's profiler may crash a worker of a cluster when a capture ends (seen with 2.21 on "
    "CPUs), so only captures that are asked for are taken."
)
ANSWERED_WITHIN_S = 10.0
"""Time that a request file is kept for the other workers of a cluster. They look for it about once
a second, and on a network disk they may see it some seconds later."""


class CaptureWatch:
    """Captures profiles in one `fit`, into `<log_dir>/gpukit/plugins/profile`."""

    def __init__(
        self,
        session: Session,
        settings: CaptureSettings,
        epoch_steps: int | None,
        other_profilers: Sequence[Any] = (),
    ) -> None:
        assert session.output.log_dir is not None
        self._folder = session.output.log_dir / FOLDER
        in_cluster = trains_with_others(session.environment.worker)
        self._settings = settings.resolved(in_cluster=in_cluster)
        self._may_crash = in_cluster and settings.at_steps != ()
        self._request: RequestFile | None = None
        self._unknown_because: str | None = None
        self._tensorboards = _tensorboards_that_capture()
        self._began_s = time.time()
        self._none_automatic_because: str | None = None
        if settings.automatic:
            others = (*other_profilers, *self._tensorboards)
            self._none_automatic_because = because = not_automatic_because(session, others)
            self._settings = replace(self._settings, automatic=because is None)
        automatic = (
            AutomaticCapture(session, self._folder.parent) if self._settings.automatic else None
        )
        self._automatic = automatic

        def emit(record: CaptureRecord) -> None:
            session.output.write_record("capture", record, record.first_step)
            if automatic is not None:
                automatic.read_profile_of(record)

        self._recorder = Recorder(
            session.output.log_dir,
            self._settings,
            first_step=session.steps.step,
            steps_per_execution=session.model.steps_per_execution,
            epoch_steps=epoch_steps,
            global_step=lambda: session.steps.first_step + session.steps.of("fit").steps,
            emit=emit,
            on_counted=automatic.cut if automatic else lambda: None,
        )

    def start(self, session: Session) -> None:
        """Starts to mark steps and to look for triggers of captures."""
        if session.phase != "fit":
            self._unknown_because = "captures are of training steps, and this was not a fit"
            return
        try:
            self._watch_steps(session)
        except GPUKitError as error:
            self._unknown_because = str(error)
            return
        if self._may_crash:
            logger.warning("keras_gpukit: %s", MAY_CRASH)
        self._watch_clock_and_file(session, self._recorder)

    def close(self) -> None:
        """Ends a running capture and waits until it is written.

        Afterwards the Profile tab also finds the steps in profiles that Keras' own TensorBoard
        callback has captured. They are marked, but in a profile with loops that is not enough.
        """
        if self._request is not None:
            with Guard("Removing the request for a capture", "The next run answers it again."):
                self._request.withdraw()
        self._recorder.close()
        for callback in self._tensorboards:
            for path, status in profile_files(Path(callback.log_dir, "train/plugins/profile")):
                if status.st_mtime < self._began_s or status.st_size > LARGEST_AMENDED_BYTES:
                    continue
                with Guard(f"Marking the steps in {path}", "TensorBoard may find no steps in it."):
                    content = path.read_bytes()
                    amended, _ = amend(content)
                    if amended is not content:
                        replace_file(path, amended)

    @property
    def profiler_record(self) -> ProfilerRecord:
        """Record of the captures that were taken and missed, or why there are none."""
        if self._unknown_because is not None:
            return ProfilerRecord(unknown_because=self._unknown_because)
        record = self._recorder.profiler_record
        if self._automatic is not None:
            return self._automatic.completed(record)
        return replace(record, none_automatic_because=self._none_automatic_because)

    def _watch_steps(self, session: Session) -> None:
        automatic, recorder = self._automatic, self._recorder

        def on_window(window: StepWindow) -> None:
            if automatic is None:
                return
            automatic.keep(window)
            if recorder.is_capturing:
                automatic.when.skip()
            elif (wanted := automatic.when.add_window(window)) is not None:
                recorder.want(*wanted, automatic.when.executions)

        def on_pause() -> None:
            interrupted = session.ending == "interrupted"
            recorder.pause(INTERRUPTED if interrupted else "the epoch ended")

        session.steps.on_window("fit", on_window)
        session.steps.own.surround(recorder.wrap, on_pause)

    def _watch_clock_and_file(self, session: Session, recorder: Recorder) -> None:
        if self._settings.on_demand:
            worker = session.environment.worker
            shared = worker is not None and (worker.count or 1) > 1
            stays_s = ANSWERED_WITHIN_S if shared else 0.0
            self._request = request = RequestFile(self._folder / REQUEST_FILE, stays_s)

            def poll_file() -> None:
                if (reason := request.due()) is not None:
                    recorder.want("file", reason)

            session.sampling.every_second(f"whether {REQUEST_FILE} asks for a capture", poll_file)
        if self._settings.every_minutes is not None:
            minutes = self._settings.every_minutes
            pause_s = 60 * minutes
            schedule = Schedule(pause_s, pause_s, pause_s)

            def poll_clock() -> None:
                if schedule.is_due():
                    recorder.want("time", f"every {minutes:g} minutes")

            session.sampling.every_second("whether the time for a capture has come", poll_clock)


def _tensorboards_that_capture() -> list[Any]:
    import keras

    return [
        callback
        for callback in callbacks_of_fit()
        if isinstance(callback, keras.callbacks.TensorBoard) and any(profiled_batches(callback))
    ]
