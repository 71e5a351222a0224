"""Reads the report that TensorFlow's allocator logs when it runs out of memory.

The report has the memory in use and the largest free block. TensorFlow writes it to standard error;
programs cannot get these figures in any other way. If standard error goes to a file, as in batch
jobs, the report is read from the end of that file. Otherwise the figures are unknown. The patterns
match the wording of TensorFlow 2.18 to 2.21.
"""

from __future__ import annotations

import os
import re
import stat

from keras_gpukit.memory.oom_message import size_in_bytes
from keras_gpukit.records.memory import AllocatorState

_READ_BYTES = 4 * 2**20
_STANDARD_ERROR = 2
_BEGIN = re.compile(r"Allocator \((\S+)\) ran out of memory trying to allocate ([\d.]+)(\w+)")
_ASKED = re.compile(r"\(rounded to (\d+)\)")
_CHUNK = re.compile(r"(InUse|Free)\s+at \w+ of size (\d+)")
_POOL = re.compile(r"Total size in pool: \S+ memory_limit_: (\S+) available size: (\S+)")
_SIZE = re.compile(r"([\d.]+)([KMGT]?i?B)")


def read_log() -> str:
    """Returns the last 4 MiB written to standard error; "" if it is not a readable file."""
    try:
        if not stat.S_ISREG(os.fstat(_STANDARD_ERROR).st_mode):
            return ""
        with open(f"/proc/self/fd/{_STANDARD_ERROR}", "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _READ_BYTES, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_state(log: str) -> AllocatorState | None:
    """Reads the last allocator report in a log; None if there is no complete report."""
    begins = list(_BEGIN.finditer(log))
    if not begins:
        return None
    report = log[begins[-1].start() :]
    used, free, largest = 0, 0, 0
    for kind, size in _CHUNK.findall(report):
        if kind == "InUse":
            used += int(size)
        else:
            free += int(size)
            largest = max(largest, int(size))
    asked, pool = _ASKED.search(report), _POOL.search(report)
    if not used or pool is None or asked is None:
        return None
    untaken = _bytes(pool[2])
    return AllocatorState(
        asked_bytes=int(asked[1]),
        limit_bytes=_bytes(pool[1]),
        in_use_bytes=used,
        free_bytes=free + untaken,
        largest_free_bytes=max(largest, untaken),
        from_log=True,
    )


def _bytes(text: str) -> int:
    found = _SIZE.match(text)
    return size_in_bytes(found[1], found[2]) if found else 0
