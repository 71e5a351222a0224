"""Which of XLA's compilations count as compiling a step again, on a clock of the test's own."""

import pytest

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
        self.wall.turn(part)
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
    process.wall.turn("other")
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert parts.compilations == 4 + 2 + 2
    assert parts.compiling_s == parts.tracing_s == pytest.approx(4.0)
    assert parts.compute_s == pytest.approx(18.0 - 3.0)
    assert parts.validation_s == pytest.approx(20.0 - 1.0)
    assert sum(parts.parts.values()) == pytest.approx(60.0)
    process.wall.end()
    process.programs += 1
    assert process.wall.breakdown(process.inside_s, 0.0).compilations == 8


def test_a_step_function_made_again_is_counted_with_what_was_compiled_for_it():
    process = Process()
    process.spend("first step", 1)
    process.spend("steps", 1)
    process.wall.add_tracing(3.0)
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert (parts.tracings, parts.tracing_s, parts.compilations) == (1, 3.0, 0)


def test_compilations_are_unknown_without_counters():
    process = Process()
    process.wall = WallTime("steps", now=lambda: process.now_s, compiled=lambda: None)
    process.spend("steps", 3)
    parts = process.wall.breakdown(process.inside_s, 0.0)
    assert (parts.compilations, parts.compiling_s, parts.tracing_s) == (None, None, 0.0)
