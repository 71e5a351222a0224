"""Reads a profile file into a `ProfileRecord`, here or in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from keras_gpukit.errors import ProfileError
from keras_gpukit.profiling.reading.events import NOTHING, PS, Events, Space
from keras_gpukit.profiling.reading.gpu import PLANE, GPUs, gpus_of, profile_of
from keras_gpukit.profiling.reading.host_activity import Host, sort_out
from keras_gpukit.profiling.reading.layer_times import time_by_layer, top_kernels, top_operations
from keras_gpukit.profiling.reading.profiled_steps import (
    Steps,
    exposed_collectives_s,
    exposed_waits,
    find_steps,
    kind_spans,
    part_spans,
    rows,
)
from keras_gpukit.profiling.reading.space import read_space
from keras_gpukit.profiling.reading.stages import rank_stages
from keras_gpukit.records.codec import checked_record
from keras_gpukit.records.profile import ProfileRecord

LARGEST_BYTES = 256 << 20
"""Size of the largest profile that is read. Fifty steps of a large model take a tenth of it."""
HOST = "/host:CPU"
MOST_PROBLEMS = 20
# Our choice. Ten steps of a large model take some megabytes; reading takes four times the size.
LARGEST_APART_BYTES = 64 << 20
"""Size of the largest profile that a run reads."""
READ_WITHIN_S = 20.0
_LOWEST_PRIORITY = 19
_ENVIRONMENT = "Task Environment"
_PLANES = ("/host:", "/device:", _ENVIRONMENT)
_FOREIGN = {
    b"\x1f\x8b": "It is compressed with gzip: unpack it first.",
    b"PK": "It is a zip archive: unpack it first.",
    b"\x89PNG": "It is an image.",
}


def read_profile(path: str | os.PathLike[str]) -> ProfileRecord:
    """Reads the steps of an `.xplane.pb` file, without TensorBoard and TensorFlow.

    Entries that cannot be true are left out, and so are events beyond a million;
    `incomplete_because` then says so.

    Raises:
        ProfileError: If the file is no profile, damaged, or cut off. The message says why, and what
            to do.
    """
    path = Path(path)
    data = _content(path)
    try:
        space = read_space(data)
    except DecodeError:
        space = None
    if space is None or not space.named(*_PLANES):
        raise ProfileError(f"{_what_it_is(data)} Received: path={str(path)!r}")
    host = _host_events(space)
    steps, gpus = find_steps(host), gpus_of(space)
    unread = "; ".join(space.incomplete)
    record: dict[str, object] = {
        "captured_s": _captured_s(space),
        "problems": _problems(space),
        "incomplete_because": f"Not all of the file could be read: {unread}." if unread else None,
    }
    if len(steps) and steps.counted.total_ps:
        record |= _of_steps(steps, sort_out(host), gpus)
    else:
        unknown = "No step is marked in the profile, and no train function of Keras is in it."
        record["steps_unknown_because"] = unknown
        record["stall_unknown_because"] = "no step is known in the profile"
    return ProfileRecord(**record)  # type: ignore[arg-type]


def _of_steps(steps: Steps, host: Host, gpus: GPUs) -> dict[str, object]:
    per_execution = steps.per_execution or 1
    if steps.per_execution is None and host.loops:
        began_ps = host.computations[0]
        inside = steps.counted.covered_ps(began_ps, began_ps + 1)
        per_execution = max(1, round(int(inside.sum()) / len(steps)))
    count = len(steps) * per_execution
    total_ps = steps.counted.total_ps
    parts = part_spans(steps, host, gpus)
    computed = parts.get("device compute" if gpus.members else "host compute", NOTHING)
    kinds = kind_spans(host, gpus, computed)
    waits = exposed_waits(host, gpus)
    waits_known = len(host.waits.begin_ps) > 0
    to_mean_s = PS / count
    return {
        "steps": count,
        "steps_per_execution": per_execution,
        "steps_from": steps.source,
        "span_s": total_ps * PS,
        "step_time_s": total_ps * to_mean_s,
        "parts_s": {part: spans.total_ps * to_mean_s for part, spans in parts.items()},
        "kinds_s": {kind: spans.total_ps * to_mean_s for kind, spans in kinds.items()},
        "each_step": rows(steps, parts),
        "stall_fraction": (waits & steps.counted).total_ps / total_ps if waits_known else None,
        "stall_unknown_because": None if waits_known else "no fetch of a batch is in the profile",
        "devices": tuple(
            replace(profile_of(gpu, steps.counted), collectives_s=exposed_collectives_s(gpu, steps))
            for gpu in gpus.members
        ),
        "operations": top_operations(host, gpus, steps.counted),
        "kernels": top_kernels(gpus, steps.counted),
        "python_s": (host.python & steps.counted).total_ps * to_mean_s,
        "layers": time_by_layer(host, gpus, steps.counted, computed, count),
        "stages": rank_stages(host, waits, steps.counted, count),
    }


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ProfileError(f"There is no such file. Received: path={str(path)!r}")
        size_bytes = path.stat().st_size
        if size_bytes > LARGEST_BYTES:
            raise ProfileError(
                f"A profile of {size_bytes / 2**20:,.0f} MiB is not read, since that would take "
                f"more memory than it is worth: the most is {LARGEST_BYTES >> 20} MiB. Capture "
                f"fewer steps; ten are enough. Received: path={str(path)!r}"
            )
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES)
    except OSError as error:
        raise ProfileError(f"{error}. Received: path={str(path)!r}") from error


def _what_it_is(data: bytes) -> str:
    if not data:
        return "The file is empty: its capture did not finish. Capture again."
    for begin, words in _FOREIGN.items():
        if data.startswith(begin):
            return f"This is not a profile. {words}"
    return (
        "This is not a profile, or it is damaged, or its end is missing: capture again. A profile "
        "is a file that TensorFlow wrote to plugins/profile/ and that ends in .xplane.pb."
    )


def _host_events(space: Space) -> Events:
    """Returns the host's events; if the host has several planes, those of the fullest one."""
    planes = space.named(HOST) or space.named("/host:") or list(space.planes)
    return max((plane.events for plane in planes), key=lambda events: len(events.kind))


def _captured_s(space: Space) -> float | None:
    """Returns when the capture began, in seconds since the Unix epoch; None if unknown."""
    for plane in space.named(_ENVIRONMENT):
        if isinstance(began_ns := plane.stats.get("profile_start_time"), int):
            return began_ns / 1e9
    return None


def _problems(space: Space) -> tuple[str, ...]:
    """Returns up to 20 messages: events dropped per GPU, then the profiler's own messages."""
    problems: list[str] = []
    for plane in space.named(PLANE):
        dropped = plane.stats.get("dropped_traces")
        if dropped:
            device = plane.name.removeprefix("/device:")
            problems.append(
                f"The profiler dropped events of {device} ({dropped}): capture fewer steps."
            )
    if space.problems:
        from keras_gpukit.rules.whole_run.whole_script import remedy  # loads all rules

        problems += [remedy(text) or text for text in space.problems]
    return tuple(dict.fromkeys(problems))[:MOST_PROBLEMS]


def read_apart(path: Path) -> ProfileRecord:
    """Reads a profile like `read_profile`, in a separate process of low priority.

    Reading holds the GIL. A thread of low priority that holds it would delay training on a busy
    machine even longer than one of normal priority; a process shares no GIL. It loads no
    TensorFlow.

    Raises:
        ProfileError: If the profile is over `LARGEST_APART_BYTES`, or cannot be read in time.
        OSError: If the file or the process cannot be opened.
    """
    size_bytes = path.stat().st_size
    if size_bytes > LARGEST_APART_BYTES:
        raise ProfileError(
            f"it has {size_bytes / 2**20:,.0f} MiB; a run reads up to "
            f"{LARGEST_APART_BYTES >> 20} MiB"
        )
    try:
        read = subprocess.run(
            [sys.executable, "-m", __name__, str(path.absolute())],
            cwd=Path(__file__).parents[2],  # the package may be on this process' path only
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=READ_WITHIN_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ProfileError(f"it was not read within {READ_WITHIN_S:g} s") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        because = last[0] if last else f"its process ended with {error.returncode}"
        raise ProfileError(f"it cannot be read: {because}") from None
    return checked_record(msgspec.Raw(read.stdout), ProfileRecord)


def _main() -> None:
    with suppress(AttributeError, OSError):  # Windows has no such priorities
        os.nice(_LOWEST_PRIORITY)
    sys.stdout.buffer.write(msgspec.json.encode(read_profile(sys.argv[1])))


if __name__ == "__main__":
    _main()
