"""Protobuf messages of an `.xplane.pb` file, and the programs of XLA that it contains.

Fields and numbers are those of TensorFlow's published `xplane.proto` (`tsl/profiler/protobuf`), and
of XLA's `hlo.proto` (`xla/service`) for the programs within, which keep them stable. They are
declared here for two reasons. TensorFlow's own module for them
loads TensorFlow, which takes three seconds. And it checks texts for UTF-8, so that one damaged
letter makes a whole plane unreadable; here texts are bytes. Undeclared fields are skipped.

A fused kernel is named after its instruction in a program. The instruction's metadata holds the
name and the type of the TensorFlow operation that it was made of, or of the last one of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_PACKAGE = "keras_gpukit.xplane"
# Each field's number and type. "*" marks a repeated field.
_MESSAGES = {
    "Stat": {
        "metadata_id": "1 int64",
        "double_value": "2 double",
        "uint64_value": "3 uint64",
        "int64_value": "4 int64",
        "str_value": "5 bytes",
        "bytes_value": "6 bytes",
        "ref_value": "7 uint64",
    },
    "Event": {
        "metadata_id": "1 int64",
        "offset_ps": "2 int64",
        "duration_ps": "3 int64",
        "stats": "4 *Stat",
    },
    "Line": {"name": "2 bytes", "timestamp_ns": "3 int64", "events": "4 *Event"},
    "Metadata": {"name": "2 bytes", "stats": "5 *Stat"},
    "Entry": {"key": "1 int64", "value": "2 Metadata"},
    "Plane": {
        "name": "2 bytes",
        "lines": "3 *Line",
        "event_metadata": "4 *Entry",
        "stat_metadata": "5 *Entry",
        "stats": "6 *Stat",
    },
    "Space": {
        "planes": "1 *Plane",
        "errors": "2 *bytes",
        "warnings": "3 *bytes",
    },
    "OpMetadata": {"op_type": "1 bytes", "op_name": "2 bytes"},
    "Instruction": {
        "name": "1 bytes",
        "opcode": "2 bytes",
        "metadata": "7 OpMetadata",
        "id": "35 int64",
        "operand_ids": "36 *int64",
        "called_computation_ids": "38 *int64",
    },
    "Computation": {"instructions": "2 *Instruction", "id": "5 int64"},
    "Module": {"computations": "3 *Computation"},
    "Program": {"module": "1 Module"},
}


@cache
def message(wanted: str) -> Any:
    """Returns a class of `_MESSAGES`, from a descriptor pool apart from TensorFlow's."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_gpukit/xplane.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        declared = file.message_type.add(name=name)
        for field_name, text in fields.items():
            number, kind = text.split()
            field = declared.field.add(name=field_name, number=int(number))
            repeated, kind = kind.startswith("*"), kind.removeprefix("*")
            field.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type, field.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(field_type, f"TYPE_{kind.upper()}")
            if field_name.endswith("_value"):
                field.oneof_index = 0
        if name == "Stat":
            declared.oneof_decl.add(name="value")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{wanted}"))


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
            module = message("Program").FromString(self._data).module
        except DecodeError:
            return {}
        return {computation.id: computation.instructions for computation in module.computations}

    @cached_property
    def _by_id(self) -> Mapping[int, Any]:
        return {one.id: one for instructions in self._parts.values() for one in instructions}

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
            called = (self._parts.get(id_, ()) for id_ in instruction.called_computation_ids)
            parts = [part for instructions in called for part in reversed(instructions)]
            ids = () if instruction.opcode in _PRODUCTS else instruction.operand_ids
            operands = [self._by_id[id_] for id_ in ids if id_ in self._by_id]
            found = (self._operation(candidate, depth - 1) for candidate in (*parts, *operands))
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
