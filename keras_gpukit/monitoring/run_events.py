"""Records the events of a call other than steps, for the time axis of its report."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records.event import EventKind, RunEvent
from keras_gpukit.records.names import RecordKind
from keras_gpukit.records.steps import Part

SHORTEST_S = 0.05
"""Minimum duration of an event. Shorter ones are invisible on a chart of a run that lasts a minute,
and short epochs have many of them."""
_OF_PART: dict[Part, EventKind] = {
    "first step": "first step",
    "epoch start": "epoch start",
    "validation": "validation",
    "callbacks": "callbacks",
}
_SAVES = ("save", "save_weights")


class RunEventNotes:
    """Records the events that a session notices.

    Moments are in seconds of `time.perf_counter`.
    """

    def __init__(
        self,
        model: Any,
        record: Callable[[RecordKind, RunEvent, int], None],
        step: Callable[[], int],
    ) -> None:
        self._record = record
        self._step = step
        self._epoch_began_s: float | None = None
        self._guard = Guard("Noting an event", "It is missing in the report.")
        self._saves = [ReplacedAttribute(model, name) for name in _SAVES]

    def start(self) -> None:
        """Starts to watch `save` and `save_weights` of the model."""
        for save in self._saves:
            save.replace(self._watched(save.current))

    def close(self) -> None:
        """Restores the model, and forgets the call; may be called repeatedly."""
        for save in self._saves:
            save.restore()
        self._step = int  # returns 0: there are no more events

    def part(self, part: Part, began_s: float, ended_s: float) -> None:
        """Records that a part of the call's wall time has ended."""
        if part in _OF_PART:
            self._note(_OF_PART[part], began_s, ended_s)

    def epoch_begins(self) -> None:
        """Notes that an epoch begins."""
        self._epoch_began_s = time.perf_counter()

    def epoch_ends(self, number: int | None) -> None:
        """Records that the current epoch, if there is one, has ended."""
        began_s, self._epoch_began_s = self._epoch_began_s, None
        if began_s is not None:
            self._note("epoch", began_s, time.perf_counter(), number)

    def suspended(self, began_s: float, ended_s: float) -> None:
        """Records that the process was suspended."""
        self._note("stood still", began_s, ended_s)

    def hung(self, began_s: float, ended_s: float) -> None:
        """Records that no step ended for long."""
        self._note("hang", began_s, ended_s)

    def _note(
        self, kind: EventKind, began_s: float, ended_s: float, number: int | None = None
    ) -> None:
        duration_s = ended_s - began_s
        if duration_s < SHORTEST_S:
            return
        with self._guard:
            began_unix_s = time.time() - (time.perf_counter() - began_s)
            step = self._step()
            self._record("event", RunEvent(kind, began_unix_s, duration_s, step, number), step)

    def _watched(self, save: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(save)
        def saving(*args: Any, **kwargs: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return save(*args, **kwargs)
            finally:
                self._note("checkpoint", began_s, time.perf_counter())

        return saving
