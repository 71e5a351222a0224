"""Sets of time intervals, with union, intersection and difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keras_gpukit.profiling.reading.events import Events, Mask, Numbers


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
    def of(cls, events: Events, chosen: Mask) -> Spans:
        """Returns the union of the chosen events' intervals."""
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
