"""Writes `run.jsonl`: every record of a run, one JSON object per line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from keras_gpukit.saved_runs.writing.writer_thread import Record, Writer
from keras_gpukit.whole_files import AppendFile


class JsonLines(Writer):
    """Appends records to a file of JSON lines.

    Each line is {"kind": …, "time_s": …, "step": …, "record": …}. A file can contain several runs,
    one after another. Each begins with a line of kind "run", whose record has the version of the
    format as "schema".

    Raises:
        OSError: If the file cannot be written.
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
