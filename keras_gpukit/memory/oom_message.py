"""Parses the message of an out-of-memory error, and the report that TensorFlow's allocator logs.

The patterns match the wording of TensorFlow 2.18 to 2.21 and the XLA they include. A value is None
if the text does not have it, or has it in another wording.

Only the report has the memory in use and the largest free block. TensorFlow writes it to standard
error. If that goes to a file, as in batch jobs, the report is read from the end of the file.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from math import prod

from keras_gpukit.records.memory import AllocatorState

_TENSOR = re.compile(
    r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+)(?: on (\S+))?"
)
_BLOCK = re.compile(
    r"[Oo]ut of memory (?:while )?trying to allocate ([\d.]+ ?(?:[KMGT]?i?B|bytes))"
)
# If TensorFlow cannot allocate a large constant of the step, it reports that it cannot parse it.
_CONSTANT = re.compile(r"Cannot parse tensor from proto: .*?dtype: DT_(\w+)(.*)", re.DOTALL)
_DIMENSION = re.compile(r"dim \{\s*size: (\d+)")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_EAGER = re.compile(r"__wrapped__(\w+?)_(?:N_\d+_)?(?:num_outputs_\d+_)?device_")
_OPERATION = re.compile(r"\[Op:(\w+)\]")
_MEMORY = re.compile(
    r"OOM|[Oo]ut of memory|failed to allocate memory|Cannot parse tensor from proto"
)
_UNITS = {"B": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_ITEM_BYTES = {
    **dict.fromkeys(("float", "float32", "int32", "uint32", "qint32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("double", "float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    "complex128": 16,
}
# Of the report in the allocator's log.
_READ_BYTES = 4 * 2**20
_STANDARD_ERROR = 2
_BEGIN = re.compile(r"Allocator \(\S+\) ran out of memory trying to allocate ")
_ASKED = re.compile(r"\(rounded to (\d+)\)")
_CHUNK = re.compile(r"(InUse|Free)\s+at \w+ of size (\d+)")
_POOL = re.compile(r"Total size in pool: \S+ memory_limit_: (\S+) available size: (\S+)")
_SIZE = re.compile(r"([\d.]+) ?([KMGT]?i?B|bytes)")


@dataclass(frozen=True)
class OOMMessage:
    """The content of an out-of-memory message. Each value is None if unknown.

    Attributes:
        shape: Shape of the tensor that could not be allocated.
        dtype: Dtype of that tensor, such as "float".
        asked_bytes: Size of the failed allocation.
        device: Device of the failed allocation, such as "GPU:0".
        operation: Operation that failed: its name in the graph, or its type in an eager step.
        is_type: Whether `operation` is a type instead of a name.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    asked_bytes: int | None = None
    device: str | None = None
    operation: str | None = None
    is_type: bool = False


def read_message(text: str) -> OOMMessage | None:
    """Parses a message; returns None if it is not about memory."""
    if not _MEMORY.search(text):
        return None
    shape, dtype, asked, device = None, None, None, None
    if tensor := _TENSOR.search(text):
        shape = tuple(int(dimension) for dimension in tensor[1].split(",") if dimension)
        dtype = tensor[2]
        device = tensor[3].rpartition("device:")[2] if tensor[3] else None
    elif constant := _CONSTANT.search(text):
        shape = tuple(int(dimension) for dimension in _DIMENSION.findall(constant[2]))
        dtype = constant[1].lower()
    elif block := _BLOCK.search(text):
        asked = _bytes(block[1])
    if shape is not None and dtype in _ITEM_BYTES:
        asked = prod(shape) * _ITEM_BYTES[dtype]
    operation, is_type = _operation(text)
    return OOMMessage(shape, dtype, asked, device or None, operation, is_type)


def _bytes(text: str) -> int:
    """Converts a size as TensorFlow writes it, such as "1.50GiB", to bytes; 0 if it is none."""
    found = _SIZE.match(text)
    return int(float(found[1]) * _UNITS.get(found[2], 1)) if found else 0


def _operation(text: str) -> tuple[str | None, bool]:
    if node := _NODE.search(text):
        return node[1], False
    for pattern in (_EAGER, _OPERATION):
        if (found := pattern.search(text)) and not found[1].startswith("__"):
            return found[1], True
    return None, False


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
    report = _BEGIN.split(log)[-1]
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
    )
