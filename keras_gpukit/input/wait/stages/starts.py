"""Keeps readings of a pipeline's model that show what it does until its first batches arrive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from keras_gpukit.frameworks.tf_iterators import parse_model, read_model
from keras_gpukit.input.wait.stages.readings import ModelReading, read_nodes

MOST_STARTS = 8
"""Maximum number of starts that are kept, in addition to the first one of the run; our choice."""


class _Start:
    """One start: the latest reading before the first batch, and the one after the second."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.during: Any = None
        self.after: Any = None


class StartReadings:
    """Collects a reading of each start, of which those before the first batch come by chance.

    Args:
        read: Reads the model of an iterator.
        parse: Returns what was read.
    """

    def __init__(
        self,
        read: Callable[[Any], Any] = read_model,
        parse: Callable[[Any], ModelReading] = lambda model: read_nodes(parse_model(model)),
    ) -> None:
        self._read = read
        self._parse = parse
        self._starts: list[_Start] = []

    def follow(self, iterator: Any) -> None:
        """Notes that a pipeline starts."""
        starts = self._starts
        if len(starts) > MOST_STARTS:
            unread = (n for n, each in enumerate(starts) if n and each.during is None)
            del starts[next(unread, 1)]
        starts.append(_Start(iterator))

    def poll(self) -> None:
        """Reads the model if the first batches are still to come; called on the sampling thread."""
        start = self._starts[-1] if self._starts else None
        iterator = start.iterator() if start is not None and start.after is None else None
        if start is not None and iterator is not None:
            start.during = self._read(iterator)

    def began(self, model: Any) -> None:
        """Notes the reading after the first batches."""
        if self._starts and self._starts[-1].after is None:
            self._starts[-1].after = model

    def readings(self) -> tuple[list[ModelReading], bool]:
        """Returns readings of starts, and whether they are later ones than the run's first.

        A stage that has read all its data deletes its inputs, so a reading after the first batches
        may lack stages: a shuffle whose buffer holds the whole epoch has read everything by then.
        If any start was seen with more stages, only such ones count.
        """
        found = [self._fullest(each) for each in tuple(self._starts)]
        later = [each for each in found[1:] if each is not None]
        chosen = later or [each for each in found if each is not None]
        early = [reading for reading, is_early in chosen if is_early]
        return early or [reading for reading, _ in chosen], bool(later)

    def _fullest(self, start: _Start) -> tuple[ModelReading, bool] | None:
        """Returns the reading with most stages, and whether it came before the first batches."""
        known = [
            (self._parse(model), is_early)
            for model, is_early in ((start.after, False), (start.during, True))
            if model is not None
        ]
        return max(known, key=lambda each: len(each[0].nodes), default=None)
