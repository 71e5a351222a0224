"""Profile files in a log directory: their names, sizes and steps."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from keras_gpukit.records.names import PROFILE_SUFFIX, PROFILES
from keras_gpukit.whole_files import new_folder, replace_file

MARK = "train"
"""Name of the event around a step. The tab recognizes steps by names that begin with it."""

# A larger profile is left unchanged: parsing one takes several times its size in memory.
LARGEST_AMENDED_BYTES = 256 * 2**20

_HOST = "/host:CPU"
_STEP_NUMBER = "step_num"
_TURN = "iter_num"
# Events that carry the number of a loop's iteration. The tab groups them by that number.
_IN_LOOPS = (
    "ExecutorState::Process",
    "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute",
)


def profile_name(step: int, time_s: float) -> str:
    """Returns a profile's name, made of its Unix time, to the microsecond, and its first step."""
    return f"{datetime.fromtimestamp(time_s):%Y_%m_%d_%H_%M_%S_%f}_step_{step}"


def profiles_bytes(log_dir: Path) -> int:
    """Returns the disk space that the profiles in a log directory take."""
    return sum(status.st_size for _, status in profile_files(log_dir / PROFILES))


def profile_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the profile files in a folder of profiles, each with its status from `os.lstat`.

    Only regular files are included: a link may lead anywhere, and reading from a pipe may block
    forever. Files that cannot be examined are skipped.
    """
    for path in folder.glob(f"*/*{PROFILE_SUFFIX}"):
        with suppress(OSError):  # removed meanwhile, perhaps
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


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
    """Amends a captured profile so that TensorBoard's Profile tab finds its steps.

    The tab recognizes a step by an event that is marked as its root (`_r=1`), and assigns to the
    step all events that follow from that one. A TensorFlow loop within a step breaks this. Keras
    runs such a loop if there are several steps per execution, and so does a recurrent layer. Each
    iteration of the loop then becomes a root of its own, events marked as roots are ignored, and no
    step is found. So all iterations of a loop are renumbered to its first one (0), which the tab
    does not take for a loop. Seen on xprof 2.24: `ProcessTensorFlowLoop` and `CreateEventGroups` in
    `group_events.cc`.

    Args:
        content: Content of an `.xplane.pb` file.
        steps: Numbers of the steps that were captured completely. The marks of other steps are
            removed: one may surround the unsuccessful fetch of a batch at an epoch's end. None
            keeps all marks.

    Returns:
        The amended content, or the same object if nothing had to change; and the messages of
        TensorFlow's profiler on what it could not record. A profile that is too large to be amended
        is returned unchanged, without messages.
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
    step_number = _ids(plane.stat_metadata, (_STEP_NUMBER,))
    turn = _ids(plane.stat_metadata, (_TURN,))
    amended = False
    for line in plane.lines:
        strangers = []
        for index, event in enumerate(line.events):
            if event.metadata_id in in_loops:
                for stat in event.stats:
                    if stat.metadata_id in turn and stat.int64_value:
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
    return {each.id for each in metadata.values() if each.name in names}
