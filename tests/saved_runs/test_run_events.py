"""Events of a run: taken in, merged where there are many, and refused where they are damaged."""

from __future__ import annotations

from helpers.recorded_runs import BEGAN_S, only_run, run_lines, with_validation

from keras_gpukit.records import RunEvent
from keras_gpukit.saved_runs.folding.downsampling import MOST_EVENTS
from keras_gpukit.saved_runs.folding.run_fold import RunFold


def test_events_and_windows_of_validation_are_read_back(tmp_path):
    run = only_run(tmp_path, with_validation(run_lines()))
    others = [event.kind for event in run.events if event.kind != "epoch"]
    assert others == ["first step", "validation", "checkpoint"]
    assert [event.number for event in run.events if event.kind == "epoch"] == [1, 2]
    assert (run.validation.readings, run.steps.readings) == (2, 60)


def test_of_many_events_neighbours_are_merged_and_their_time_is_kept():
    fold = RunFold()
    for number in range(10 * MOST_EVENTS):
        event = RunEvent("epoch", BEGAN_S + 3 * number, 2.0, number, number + 1)
        fold.add("event", event, event.ended_s, number)
    merged = fold.events()
    assert MOST_EVENTS / 2 <= len(merged) <= MOST_EVENTS
    assert sum(event.count for event in merged) == 10 * MOST_EVENTS
    assert sum(event.spent_s for event in merged) == 2.0 * 10 * MOST_EVENTS
    assert [event.number for event in merged[:2]] == [1, 1 + merged[0].count]
    assert merged[0].duration_s == 3 * merged[0].count - 1
    assert merged[-1].ended_s == BEGAN_S + 3 * (10 * MOST_EVENTS - 1) + 2


def test_an_event_at_no_time_is_counted_as_unreadable(tmp_path):
    lines = run_lines(3)
    lines.insert(-1, (BEGAN_S + 3, 0, "event", RunEvent("epoch", -5.0, 1.0)))
    run = only_run(tmp_path, lines)
    assert run.events == ()
    assert "an event at no time" in run.notes[0]
