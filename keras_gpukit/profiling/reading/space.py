"""Reads the content of an `.xplane.pb` file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Plane, Space, Stats, Value
from keras_gpukit.profiling.reading.schema import Program, message, programs_of

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
