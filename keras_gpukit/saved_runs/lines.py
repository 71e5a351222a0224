"""Whole lines of a file that may still be growing, and may be no text at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

LONGEST_BYTES = 4 * 2**20
"""A summary of a large model has a hundredth of it."""


def whole_lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Reads on to the last line that is complete.

    Args:
        file: Open for reading.

    Yields:
        A line, or None for one that is too long to be one of ours; and its length in bytes.
    """
    while line := file.readline(LONGEST_BYTES):
        if line.endswith(b"\n"):
            yield line, len(line)
            continue
        length = len(line)
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_BYTES)
            length += len(line)
        if line:
            yield None, length
