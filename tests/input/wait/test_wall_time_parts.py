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
