"""Protobuf messages of an `.xplane.pb` file, with the fields that are used.

Fields and numbers are those of TensorFlow's published `xplane.proto` (`tsl/profiler/protobuf`),
which keeps them stable. They are declared here for two reasons. TensorFlow's own module for them
loads TensorFlow, which takes three seconds. And it checks texts for UTF-8, so that one damaged
letter makes a whole plane unreadable; here texts are bytes. Undeclared fields are skipped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
    "EventMetadata": {
        "id": "1 int64",
        "name": "2 bytes",
        "display_name": "4 bytes",
        "stats": "5 *Stat",
    },
    "StatMetadata": {"id": "1 int64", "name": "2 bytes"},
    "EventMetadataEntry": {"key": "1 int64", "value": "2 EventMetadata"},
    "StatMetadataEntry": {"key": "1 int64", "value": "2 StatMetadata"},
    "Plane": {
        "name": "2 bytes",
        "lines": "3 *Line",
        "event_metadata": "4 *EventMetadataEntry",
        "stat_metadata": "5 *StatMetadataEntry",
        "stats": "6 *Stat",
    },
    "Space": {
        "planes": "1 *Plane",
        "errors": "2 *bytes",
        "warnings": "3 *bytes",
        "hostnames": "4 *bytes",
    },
}


@cache
def message(name: str) -> Any:
    """Returns the class of a message, such as "Space", "Plane", "Line" or "Event"."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    """Returns a separate descriptor pool, which cannot collide with TensorFlow's declaration."""
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
    return pool
