"""Log of a run: a thread passes its records to the writers of its folder, as `run.jsonl`.

No two processes write to one file, which also says which process writes it.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import msgspec

from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import FOLDER, SCHEMA, is_first, record_name
from keras_gpukit.records.run import ProcessIdentity, RunHeader
from keras_gpukit.records.steps import Phase
from keras_gpukit.saved_runs.folding.tags import tags_of
from keras_gpukit.saved_runs.writing import Record, Writer, WriterThread
from keras_gpukit.whole_files import AppendFile

_BOOT = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"


class JsonLines(Writer):
    """Appends records to a file of JSON lines.

    Each line is {"kind": …, "time_s": …, "step": …, "record": …}. A file can contain several runs,
    one after another. Each begins with a line of kind "run", whose record has the version of the
    format as "schema".
    """

    def __init__(self, path: Path) -> None:
        torn = _ends_inside_a_line(path)
        self._file = AppendFile(path)
        if torn:
            self._file.write(b"\n")
        self._encode = msgspec.json.Encoder().encode

    def write_records(self, records: Iterable[Record], /) -> None:
        """Writes records; if the disk is full, the file stays readable."""
        self._file.write(
            b"".join(
                self._encode({"kind": kind, "time_s": time_s, "step": step, "record": record})
                + b"\n"
                for time_s, step, kind, record in records
            )
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _ends_inside_a_line(path: Path) -> bool:
    """Whether the last line is incomplete, because the machine stopped while it was written."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


class EventFile(Writer):
    """Writes the figures of records as scalars, and texts, to a TensorBoard event file in a folder.

    Windows of a validation within the run have no figures there. TensorFlow's own writers use its
    runtime, which monitoring must not affect. Event files are plain protobuf records, each framed
    by its length and checksums. TensorBoard's own package can frame them too, but importing its
    writer loads all of its plugins, and it computes checksums in Python: 0.1 ms for a kilobyte.
    """

    _made = 0

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # without TensorFlow

        self._event = Event
        self._phase: Phase | None = None
        EventFile._made += 1
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
        self._file = AppendFile(folder / f"{name}.{os.getpid()}.{EventFile._made}.gpukit")
        # Written together with the first values, since a short run waits for each write.
        self._waiting = [Event(wall_time=time.time(), file_version="brain.Event:2")]

    def write_records(self, records: Iterable[Record], /) -> None:
        """Writes what TensorBoard shows of them; if the disk is full, the file stays readable."""
        events = [event for record in records if (event := self._event_of(record)) is not None]
        if events:
            waiting, self._waiting = self._waiting, []
            self._file.write(_framed(waiting + events))

    def close(self) -> None:
        """Closes the file."""
        self._file.write(_framed(self._waiting))
        self._file.close()

    def _event_of(self, line: Record) -> Any:
        record = line.record
        if line.kind in ("run", "steps"):
            self._phase = self._phase or getattr(record, "phase", None)
        if line.kind == "steps" and record.phase != self._phase:
            return None
        by_tag = tags_of(line.kind, record)
        if not by_tag:
            return None
        return self._event(
            wall_time=record.time_s if line.kind == "steps" else line.time_s,
            step=line.step or 0,
            summary={"value": [_value(tag, value) for tag, value in by_tag.items()]},
        )


def _value(tag: str, value: float | str) -> dict[str, Any]:
    """Returns the fields of a value in a summary: a scalar, or a text."""
    if not isinstance(value, str):
        return {"tag": tag, "simple_value": value}
    return {
        "tag": tag,
        "metadata": {"plugin_data": {"plugin_name": "text"}, "data_class": "DATA_CLASS_TENSOR"},
        "tensor": {"dtype": "DT_STRING", "string_val": [value.encode()]},
    }


def _framed(events: Iterable[Any]) -> bytes:
    """Returns events as records in the format of TFRecord files and event files."""
    parts: list[bytes] = []
    for event in events:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        parts += (length, _masked_checksum(length), data, _masked_checksum(data))
    return b"".join(parts)


def _masked_checksum(data: bytes) -> bytes:
    checksum = google_crc32c.value(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)


OpenWriter = Callable[[Path, str], Writer]
"""Function that opens a writer, given the run's folder and this process's own name in it."""
WRITERS: tuple[OpenWriter, ...] = (
    # TensorBoard treats the event files of a folder as one run, and would mix their data points.
    lambda folder, name: EventFile(folder if is_first(name) else folder / name),
    lambda folder, name: JsonLines(folder / f"{name}.jsonl"),
)


class RunLog(WriterThread):
    """Writes the records passed to it to a run's folder; never raises.

    If a writer fails, that is logged once and the writer is closed; its files remain readable.
    They are in `<log_dir>/gpukit`.
    """

    def __init__(
        self,
        log_dir: Path,
        worker: Worker | None = None,
        writers: Sequence[OpenWriter] = WRITERS,
        phase: Phase | None = None,
    ) -> None:
        self.folder = log_dir / FOLDER
        super().__init__(f"Writing to {self.folder}")
        self._worker = worker
        self._open_writers = writers
        now_s = time.time()
        self.header = RunHeader(SCHEMA, now_s, worker, own_identity(), phase)
        self._records.append(Record(now_s, None, "run", self.header))
        self.start()

    def _run(self) -> None:
        with self._guard():
            self.folder.mkdir(parents=True, exist_ok=True)
            with own_name(self.folder, self._worker) as name:
                self._run_writers(
                    partial(open_writer, self.folder, name) for open_writer in self._open_writers
                )


@contextmanager
def own_name(folder: Path, worker: Worker | None) -> Iterator[str]:
    """Yields a name for files that no other process writes to until the block ends.

    The record file of that name is locked with `flock`; the system releases the lock when the
    process dies. On a disk or system without such locks, every process gets the first name. Lines
    remain intact, since each is appended by a single write, but runs of several processes mix.
    """
    for process in count(1):
        name = record_name(worker, process)
        with open(folder / f"{name}.jsonl", "ab") as record:
            if _lock(record):
                try:
                    yield name
                finally:
                    _unlock(record)
                return


def _lock(file: BinaryIO) -> bool:
    """Locks a file; returns False if another process has locked it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows; a network disk without locks
        pass
    return True


def _unlock(file: BinaryIO) -> None:
    """Unlocks a file, even if processes forked in the meantime have inherited it open."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
    except (ImportError, OSError):
        pass


def own_identity() -> ProcessIdentity | None:
    """Returns the identity of this process; None if the system does not provide it."""
    place, state = _place(), _state_and_start(os.getpid())
    if place is None or state is None:
        return None
    return ProcessIdentity(os.getpid(), state[1], place)


def has_ended(process: ProcessIdentity | None) -> bool | None:
    """Returns whether a process has ended.

    None is unknown, as for a process on another host, from before this host was rebooted, or in
    another container: its process id means nothing here.
    """
    if process is None or process.pid <= 0 or process.place != _place():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the process belongs to another user
        pass
    except (OSError, OverflowError):
        return None
    state = _state_and_start(process.pid)
    return None if state is None else state[0] in ("Z", "X") or state[1] != process.started


def _place() -> str | None:
    """Returns where process ids are unique: host, boot and namespace; None if unknown."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None  # /proc shows the process ids of another namespace
        boot = Path(_BOOT).read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink(_NAMESPACE)}"
    except OSError:
        return None


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """Returns the state, such as "R", and the start in ticks since boot; None if unknown."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
        # The process name before these fields may contain spaces and parentheses.
        fields = line[line.rindex(b")") + 1 :].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
