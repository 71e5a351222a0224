"""Reads the content of an `.xplane.pb` file, as far as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Plane, Space, StatsColumn, Value
from keras_gpukit.profiling.reading.figures import LONGEST_TEXT, Figures, text
from keras_gpukit.profiling.reading.wire import LARGEST_FIELD_BYTES, Wire

LONGEST_PS = 1 << 53
"""Two and a half hours. An event that ends later than this after the start is damaged."""
MOST_PLANES = 1000
# Field numbers.
_PLANE, _ERROR, _WARNING, _HOSTNAME = 1, 2, 3, 4
_LINE, _EVENT_METADATA, _STAT_METADATA = 3, 4, 5
_EVENT = 4
# Prefixes of the host's events whose own figures are read. Of other events, only the names and
# times are read.
_TELLING = (
    "Iterator::",
    "IteratorGetNext",
    "FunctionRun",
    "MemoryAllocation",
    "MemoryDeallocation",
)
# Number of different sets of figures that are stored once and shared between events.
_MOST_SHARED = 10_000


def read_space(data: bytes) -> Space:
    """Reads a file's content, as far as possible."""
    wire = Wire(data)
    drafts: list[_Draft] = []
    texts: dict[int, list[str]] = {_ERROR: [], _WARNING: [], _HOSTNAME: []}
    for number, _, begin, end in wire.fields(0, len(data)):
        if number == _PLANE and len(drafts) == MOST_PLANES:
            wire.miss(f"only its first {MOST_PLANES} planes were read")
        elif number == _PLANE:
            drafts.append(_Draft(wire, begin, end))
        elif number in texts:
            texts[number].append(text(data[begin : min(end, begin + LONGEST_TEXT)]))
    # Times may count from 1970, which would overflow 64 bits of picoseconds.
    origin_ns = min((ns for draft in drafts for ns in draft.origins_ns()), default=0)
    return Space(
        planes=tuple(draft.finish(origin_ns) for draft in drafts),
        hostname=next(iter(texts[_HOSTNAME]), None),
        problems=tuple(dict.fromkeys(texts[_ERROR] + texts[_WARNING])),
        incomplete=tuple(wire.incomplete),
    )


@dataclass(frozen=True)
class _Kind:
    """Properties that all events of one kind share.

    Attributes:
        index: Index of the kind among all kinds.
        name: Name of the kind's events.
        common: Figures that the kind carries on behalf of all its events.
        carried: Names of the common figures and of those on the kind's first event. All its events
            carry the same.
        tells: Whether the figures of the individual events are read.
    """

    index: int
    name: str
    common: Mapping[str, Value]
    carried: frozenset[str]
    tells: bool


class _Draft:
    """A plane whose events are not read yet: they need names that come later in the file."""

    def __init__(self, wire: Wire, begin: int, end: int) -> None:
        self._wire = wire
        self._kinds: dict[int, tuple[str, int, int]] = {}
        self._stats: dict[int, str] = {}
        self._lines: list[tuple[str, int, list[tuple[int, int]]]] = []
        rest = []
        for number, tag, content, stop in wire.fields(begin, end):
            if number == _LINE:
                self._add_line(content, stop)
            elif number in (_EVENT_METADATA, _STAT_METADATA):
                self._add_metadata(number, content, stop)
            else:
                rest.append(wire.data[tag:stop])
        self._plane = wire.parse("Plane", b"".join(rest)) or wire.parse("Plane", b"")
        self._all_tell = text(self._plane.name).startswith("/device:")
        self._figures = Figures(wire, self._stats)

    def _add_line(self, begin: int, end: int) -> None:
        events, rest = [], []
        for number, tag, content, stop in self._wire.fields(begin, end, "events"):
            if number == _EVENT:
                events.append((content, stop))
            else:
                rest.append(self._wire.data[tag:stop])
        line = self._wire.parse("Line", b"".join(rest))
        if line is not None:
            self._lines.append((text(line.name), line.timestamp_ns, events))

    def _add_metadata(self, number: int, begin: int, end: int) -> None:
        of_event = number == _EVENT_METADATA
        # Programs compiled by XLA, of a megabyte and more, are entries that no event refers to. If
        # one did, its name would be missing.
        if of_event and end - begin > LARGEST_FIELD_BYTES:
            return
        entry = self._wire.parse(
            "EventMetadataEntry" if of_event else "StatMetadataEntry", self._wire.data[begin:end]
        )
        if entry is None:
            return
        name = text(entry.value.name)
        if of_event:
            # The kind's figures are read with its first event: their names may come later.
            self._kinds[entry.key] = name, begin, end
        else:
            self._stats[entry.key] = name

    def origins_ns(self) -> list[int]:
        return [timestamp_ns for _, timestamp_ns, events in self._lines if events]

    def finish(self, origin_ns: int) -> Plane:
        return Plane(
            name=text(self._plane.name),
            stats=self._figures.read(self._plane.stats),
            events=self._read_events(origin_ns),
        )

    def _read_events(self, origin_ns: int) -> Events:
        kinds: dict[int, _Kind] = {}
        rows: list[tuple[int, int, int, int]] = []
        stats: list[tuple[tuple[str, ...], tuple[Value, ...]]] = []
        shared: dict[tuple[tuple[str, ...], tuple[Value, ...]], Any] = {}
        for line, (_, timestamp_ns, places) in enumerate(self._lines):
            for begin, end in places:
                event = self._wire.parse("Event", self._wire.data[begin:end])
                if event is None:
                    continue
                begin_ps = (timestamp_ns - origin_ns) * 1000 + event.offset_ps
                end_ps = begin_ps + event.duration_ps
                named = self._kinds.get(event.metadata_id, ("",))[0]
                if not named or not 0 <= begin_ps <= end_ps < LONGEST_PS:
                    self._wire.miss("damaged entries were left out")
                    continue
                kind = kinds.get(event.metadata_id)
                if kind is None:
                    kind = kinds[event.metadata_id] = self._kind_of(event, len(kinds))
                carries = {**kind.common, **self._figures.read(event.stats)} if kind.tells else {}
                figures = tuple(carries), tuple(carries.values())
                if len(shared) < _MOST_SHARED:
                    figures = shared.setdefault(figures, figures)
                stats.append(figures)
                rows.append((kind.index, line, begin_ps, end_ps))
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        return Events(
            names=tuple(kind.name for kind in kinds.values()),
            stat_names=tuple(kind.carried for kind in kinds.values()),
            lines=tuple(name for name, *_ in self._lines),
            kind=columns[0],
            line=columns[1],
            begin_ps=columns[2],
            end_ps=columns[3],
            stats=StatsColumn(stats),
        )

    def _kind_of(self, event: Any, index: int) -> _Kind:
        name, begin, end = self._kinds[event.metadata_id]
        entry = self._wire.parse("EventMetadataEntry", self._wire.data[begin:end])
        common = self._figures.read(entry.value.stats)
        carried = frozenset({**common, **self._figures.read(event.stats)})
        tells = self._all_tell or name.startswith(_TELLING) or "step_num" in carried
        return _Kind(index, name, common, carried, tells)
