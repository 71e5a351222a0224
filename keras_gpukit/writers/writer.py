"""What a run is written to: the interface of event files, JSON lines and whatever comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keras_gpukit.records.names import RecordKind


class Values(NamedTuple):
    """Numbers and Markdown texts, by tag.

    Attributes:
        time_s: When they were read, in seconds since the Unix epoch.
        step: Global step.
        values: By tag; what is unknown is left out.
    """

    time_s: float
    step: int
    values: Mapping[str, float | str]


class Record(NamedTuple):
    """One record of a run.

    Attributes:
        time_s: When it was made, in seconds since the Unix epoch.
        step: Global step, where it is known.
        kind: What it is.
        record: A dataclass of `keras_gpukit.records`, or plain data.
    """

    time_s: float
    step: int | None
    kind: RecordKind
    record: Any


class Writer:
    """Writes a run somewhere. Subclasses override what they have a use for.

    Opened, called and closed by `RunLog` on its own thread. An exception is logged once, and that
    writer is called no more; training and the other writers go on.
    """

    def write_values(self, values: Sequence[Values], /) -> None:
        """Writes values, in the order in which they came."""

    def write_records(self, records: Sequence[Record], /) -> None:
        """Writes records, in the order in which they came."""

    def close(self) -> None:
        """Writes what is left; called once, also after a failure."""
