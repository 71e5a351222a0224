"""Content of a profile in memory: planes, with their events stored in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Value = int | float | str
Stats = Mapping[str, Value]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Events:
    """Events of one plane, on all its lines, in no particular order.

    Attributes:
        stat_names: Names of the figures that the first event of each kind carries.
        lines: Names of the lines: threads of the host, or streams of a GPU.
        kind: Index of each event's kind in `names`.
        line: Index of each event's line in `lines`.
        begin_ps: Start of each event, in picoseconds since the earliest origin of any line.
        stats: Figures of each event, by name; empty for kinds of events whose figures are not used.
    """

    names: tuple[str, ...]
    stat_names: tuple[frozenset[str], ...]
    lines: tuple[str, ...]
    kind: Numbers
    line: Numbers
    begin_ps: Numbers
    end_ps: Numbers
    stats: np.ndarray[Any, np.dtype[np.object_]]

    def of(self, wanted: Callable[[str], bool]) -> Mask:
        """Returns a mask of the events whose names are `wanted`."""
        return np.array([wanted(name) for name in self.names], bool)[self.kind]

    def carrying(self, stat: str) -> Mask:
        """Returns a mask of the events whose kind carries a figure named `stat`."""
        return np.array([stat in names for names in self.stat_names], bool)[self.kind]

    def on(self, wanted: Callable[[str], bool]) -> Mask:
        """Returns a mask of the events on lines whose names are `wanted`."""
        return np.array([wanted(name) for name in self.lines], bool)[self.line]

    def operation(self, index: int) -> str:
        """Returns the operation that an event computes: of an instruction of XLA's, its origin."""
        stats = self.stats[index]
        named = stats.get("tf_op") or stats.get("hlo_op") or self.names[self.kind[index]]
        return str(named)

    @cached_property
    def duration_ps(self) -> Numbers:
        """Duration of each event, in picoseconds."""
        return self.end_ps - self.begin_ps


@dataclass(frozen=True)
class Plane:
    """Events and figures from one source, such as the host or one GPU."""

    name: str
    stats: Stats
    events: Events


@dataclass(frozen=True)
class Space:
    """Content of a whole profile file: its planes, and what is wrong with it.

    Attributes:
        problems: The profiler's own errors and warnings.
        incomplete: Descriptions of the parts that could not be read.
    """

    planes: tuple[Plane, ...]
    problems: tuple[str, ...]
    incomplete: tuple[str, ...]

    def named(self, *prefixes: str) -> list[Plane]:
        """Returns the planes whose names begin with one of the prefixes."""
        return [plane for plane in self.planes if plane.name.startswith(prefixes)]
