"""What a profile holds, once it is read: events in columns, by the plane they were recorded on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np

Value = int | float | str
Stats = Mapping[str, Value]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class StatsColumn:
    """What each event carries, in as little memory as it takes: a million events may have some."""

    def __init__(self, rows: list[tuple[tuple[str, ...], tuple[Value, ...]]]) -> None:
        self._rows = rows

    def __getitem__(self, index: SupportsIndex) -> dict[str, Value]:
        return dict(zip(*self._rows[index], strict=True))


@dataclass(frozen=True)
class Events:
    """Events of one plane, on all its lines, in no order.

    Attributes:
        names: What kinds of event there are.
        stat_names: Figures that the first event of each kind carries.
        lines: Names of the lines: of threads, or of a GPU's streams.
        kind: Index into `names`, of each event.
        line: Index into `lines`, of each event.
        begin_ps: When each began, since the first line's origin.
        end_ps: When each ended.
        stats: What each carries, where it is of interest.
    """

    names: tuple[str, ...]
    stat_names: tuple[frozenset[str], ...]
    lines: tuple[str, ...]
    kind: Numbers
    line: Numbers
    begin_ps: Numbers
    end_ps: Numbers
    stats: StatsColumn

    def of(self, wanted: Callable[[str], bool]) -> Mask:
        """Returns which events have a name of that sort."""
        return np.array([wanted(name) for name in self.names], bool)[self.kind]

    def carrying(self, stat: str) -> Mask:
        """Returns which events are of a kind that carries a figure."""
        return np.array([stat in names for names in self.stat_names], bool)[self.kind]

    def on(self, wanted: Callable[[str], bool]) -> Mask:
        """Returns which events are on a line with a name of that sort."""
        return np.array([wanted(name) for name in self.lines], bool)[self.line]

    @cached_property
    def duration_ps(self) -> Numbers:
        """How long each took."""
        return self.end_ps - self.begin_ps


@dataclass(frozen=True)
class Plane:
    """What one source recorded: the host, or one GPU."""

    name: str
    stats: Stats
    events: Events


@dataclass(frozen=True)
class Space:
    """A whole file.

    Attributes:
        planes: What was recorded.
        hostname: The machine.
        problems: The profiler's own errors and warnings.
        incomplete: What of the file could not be read.
    """

    planes: tuple[Plane, ...]
    hostname: str | None
    problems: tuple[str, ...]
    incomplete: tuple[str, ...]

    def named(self, *prefixes: str) -> list[Plane]:
        """Returns the planes whose names begin so."""
        return [plane for plane in self.planes if plane.name.startswith(prefixes)]
