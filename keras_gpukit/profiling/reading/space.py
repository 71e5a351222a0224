"""Reads the content of an `.xplane.pb` file: its planes, and the programs of XLA among them.

Fields and numbers are those of TensorFlow's published `xplane.proto` (`tsl/profiler/protobuf`), and
of XLA's `hlo.proto` (`xla/service`) for the programs within, which keep them stable. They are
declared here for two reasons. TensorFlow's own module for them loads TensorFlow, which takes three
seconds. And it checks texts for UTF-8, so that one damaged letter makes a whole plane unreadable;
here texts are bytes. Undeclared fields are skipped.

A fused kernel is named after its instruction in a program. The instruction's metadata holds the
name and the type of the TensorFlow operation that it was made of, or of the last one of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from keras_gpukit.profiling.reading.events import Events, Plane, Space, Stats, Value

MOST_EVENTS = 1_000_000
"""Number of events that are read from one file, which bounds time and memory."""
LONGEST_PS = 1 << 53
"""Two and a half hours. An event that ends later than this after the start is damaged."""
LONGEST_TEXT = 500
# Figures that are used. An event may carry any number of others.
_OF_MARKS = "step_num _r"
_OF_STAGES = "id parent_id name"
_OF_KERNELS = "tf_op hlo_op hlo_module memcpy_details"
_OF_PLANES = "compute_cap_major compute_cap_minor dropped_traces profile_start_time"
_WANTED = frozenset(" ".join((_OF_MARKS, _OF_STAGES, _OF_KERNELS, _OF_PLANES)).split())
# Prefixes of the host's events whose own figures are read. Of other events, only the names and
# times are read.
_READ = ("Iterator::", "IteratorGetNext", "FunctionRun")
_READ_WITH = frozenset({"step_num", "hlo_op"})
# Number of different sets of figures that are stored once and shared between events.
_MOST_SHARED = 10_000
_PROGRAMS = b"/host:metadata"
MOST_DEPTH = 4
_PRODUCTS = (b"convolution", b"dot")
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
    "Space": {"planes": "1 *Plane", "errors": "2 *bytes", "warnings": "3 *bytes"},
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
        for field_name, declaration in fields.items():
            number, kind = declaration.split()
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
        return {text(one.name): one for one in self._by_id.values()}

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
            return f"{text(instruction.metadata.op_name)}:{text(instruction.metadata.op_type)}"
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
        text(entry.value.name).rpartition("(")[0]: Program(stat.bytes_value)
        for plane in space.planes
        if plane.name == _PROGRAMS
        for entry in plane.event_metadata
        for stat in entry.value.stats
        if stat.bytes_value  # TensorFlow 2.22 adds the program's number
    }


def read_space(data: bytes) -> Space:
    """Reads a file's content; protobuf's `DecodeError` says that it is damaged or no profile."""
    space = message("Space").FromString(data)
    # Times may count from 1970, which would overflow 64 bits of picoseconds.
    origin_ns = min(
        (line.timestamp_ns for plane in space.planes for line in plane.lines if line.events),
        default=0,
    )
    reader = _Reader(origin_ns, programs_of(space))
    problems = (text(problem) for problem in (*space.errors, *space.warnings))
    return Space(
        planes=tuple(map(reader.plane, space.planes)),
        problems=tuple(dict.fromkeys(problems)),
        incomplete=tuple(sorted(reader.incomplete)),
    )


@dataclass(frozen=True)
class _Kind:
    """Properties that all events of one kind share.

    The kind carries `common` figures for all of them. The figures of each event have the names of
    those of the first one; they are read only for some kinds.
    """

    index: int
    name: str
    common: Stats
    carried: frozenset[str]
    is_read: bool


class _Reader:
    """Reads planes, up to a number of events in all; `incomplete` says what was left out."""

    def __init__(self, origin_ns: int, programs: Mapping[str, Program]) -> None:
        self.incomplete: set[str] = set()
        self._programs = programs
        self._origin_ns = origin_ns
        self._left = MOST_EVENTS

    def plane(self, plane: Any) -> Plane:
        texts = {entry.key: text(entry.value.name) for entry in plane.stat_metadata}
        return Plane(text(plane.name), _figures(plane.stats, texts), self._events(plane, texts))

    def _events(self, plane: Any, texts: Mapping[int, str]) -> Events:
        known = {entry.key: entry.value for entry in plane.event_metadata}
        read_all = plane.name.startswith(b"/device:")
        kinds: dict[int, _Kind] = {}
        rows: list[tuple[int, int, int, int]] = []
        stats: list[Stats] = []
        shared: dict[tuple[tuple[str, Value], ...], Stats] = {}
        for line_index, line in enumerate(plane.lines):
            line_ps = (line.timestamp_ns - self._origin_ns) * 1000
            for event in self._affordable(line.events):
                begin_ps = line_ps + event.offset_ps
                end_ps = begin_ps + event.duration_ps
                its_kind = event.metadata_id
                named = its_kind in known and known[its_kind].name
                if not named or not 0 <= begin_ps <= end_ps < LONGEST_PS:
                    self.incomplete.add("damaged entries were left out")
                    continue
                kind = kinds.get(its_kind)
                if kind is None:
                    kind = _kind(len(kinds), known[its_kind], event, texts, read_all)
                    kinds[its_kind] = kind
                carries: Stats = {}
                if kind.is_read:
                    carries = self._with_operation({**kind.common, **_figures(event.stats, texts)})
                if len(shared) < _MOST_SHARED:
                    carries = shared.setdefault(tuple(carries.items()), carries)
                stats.append(carries)
                rows.append((kind.index, line_index, begin_ps, end_ps))
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        return Events(
            names=tuple(kind.name for kind in kinds.values()),
            stat_names=tuple(kind.carried for kind in kinds.values()),
            lines=tuple(text(line.name) for line in plane.lines),
            kind=columns[0],
            line=columns[1],
            begin_ps=columns[2],
            end_ps=columns[3],
            stats=np.array(stats, object),
        )

    def _with_operation(self, figures: dict[str, Value]) -> Stats:
        """Gives an instruction of XLA's the operation it was made of, in place of its program."""
        program = self._programs.get(str(figures.pop("hlo_module", "")))
        if program and (operation := program.operation(str(figures.get("hlo_op", "")))):
            figures["tf_op"] = operation
        return figures

    def _affordable(self, events: Any) -> Iterable[Any]:
        taken = min(len(events), self._left)
        self._left -= taken
        if taken < len(events):
            self.incomplete.add("there are more events than are read of one file")
        return islice(events, taken)


def _kind(index: int, metadata: Any, event: Any, texts: Mapping[int, str], read_all: bool) -> _Kind:
    name, common = text(metadata.name), _figures(metadata.stats, texts)
    carried = frozenset({**common, **_figures(event.stats, texts)})
    is_read = read_all or name.startswith(_READ) or not carried.isdisjoint(_READ_WITH)
    return _Kind(index, name, common, carried, is_read)


def _figures(stats: Any, texts: Mapping[int, str]) -> dict[str, Value]:
    """Returns the figures that are used, by name."""
    values: dict[str, Value] = {}
    for stat in stats:
        name = texts.get(stat.metadata_id)
        field = name in _WANTED and stat.WhichOneof("value")
        if name is not None and field:
            value = getattr(stat, field)
            if field == "ref_value":
                value = texts.get(value, "")
            values[name] = text(value) if isinstance(value, bytes) else value
    return values


def text(value: bytes) -> str:
    """Decodes up to 500 bytes of text, and replaces invalid ones."""
    return value[:LONGEST_TEXT].decode("utf-8", "replace")
