"""Walks through a serialised message field by field, however damaged it is.

A profile may be cut off, or changed by a faulty disk, and it may be large: so it is walked through
here, and only small pieces are handed to protobuf. The encoding is described at
https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from keras_gpukit.profiling.reading.schema import message

MOST_EVENTS, MOST_OTHERS, MOST_FIGURES = 1_000_000, 200_000, 5_000_000
"""Events, other entries such as names, and figures that events carry: so many are read of one file,
which bounds time and memory."""
LARGEST_FIELD_BYTES = 1 << 20
"""The longest event, name or list of a plane's properties that is read."""

_FIXED_BYTES = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


class Wire:
    """A serialised message.

    Attributes:
        data: All of it.
        incomplete: What could not be read, in words; no sentence comes twice.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.incomplete: list[str] = []
        self._left = {"events": MOST_EVENTS, "entries": MOST_OTHERS, "figures": MOST_FIGURES}

    def fields(
        self, begin: int, end: int, what: str = "entries"
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yields each field's number, and where it begins, its content begins, and it ends.

        Args:
            begin: Where the first one is.
            end: Where the message ends.
            what: "events", or "entries" of any other sort. A plane's names come after its events,
                and are still wanted when those are too many.
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
                # What is there of a long field is still worth a look.
                self.miss_from(stop)
                stop = end
            yield tag >> 3, at, content, stop
            at = stop

    def afford(self, what: str, count: int) -> bool:
        """Returns whether that many more may be read, and counts them."""
        if count > self._left[what]:
            self.miss(f"there are more {what} than are read of one file")
            return False
        self._left[what] -= count
        return True

    def parse(self, name: str, pieces: bytes) -> Any:
        """Returns the message; None where it is damaged."""
        if len(pieces) > LARGEST_FIELD_BYTES:
            self.miss("entries too long to be of use were left out")
            return None
        try:
            return message(name).FromString(pieces)
        except DecodeError:
            self.miss("damaged entries were left out")
            return None

    def miss_from(self, at: int) -> None:
        """Notes that nothing sensible follows."""
        whole = at <= len(self.data)
        self.miss("damaged entries were left out" if whole else "its end is missing")

    def miss(self, what: str) -> None:
        """Notes what could not be read."""
        if what not in self.incomplete:
            self.incomplete.append(what)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a place, and the place after it."""
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
