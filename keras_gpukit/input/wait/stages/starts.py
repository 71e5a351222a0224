"""Keeps readings of a pipeline's model that show what it does until its first batches arrive."""

from __future__ import annotations

import weakref
from typing import Any

from keras_gpukit.input.wait.stages.readings import ModelReading, read_nodes
from keras_gpukit.input.wait.tf_private import parse_model, read_model

MOST_STARTS = 8
"""Maximum number of starts that are kept, in addition to the first one of the run; our choice."""


class _Start:
    """One start: the latest reading before the first batch, and the one after the second."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.during: Any = None
        self.after: Any = None

    def reading(self) -> ModelReading | None:
        """Returns the reading that shows most; None without one.

        A stage that has read all its data deletes its inputs, so the later reading may lack stages:
        a shuffle whose buffer holds the whole epoch has read everything before the first batch.
        """
        known = [read_nodes(parse_model(each)) for each in (self.after, self.during) if each]
        return max(known, key=lambda reading: len(reading.nodes), default=None)


class StartReadings:
    """Collects a reading of each start, of which those before the first batch come by chance."""

    def __init__(self) -> None:
        self._starts: list[_Start] = []

    def follow(self, iterator: Any) -> None:
        """Notes that a pipeline starts."""
        starts = self._starts
        if len(starts) > MOST_STARTS:
            unread = (n for n, each in enumerate(starts) if n and each.during is None)
            del starts[next(unread, 1)]
        starts.append(_Start(iterator))

    def look(self) -> None:
        """Reads the model if the first batches are still to come; called on the sampling thread."""
        start = self._starts[-1] if self._starts else None
        iterator = start.iterator() if start is not None and start.after is None else None
        if start is not None and iterator is not None:
            start.during = read_model(iterator)

    def began(self, model: Any) -> None:
        """Notes the reading after the first batches."""
        if self._starts and self._starts[-1].after is None:
            self._starts[-1].after = model

    def readings(self) -> tuple[list[ModelReading], bool]:
        """Returns readings of starts, and whether they are later ones than the run's first."""
        first, *later = (start.reading() for start in [*self._starts]) if self._starts else (None,)
        known = [each for each in later if each is not None]
        return known or ([first] if first is not None else []), bool(known)
