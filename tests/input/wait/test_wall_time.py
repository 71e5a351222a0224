"""The parts of a call's wall time, and what of them is compiling a step again, on a given clock."""

import pytest

from keras_gpukit.input.wait.calls import CallTimes
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.sensors.compilations import Compilations


class Process:
    def __init__(self):
        self.now_s, self.programs, self.inside_s = 0.0, 5, 0.0
        self.wall = WallTime("callbacks", now=lambda: self.now_s, compiled=self.compiled)

    def compiled(self):
        return Compilations(self.programs, 0.5 * self.programs)

    def spend(self, part, programs):
        """Ten seconds of a part, in which XLA compiles."""
        self.wall.switch(part)
        self.now_s += 10.0
        self.programs += programs
        if part == "steps":
            self.inside_s += 9.0


def test_compilations_in_later_steps_and_validations_are_no_compute_and_no_validation():
    process = Process()
    process.spend("first step", 1)
    process.spend("steps", 4)
    process.spend("validation", 3)  # one of them is needed
    process.spend("callbacks", 7)
    process.spend("steps", 2)
    process.spend("validation", 0)
    process.wall.switch("other")
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert parts.compilations == 4 + 2 + 2
    assert parts.compiling_s == parts.tracing_s == pytest.approx(4.0)
    assert parts.compute_s == pytest.approx(18.0 - 3.0)
    assert parts.validation_s == pytest.approx(20.0 - 1.0)
    assert parts.callbacks_s == pytest.approx(10.0 + 2.0)  # those between steps, too
    assert sum(parts.parts.values()) == pytest.approx(60.0)
    process.wall.end()
    process.programs += 1
    assert process.wall.breakdown(process.inside_s, 0.0).compilations == 8


def test_a_step_function_made_again_is_counted_with_its_compilations_and_unknown_without_counters():
    process = Process()
    process.spend("first step", 1)
    process.spend("steps", 1)
    process.wall.add_tracing(3.0)
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert (parts.tracings, parts.tracing_s, parts.compilations) == (1, 3.0, 0)
    process = Process()
    process.wall = WallTime("steps", now=lambda: process.now_s, compiled=lambda: None)
    process.spend("steps", 3)
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert (parts.compilations, parts.compiling_s, parts.tracing_s) == (None, None, 0.0)


def test_the_time_inside_a_step_function_is_that_of_all_its_calls():
    calls = CallTimes(steps_per_execution=8, first_step=100)
    calls.times_s = [0.0, 1.0, 2.0, 4.0, 5.0, 8.0]
    calls.drop(but=1)
    assert (calls.inside_s, calls.times_s) == (3.0, [5.0, 8.0])
    assert (calls.count, calls.step) == (3, 124)


def test_each_part_of_the_wall_time_is_said_with_its_begin_and_end():
    moments = iter([0.0, 5.0, 8.0, 20.0, 20.0])
    parts = []
    wall = WallTime(
        "epoch start", now=lambda: next(moments), on_part=lambda *part: parts.append(part)
    )
    wall.switch("steps")
    wall.add_epoch_wait(2.0, began_s=5.0)
    wall.switch("validation")
    wall.end()
    assert parts == [
        ("epoch start", 0.0, 5.0),
        ("epoch start", 5.0, 7.0),
        ("steps", 5.0, 8.0),
        ("validation", 8.0, 20.0),
    ]
    assert (wall.spent_s("epoch start"), wall.spent_s("steps")) == (7.0, 1.0)


def test_tracing_for_another_shape_or_a_new_step_function_is_no_computation_and_counts_once():
    moments = iter([0.0, 10.0])
    wall = WallTime("first step", now=lambda: next(moments))
    wall.note_tracing(0.5)  # part of the first step
    wall.switch("steps", 2.0)
    wall.note_tracing(1.5)
    parts = wall.breakdown(inside_s=8.0, wait_s=1.0, until_s=10.0)
    assert (parts.tracing_s, parts.tracings, parts.tracings_of_shapes) == (1.5, 1, 1)
    assert parts.compute_s == 8.0 - 1.5 - 1.0
    moments = iter([0.0, 10.0])
    wall = WallTime("first step", now=lambda: next(moments))
    wall.switch("steps", 2.0)  # the first call of an epoch
    wall.note_tracing(1.5)
    wall.add_tracing(2.0)  # all of that call
    parts = wall.breakdown(inside_s=8.0, wait_s=1.0, until_s=10.0)
    assert (parts.tracing_s, parts.tracings, parts.tracings_of_shapes) == (2.0, 1, 0)
