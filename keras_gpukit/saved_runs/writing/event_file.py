"""Writes TensorBoard event files without TensorFlow's summary writers.

Summary writers use TensorFlow's runtime, and monitoring must not affect it. Event files are plain
protobuf records, each framed by its length and checksums. TensorBoard's own package can frame them
too, but importing its writer loads all of its plugins, and it computes checksums in Python: 0.1 ms
for a kilobyte of text.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c

from keras_gpukit.records.steps import Phase
from keras_gpukit.saved_runs.folding.tags import tags_of
from keras_gpukit.saved_runs.writing.writer_thread import Record, Writer
from keras_gpukit.whole_files import AppendFile


class EventFile(Writer):
    """Writes the figures of records as scalars, and texts, to one event file in a folder.

    Windows of a validation within the run have no figures there.
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
        events = [event for each in records if (event := self._event_of(each)) is not None]
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
