"""What a session notes on its time axis, and that it leaves the model as it was."""

from __future__ import annotations

import pytest
from helpers.stopped_clock import StoppedClock

from keras_gpukit.records import RunEvent
from keras_gpukit.watching import run_events
from keras_gpukit.watching.run_events import SHORTEST_S, RunEventNotes


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock.of(monkeypatch, run_events)


class Model:
    """Takes three seconds to save."""

    def __init__(self, clock):
        self._clock = clock

    def save(self, path):
        self._clock.now_s += 3
        return f"saved to {path}"

    def save_weights(self, path):
        raise OSError("the disk is full")


@pytest.fixture
def events():
    return []


@pytest.fixture
def model(clock):
    return Model(clock)


@pytest.fixture
def notes(model, events):
    return RunEventNotes(model, lambda kind, event, step: events.append(event), lambda: 7)


def test_a_save_is_noted_and_does_what_it_did(notes, model, events):
    before = dict(vars(model))
    notes.start()
    assert model.save("here") == "saved to here"
    with pytest.raises(OSError, match="disk is full"):
        model.save_weights("here")
    notes.close()
    assert vars(model) == before
    (event,) = events
    assert event == RunEvent("checkpoint", StoppedClock.UNIX_S, 3.0, 7)


def test_parts_and_epochs_are_noted_if_they_can_be_seen(notes, events, clock):
    now_s = clock.now_s
    notes.part("validation", now_s - 2, now_s - 1)
    notes.part("validation", now_s - 1, now_s - 1 + SHORTEST_S / 2)
    notes.part("steps", now_s - 1, now_s)
    notes.stood_still(now_s - 9, now_s - 4)
    notes.epoch_begins()
    clock.now_s += 0.25
    notes.epoch_ends(3)
    notes.epoch_ends(3)  # by an exception, after which the call ends too
    noted = [(event.kind, event.number) for event in events]
    assert noted == [("validation", None), ("stood still", None), ("epoch", 3)]
    assert [event.duration_s for event in events] == [1, 5, 0.25]
    assert [event.began_s - StoppedClock.UNIX_S for event in events] == [-2, -9, 0]


def test_a_failure_to_note_is_not_the_models(model, caplog):
    def refuse(kind, event, step):
        raise RuntimeError("no")

    notes = RunEventNotes(model, refuse, lambda: 0)
    notes.start()
    assert model.save("here") == "saved to here"
    notes.close()
    assert "Noting an event failed" in caplog.text
