"""Collects the events of a run in fixed memory."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.event import EventKind, RunEvent

MOST_EVENTS = 400
"""Maximum number of events per kind; on a screen, each is then two to three pixels wide."""


class RunEvents:
    """Collects events; neighbouring events of a kind are merged if there are too many."""

    def __init__(self) -> None:
        self._events: dict[EventKind, list[RunEvent]] = {}
        self._per_event: dict[EventKind, int] = {}

    def add(self, event: RunEvent) -> None:
        """Adds an event. Call it in the order in which events ended."""
        events = self._events.setdefault(event.kind, [])
        if events and events[-1].count < self._per_event.setdefault(event.kind, 1):
            events[-1] = _merged(events[-1], event)
            return
        if len(events) == MOST_EVENTS:
            pairs = zip(events[::2], events[1::2], strict=True)
            events[:] = [_merged(one, other) for one, other in pairs]
            self._per_event[event.kind] *= 2
        events.append(event)

    def all(self) -> tuple[RunEvent, ...]:
        """Returns the events grouped by kind, in order within each kind."""
        return tuple(event for events in self._events.values() for event in events)


def _merged(one: RunEvent, other: RunEvent) -> RunEvent:
    return replace(
        one,
        duration_s=other.ended_s - one.began_s,
        step=other.step,
        count=one.count + other.count,
        spent_s=_spent_s(one) + _spent_s(other),
    )


def _spent_s(event: RunEvent) -> float:
    return event.duration_s if event.spent_s is None else event.spent_s
