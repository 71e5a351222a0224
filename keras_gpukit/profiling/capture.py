"""One capture: TensorFlow's profiler, from its start to the file in the log directory.

A separate thread starts and stops the profiler and writes the file, for two reasons. Stopping
gathers the events of all threads, and training need not wait for that. And Python raises Ctrl-C
only on the main thread, so it never interrupts between the profiler's start and the note that it
has started.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from keras_gpukit.errors import failure
from keras_gpukit.records.names import PROFILE_SUFFIX, PROFILES
from keras_gpukit.records.profile import CaptureRecord, Trigger
from keras_gpukit.rules.whole_run.whole_script import remedy
from keras_gpukit.whole_files import new_folder, replace_file

# A disk or a driver that hangs must not keep `fit` from returning.
FINISH_WITHIN_S = 30.0
MARK = "train"
"""Name of the event around a step. The tab recognizes steps by names that begin with it."""

# A larger profile is left unchanged: parsing one takes several times its size in memory.
LARGEST_AMENDED_BYTES = 256 * 2**20

_HOST = "/host:CPU"
# Events that carry the number of a loop's iteration. The tab groups them by that number.
_IN_LOOPS = (
    "ExecutorState::Process",
    "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute",
)


class Capture:
    """Records one profile and writes it to the log directory; `record` says what is known of it."""

    def __init__(self, log_dir: Path, trigger: Trigger, reason: str, step: int) -> None:
        self._log_dir = log_dir
        self._started, self._ended = threading.Event(), threading.Event()
        self._refused: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="gpukit-capture", daemon=True)
        self._finishing = threading.RLock()  # an interrupt may leave it locked
        self._emit: Callable[[CaptureRecord], None] | None = None
        time_s = time.time()
        self._began_s = time.perf_counter()
        self.record = CaptureRecord(
            run=profile_name(step, time_s),
            trigger=trigger,
            reason=reason,
            first_step=step,
            steps=0,
            time_s=time_s,
            duration_s=0.0,
            blocked_s=0.0,
        )

    def begin(self) -> None:
        """Starts recording.

        The caller must store the capture first. If Ctrl-C interrupts this call, the profiler may be
        running, and the capture must be ended.
        """
        began_s = time.perf_counter()
        self._thread.start()
        self._started.wait()
        if self._refused is not None:
            raise self._refused
        self._began_s = time.perf_counter()
        self.record = replace(self.record, blocked_s=self._began_s - began_s)

    def end(
        self,
        steps: int,
        because: str | None,
        room_bytes: int,
        emit: Callable[[CaptureRecord], None],
    ) -> None:
        """Stops recording after some steps, and returns immediately."""
        now_s = time.perf_counter()
        duration_s = now_s - self._began_s
        self.record = replace(
            self.record, steps=steps, ended_early_because=because, duration_s=duration_s
        )
        self._room_bytes, self._emit = room_bytes, emit
        self._ended.set()

    @property
    def is_under_way(self) -> bool:
        """Whether the capture is still being recorded or written."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Waits up to 30 s for an ended capture to be written; after that, it has failed."""
        if self._thread.is_alive():
            self._thread.join(FINISH_WITHIN_S)
        if self._thread.is_alive():
            failed = f"it was not written after {FINISH_WITHIN_S:g} s"
            self._emit_once(replace(self.record, failed_because=failed))

    def _emit_once(self, record: CaptureRecord) -> None:
        with self._finishing:
            emit, self._emit = self._emit, None
        if emit is not None:
            emit(record)

    def _run(self) -> None:
        try:
            # TensorFlow must not write to the log directory: it names folders by the second, and
            # its profile is amended before others see it.
            with tempfile.TemporaryDirectory(prefix="gpukit-capture-") as folder:
                start_function()(folder)
                self._started.set()
                record = self._finish(Path(folder))
        except Exception as error:
            if not self._started.is_set():
                self._refused = error
                self._started.set()
                return
            record = replace(self.record, failed_because=failure("the capture", error))
        self._emit_once(record)

    def _finish(self, folder: Path) -> CaptureRecord:
        import tensorflow as tf

        self._ended.wait()
        tf.profiler.experimental.stop()
        record = self.record
        recorded = next(folder.rglob(f"*{PROFILE_SUFFIX}"), None)
        if recorded is None:
            return replace(record, failed_because="TensorFlow's profiler wrote no profile")
        if not record.steps:
            early = record.ended_early_because
            return replace(record, failed_because=f"no whole step ran during the capture: {early}")
        steps = range(record.first_step, record.first_step + record.steps)
        content, errors = amend(recorded.read_bytes(), steps)
        if len(content) > self._room_bytes:
            failed = f"it takes {len(content):,} bytes, and max_bytes leaves {self._room_bytes:,}"
            return replace(record, failed_because=failed)
        path = write_profile(self._log_dir, record.run, recorded.name, content)
        return replace(
            record,
            run=path.parent.name,
            path=path.relative_to(self._log_dir).as_posix(),
            profile_bytes=len(content),
            incomplete_because=next(filter(None, map(remedy, errors)), None),
        )


def give_way(preempted: Callable[[], None]) -> Callable[[], None]:
    """Lets other code start TensorFlow's profiler while we record; returns what ends this.

    TensorFlow records one profile at a time, and raises an error when a second one is started. In a
    user's callback, that error would end the training. So a replacement takes the place of
    `tf.profiler.experimental.start`, both there and in the module that defines it, where
    `tf.profiler.experimental.Profile` looks it up. Code that imported the function by name before
    that still gets TensorFlow's error. So does TensorBoard's "capture profile", which shows the
    error in the browser. `preempted` is called on any thread, and ends our capture.
    """
    import tensorflow as tf

    original = start_function()

    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        preempted()
        return original(*args, **kwargs)

    start.gpukit_original = original  # type: ignore[attr-defined]

    places: tuple[Any, ...] = (tf.profiler.experimental, sys.modules.get(original.__module__))

    def replace_by(function: Any, instead_of: Any) -> None:
        for place in places:
            if getattr(place, "start", None) is instead_of:
                place.start = function

    replace_by(start, original)
    return lambda: replace_by(original, start)


def start_function() -> Any:
    """Returns the original `tf.profiler.experimental.start`, even while it is replaced."""
    import tensorflow as tf

    start = tf.profiler.experimental.start
    return getattr(start, "gpukit_original", start)


def profile_name(step: int, time_s: float) -> str:
    """Returns a profile's name, made of its Unix time, to the microsecond, and its first step."""
    return f"{datetime.fromtimestamp(time_s):%Y_%m_%d_%H_%M_%S_%f}_step_{step}"


def write_profile(log_dir: Path, name: str, file_name: str, content: bytes) -> Path:
    """Writes a profile to a folder of its own, completely or not at all; returns its path.

    A number is appended to the folder's name if that folder exists.
    """
    path = new_folder(log_dir / PROFILES, name, separator="_") / file_name
    try:
        replace_file(path, content)
    except OSError:
        path.parent.rmdir()
        raise
    return path


def amend(content: bytes, steps: range | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Returns a captured profile in which TensorBoard's Profile tab finds steps, and its errors.

    The tab recognizes a step by an event that is marked as its root (`_r=1`), and assigns to the
    step all events that follow from that one. Each iteration of a TensorFlow loop within a step, as
    of a recurrent layer or of several steps per execution, becomes a root of its own: marks are
    ignored, and no step is found. So all iterations of a loop are renumbered to its first one (0),
    which the tab does not take for a loop. Seen on xprof 2.24: `ProcessTensorFlowLoop` and
    `CreateEventGroups` in `group_events.cc`. Given the numbers of the steps that were captured
    completely, the marks of others are removed: one may surround the fetch that finds no batch.

    The content is the same object if nothing had to change, as of a profile that is too large.
    """
    if len(content) > LARGEST_AMENDED_BYTES:
        return content, ()
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(content)
    amended = [_amend_host(plane, steps) for plane in space.planes if plane.name == _HOST]
    return space.SerializeToString() if any(amended) else content, tuple(space.errors)


def _amend_host(plane: Any, steps: range | None) -> bool:
    """Amends the host's plane; returns whether anything had to change."""
    marks = set() if steps is None else _ids(plane.event_metadata, (MARK,))
    in_loops = _ids(plane.event_metadata, _IN_LOOPS)
    step_number = _ids(plane.stat_metadata, ("step_num",))
    iteration = _ids(plane.stat_metadata, ("iter_num",))
    amended = False
    for line in plane.lines:
        strangers = []
        for index, event in enumerate(line.events):
            if event.metadata_id in in_loops:
                for stat in event.stats:
                    if stat.metadata_id in iteration and stat.int64_value:
                        stat.int64_value = 0
                        amended = True
            elif event.metadata_id in marks:
                its_stats = (stat for stat in event.stats if stat.metadata_id in step_number)
                number = next((stat.int64_value for stat in its_stats), None)
                if steps is not None and number not in steps:
                    strangers.append(index)
        for index in reversed(strangers):
            del line.events[index]
            amended = True
    return amended


def _ids(metadata: Any, names: Iterable[str]) -> set[int]:
    return {entry.id for entry in metadata.values() if entry.name in names}
