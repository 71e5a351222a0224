"""Interface of writers, such as those of event files and JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keras_gpukit.records.names import RecordKind


class Values(NamedTuple):
    """Numbers and Markdown texts that belong to one step.

    Attributes:
        time_s: Time of the reading, in seconds since the Unix epoch.
        step: Global step.
        values: Known numbers and texts, by tag.
    """

    time_s: float
    step: int
    values: Mapping[str, float | str]


class Record(NamedTuple):
    """One record of a run.

    Attributes:
        time_s: Time at which the record was made, in seconds since the Unix epoch.
        step: Global step; None if the record belongs to no step.
        kind: Kind of the record.
        record: Dataclass of `keras_gpukit.records`, or plain data.
    """

    time_s: float
    step: int | None
    kind: RecordKind
    record: Any


class Writer:
    """Base class of writers. Subclasses override the methods that they need.

    `RunLog` opens, calls and closes writers on its own thread. If a writer raises an exception, it
    is logged once and the writer is closed; training and the other writers continue.
    """

    def write_values(self, values: Sequence[Values], /) -> None:
        """Writes values in the given order."""

    def write_records(self, records: Sequence[Record], /) -> None:
        """Writes records in the given order."""

    def close(self) -> None:
        """Writes the rest; called once, even after a failure."""
