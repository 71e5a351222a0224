"""Reads the figures that events and planes carry, which the format calls stats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_gpukit.profiling.reading.events import Value
from keras_gpukit.profiling.reading.wire import Wire

LONGEST_TEXT = 500
# Figures that are used. An event may carry any number of others.
_OF_MARKS = "step_num _r"
_OF_STAGES = "id parent_id name"
_OF_KERNELS = "tf_op hlo_op memcpy_details"
_OF_ALLOCATIONS = (
    "allocator_name bytes_allocated bytes_available allocation_bytes requested_bytes addr tf_op "
    "fragmentation shape tensor_shapes"
)
_OF_PLANES = (
    "compute_cap_major compute_cap_minor dropped_traces profile_start_time profile_stop_time"
)
_WANTED = frozenset(
    " ".join((_OF_MARKS, _OF_STAGES, _OF_KERNELS, _OF_ALLOCATIONS, _OF_PLANES)).split()
)
# Number of characters of a text that count as one more figure.
_LETTERS = 16


class Figures:
    """Reads the figures of a plane and its events.

    Args:
        wire: File to read from. It limits how many figures are read.
        names: Names of the plane's figures, and texts that figures may refer to, by id.
    """

    def __init__(self, wire: Wire, names: Mapping[int, str]) -> None:
        self._wire = wire
        self._texts = names
        self._names = {number: name for number, name in names.items() if name in _WANTED}

    def read(self, stats: Any) -> dict[str, Value]:
        """Returns the figures that are used, by name; none once the file exceeds its limit."""
        values: dict[str, Value] = {}
        if not self._wire.afford("figures", len(stats)):
            return values
        for stat in stats:
            name = self._names.get(stat.metadata_id)
            field = name and stat.WhichOneof("value")
            if name and field:
                value = getattr(stat, field)
                if field == "ref_value":
                    value = self._texts.get(value, "")
                elif isinstance(value, bytes):
                    value = text(value)
                    if not self._wire.afford("figures", len(value) // _LETTERS):
                        continue
                values[name] = value
        return values


def text(value: bytes) -> str:
    """Decodes up to 500 bytes of text, and replaces invalid ones."""
    return value[:LONGEST_TEXT].decode("utf-8", "replace")
