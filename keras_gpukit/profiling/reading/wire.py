"""Reads a serialized protobuf message field by field, even if it is damaged.

A profile may be truncated, damaged by a faulty disk, or large. So this module walks through it, and
passes only small pieces to protobuf. The encoding is described at
https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from keras_gpukit.profiling.reading.schema import message

MOST_EVENTS, MOST_OTHERS, MOST_FIGURES = 1_000_000, 200_000, 5_000_000
"""Number of events, of other entries such as names, and of figures that are read from one file. The
limits bound time and memory."""
LARGEST_FIELD_BYTES = 1 << 20
"""Size of the longest event, name or list of a plane's properties that is read."""

_FIXED_BYTES = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


class Wire:
    """A serialized message, with limits on how much of it is read.

    Attributes:
        data: The whole message.
        incomplete: Descriptions of what could not be read, each only once.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.incomplete: list[str] = []
        self._left = {"events": MOST_EVENTS, "entries": MOST_OTHERS, "figures": MOST_FIGURES}

    def fields(
        self, begin: int, end: int, what: str = "entries"
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yields each field's number, and the offsets of its start, its content and its end.

        Args:
            begin: Offset of the first field.
            end: Offset of the message's end.
            what: "events", or "entries" for anything else. They are counted separately: a plane's
                names come after its events, and are still needed if there are too many events.
        """
        data, at = self.data, begin
        while at < end:
            if not self.afford(what, 1):
                return
            try:
                tag, content = _varint(data, at)
                kind = tag & 7
                if kind == _BYTES:
                    length, content = _varint(data, content)
                    stop = content + length
                elif kind == _VARINT:
                    _, stop = _varint(data, content)
                else:
                    stop = content + _FIXED_BYTES[kind]
            except (IndexError, KeyError, ValueError):
                self.miss_from(at)
                return
            if stop > end:
                # The existing part of a truncated field may still be readable.
                self.miss_from(stop)
                stop = end
            yield tag >> 3, at, content, stop
            at = stop

    def afford(self, what: str, count: int) -> bool:
        """Returns whether `count` more may be read, and if so counts them."""
        if count > self._left[what]:
            self.miss(f"there are more {what} than are read of one file")
            return False
        self._left[what] -= count
        return True

    def parse(self, name: str, pieces: bytes) -> Any:
        """Returns the parsed message; None if it is damaged or too long."""
        if len(pieces) > LARGEST_FIELD_BYTES:
            self.miss("entries too long to be of use were left out")
            return None
        try:
            return message(name).FromString(pieces)
        except DecodeError:
            self.miss("damaged entries were left out")
            return None

    def miss_from(self, at: int) -> None:
        """Notes that nothing from an offset on can be read."""
        whole = at <= len(self.data)
        self.miss("damaged entries were left out" if whole else "its end is missing")

    def miss(self, what: str) -> None:
        """Notes what could not be read."""
        if what not in self.incomplete:
            self.incomplete.append(what)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at an offset, and the offset after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
        if shift > 63:
            raise ValueError("no number has that many bytes")
