"""What a session notes on its time axis, and that it leaves the model as it was."""

from __future__ import annotations

import time

import pytest

from keras_gpukit.watching.run_events import SHORTEST_S, RunEventNotes


class Model:
    """Saves slowly."""

    def save(self, path):
        time.sleep(SHORTEST_S)
        return f"saved to {path}"

    def save_weights(self, path):
        raise OSError("the disk is full")


@pytest.fixture
def events():
    return []


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def notes(model, events):
    return RunEventNotes(model, lambda kind, event, step: events.append(event), lambda: 7)


def test_a_save_is_noted_and_does_what_it_did(notes, model, events):
    notes.start()
    assert model.save("here") == "saved to here"
    with pytest.raises(OSError, match="disk is full"):
        model.save_weights("here")
    notes.close()
    assert vars(model) == {}
    (event,) = events
    assert (event.kind, event.step) == ("checkpoint", 7)
    assert event.duration_s >= SHORTEST_S
    assert event.began_s == pytest.approx(time.time(), abs=60)


def test_parts_and_epochs_are_noted_if_they_can_be_seen(notes, events):
    now_s = time.perf_counter()
    notes.part("validation", now_s - 2, now_s - 1)
    notes.part("validation", now_s - 1, now_s - 1 + SHORTEST_S / 2)
    notes.part("steps", now_s - 1, now_s)
    notes.stood_still(now_s - 9, now_s - 4)
    notes.epoch_begins()
    time.sleep(SHORTEST_S)
    notes.epoch_ends(3)
    notes.epoch_ends(3)  # by an exception, after which the call ends too
    noted = [(event.kind, event.number) for event in events]
    assert noted == [("validation", None), ("stood still", None), ("epoch", 3)]
    assert events[0].duration_s == pytest.approx(1)
    assert events[0].began_s == pytest.approx(time.time() - 2, abs=60)


def test_a_failure_to_note_is_not_the_models(model, caplog):
    def refuse(kind, event, step):
        raise RuntimeError("no")

    notes = RunEventNotes(model, refuse, lambda: 0)
    notes.start()
    assert model.save("here") == "saved to here"
    notes.close()
    assert "Noting an event failed" in caplog.text
