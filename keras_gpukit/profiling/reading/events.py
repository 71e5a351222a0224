"""Content of a profile in memory: planes, with their events in columns, and sets of intervals."""

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
PS = 1e-12


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

    def launched_by(self, index: int) -> str:
        """Returns the operation of a kernel, or the origin of an instruction of XLA's; or ""."""
        stats = self.stats[index]
        return str(stats.get("tf_op") or stats.get("hlo_op") or "")

    def operation(self, index: int) -> str:
        """Returns the operation that launched an event, or that it is."""
        return self.launched_by(index) or self.names[self.kind[index]]

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


@dataclass(frozen=True)
class Spans:
    """Time intervals in ascending order, in picoseconds. No two of them overlap or touch."""

    begin_ps: Numbers
    end_ps: Numbers

    @classmethod
    def union(cls, begin_ps: Numbers, end_ps: Numbers) -> Spans:
        """Returns the union of intervals, which may overlap and be in any order."""
        order = np.argsort(begin_ps, kind="stable")
        begin_ps, end_ps = begin_ps[order], np.maximum.accumulate(end_ps[order])
        first = np.ones(len(begin_ps), bool)
        first[1:] = begin_ps[1:] > end_ps[:-1]
        last = np.roll(first, -1)
        return cls(begin_ps[first], end_ps[last])

    @classmethod
    def of(cls, events: Events, chosen: Mask | Numbers) -> Spans:
        """Returns the union of the intervals of events, chosen by a mask or by their indices."""
        return cls.union(events.begin_ps[chosen], events.end_ps[chosen])

    @property
    def total_ps(self) -> int:
        """Total length of the intervals, in picoseconds."""
        return int((self.end_ps - self.begin_ps).sum())

    def __or__(self, other: Spans) -> Spans:
        return Spans.union(
            np.concatenate([self.begin_ps, other.begin_ps]),
            np.concatenate([self.end_ps, other.end_ps]),
        )

    def __and__(self, other: Spans) -> Spans:
        edges = self._edges(other)
        return _joined(edges, self.holds(edges) & other.holds(edges))

    def __sub__(self, other: Spans) -> Spans:
        edges = self._edges(other)
        return _joined(edges, self.holds(edges) & ~other.holds(edges))

    def covered_ps(self, begin_ps: Numbers, end_ps: Numbers) -> Numbers:
        """Returns how much of each of the given intervals these intervals cover."""
        return self._until(end_ps) - self._until(begin_ps)

    def _until(self, moment_ps: Numbers) -> Numbers:
        if not len(self.begin_ps):
            return np.zeros(len(moment_ps), np.int64)
        index = np.searchsorted(self.begin_ps, moment_ps, "right")
        beyond = np.maximum(0, self.end_ps[index - 1] - moment_ps)
        return np.where(index > 0, self._before_ps[index] - beyond, 0)

    @cached_property
    def _before_ps(self) -> Numbers:
        """Total length of the intervals before each interval, and then of all of them."""
        return np.concatenate([[0], np.cumsum(self.end_ps - self.begin_ps)])

    def _edges(self, other: Spans) -> Numbers:
        return np.unique(np.concatenate([self.begin_ps, self.end_ps, other.begin_ps, other.end_ps]))

    def holds(self, moment_ps: Numbers) -> Mask:
        """Returns a mask of the moments that lie within the intervals."""
        if not len(self.begin_ps):
            return np.zeros(len(moment_ps), bool)
        index = np.searchsorted(self.begin_ps, moment_ps, "right") - 1
        held: Mask = (index >= 0) & (moment_ps < self.end_ps[index])
        return held


NOTHING = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def _joined(edges: Numbers, held: Mask) -> Spans:
    """Joins the chosen intervals between neighbouring edges; none starts at the last edge."""
    return Spans.union(edges[:-1][held[:-1]], edges[1:][held[:-1]])
