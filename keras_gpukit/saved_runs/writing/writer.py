"""Interface of writers, such as those of event files and JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_gpukit.records.names import RecordKind


class Record(NamedTuple):
    """One record of a run: a dataclass of `keras_gpukit.records`, or plain data."""

    time_s: float
    step: int | None
    kind: RecordKind
    record: Any


class Writer:
    """Base class of writers.

    A `WriterThread` opens, calls and closes writers on its own thread. If a writer raises an
    exception, it is logged once and the writer is closed; training and the other writers continue.
    """

    def write_records(self, records: Sequence[Record], /) -> None:
        """Writes records in the given order."""
        raise NotImplementedError

    def close(self) -> None:
        """Writes the rest; called once, even after a failure."""
        raise NotImplementedError
