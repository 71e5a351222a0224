"""Programs that XLA compiled, which a profile contains: TensorFlow operation of each instruction.

A fused kernel is named after its instruction. The instruction's metadata holds the name and the
type of the TensorFlow operation that it was made of, or of the last one of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from google.protobuf.message import DecodeError

from keras_gpukit.profiling.reading.schema import program_message

PLANE = b"/host:metadata"
MOST_DEPTH = 4
_PRODUCTS = (b"convolution", b"dot")


class Program:
    """One program, read once it is asked for: a profile also holds those of earlier models.

    Damaged data is a program without instructions.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._found: dict[int, str] = {}

    @cached_property
    def _parts(self) -> Mapping[int, Any]:
        """Instructions of each computation, by its id."""
        try:
            module = program_message().FromString(self._data).module
        except DecodeError:
            return {}
        return {each.id: each.instructions for each in module.computations}

    @cached_property
    def _by_id(self) -> Mapping[int, Any]:
        return {one.id: one for each in self._parts.values() for one in each}

    @cached_property
    def _by_name(self) -> Mapping[str, Any]:
        return {_text(one.name): one for one in self._by_id.values()}

    def operation(self, instruction: str) -> str:
        """Returns the operation ("name:type") of an instruction; empty if none is known."""
        named = self._by_name.get(instruction)
        return self._operation(named, MOST_DEPTH) if named else ""

    def _operation(self, instruction: Any, depth: int) -> str:
        """Returns an instruction's own operation, or that of its parts, or of its operands.

        XLA adds copies without metadata, and names some fusions after none of their parts. A
        product may be of another layer than its operands.
        """
        if instruction.metadata.op_type:
            return _text(instruction.metadata.op_name, b":", instruction.metadata.op_type)
        if instruction.id not in self._found and depth:
            called = (self._parts.get(each, ()) for each in instruction.called_computation_ids)
            parts = [part for each in called for part in reversed(each)]
            ids = () if instruction.opcode in _PRODUCTS else instruction.operand_ids
            operands = [self._by_id[each] for each in ids if each in self._by_id]
            found = (self._operation(each, depth - 1) for each in (*parts, *operands))
            self._found[instruction.id] = next(filter(None, found), "")
        return self._found.get(instruction.id, "")


def programs_of(space: Any) -> Mapping[str, Program]:
    """Returns all programs in a profile by their names."""
    return {
        # The name ends with the program's number: "a_inference_one_step_7__.108(246274)".
        _text(entry.value.name).rpartition("(")[0]: Program(stat.bytes_value)
        for plane in space.planes
        if plane.name == PLANE
        for entry in plane.event_metadata
        for stat in entry.value.stats
        if stat.bytes_value  # TensorFlow 2.22 adds the program's number
    }


def _text(*parts: bytes) -> str:
    return b"".join(parts).decode("utf-8", "replace")
