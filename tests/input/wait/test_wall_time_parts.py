"""Where the parts of a call's wall time are."""

from __future__ import annotations

from keras_gpukit.input.wait.wall_time import WallTime


def test_each_part_of_the_wall_time_is_said_with_its_begin_and_end():
    moments = iter([0.0, 5.0, 8.0, 20.0, 20.0])
    parts = []
    wall = WallTime(
        "epoch start", now=lambda: next(moments), on_part=lambda *part: parts.append(part)
    )
    wall.turn("steps")
    wall.add_epoch_wait(2.0, began_s=5.0)
    wall.turn("validation")
    wall.end()
    assert parts == [
        ("epoch start", 0.0, 5.0),
        ("epoch start", 5.0, 7.0),
        ("steps", 5.0, 8.0),
        ("validation", 8.0, 20.0),
    ]


def test_a_step_that_is_traced_for_another_shape_is_no_computation():
    moments = iter([0.0, 10.0])
    wall = WallTime("first step", now=lambda: next(moments))
    wall.note_tracing(0.5)  # part of the first step
    wall.turn("steps", 2.0)
    wall.note_tracing(1.5)
    parts = wall.breakdown(inside_s=8.0, wait_s=1.0, until_s=10.0)
    assert (parts.tracing_s, parts.tracings, parts.tracings_of_shapes) == (1.5, 1, 1)
    assert parts.compute_s == 8.0 - 1.5 - 1.0


def test_the_tracing_of_a_new_step_function_counts_once():
    moments = iter([0.0, 10.0])
    wall = WallTime("first step", now=lambda: next(moments))
    wall.turn("steps", 2.0)  # the first call of an epoch
    wall.note_tracing(1.5)
    wall.add_tracing(2.0)  # all of that call
    parts = wall.breakdown(inside_s=8.0, wait_s=1.0, until_s=10.0)
    assert (parts.tracing_s, parts.tracings, parts.tracings_of_shapes) == (2.0, 1, 0)
