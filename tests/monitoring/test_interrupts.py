"""An interrupt at any line of a measurement leaves what was measured before it, or all of it."""

import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from helpers.processes import wait_for
from interrupts import InterruptAt

from keras_gpukit.input.wait.calls import CallTimes
from keras_gpukit.input.wait.meters import PipelineStart
from keras_gpukit.input.wait.totals import StepTotals, WaitHistogram
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.input.wait.watch import PipelineWatch
from keras_gpukit.monitoring import call_frame
from keras_gpukit.monitoring.call_frame import CallFrame
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records import EpochMemory, GPUSample, HostSample, StepWindow
from keras_gpukit.saved_runs.folding import RunFold
from keras_gpukit.sensors.interpreter import NewThreadsSensor, ThreadTimes
from keras_gpukit.sensors.other_processes import OtherProcessesSensor


def interrupted(make, change):
    """Yields what `make` returned after `change` was interrupted at one line, for each line."""
    for line in range(1000):
        made = make()
        try:
            with InterruptAt(line):
                change(made)
        except KeyboardInterrupt:
            yield made
        else:
            assert line > 1
            return


def after(changes, make, change):
    """Returns a function that makes an object and changes it some times."""

    def made():
        state = make()
        for number in range(changes):
            change(state, number)
        return state

    return made


def add_records(fold, number):
    reasons = ("software power cap",) if number % 2 else ()
    records = {
        "epoch": EpochMemory(number, number, 10, 5 if number % 2 else None, {"GPU:0": number}),
        "host": HostSample(10.0 + number, 5.0, 100 * number, 7, 9, None),
        "gpu": GPUSample(0, 40.0 + number, power_watts=100.0, throttle_reasons=reasons),
        "steps": StepWindow("fit", 1.0 + number, number, 8, 0.4, 0.1, 64, 1.5, 0.01),
    }
    for kind, record in records.items():
        fold.add_record(kind, record, 1.0 + number, number)


def step_totals():
    return StepTotals("fit", 1, lambda record: replace(record, measured_steps=8))


def add_window(totals, number):
    totals.begin_epoch()
    totals.add_window(StepWindow("fit", 1.0, number, 8, 0.4, 0.1, 64, 1.5, 0.01))


def turn(wall, number):
    wall.switch("steps" if number % 2 else "epoch start", 10.0 + number)


def move(wall, number):
    turn(wall, number)
    wall.add_epoch_wait(0.25, 10.0)


def trace(wall, number):
    wall.set_apart(1.0)
    wall.add_tracing(0.5)


def new_threads():
    clock = iter(range(1000)).__next__
    return NewThreadsSensor(
        threads=lambda: {1: ThreadTimes(0.0)},
        process_s=lambda: 0.5 * clock(),
        now=lambda: 2.0 * clock(),
    )


def wall_time():
    return WallTime("callbacks", now=lambda: 10.0)


WHOLE = {
    "windows": (step_totals, add_window, lambda made: made.step_time_s),
    "pipeline starts": (
        step_totals,
        lambda made, number: made.add_start(PipelineStart(1.0 + number, 0.5)),
        lambda made: made.input(None, None).pipeline_start,
    ),
    "parts of the time": (wall_time, turn, lambda made: (made.part, made.breakdown(9.0, 0.0))),
    "processor time of threads": (
        new_threads,
        lambda sensor, number: sensor.read_times(in_steps=True),
        lambda sensor: sensor.cores(),
    ),
}


@pytest.mark.parametrize("changes", [0, 1, 2, 4, 6])
@pytest.mark.parametrize(("make", "change", "record"), WHOLE.values(), ids=WHOLE)
def test_a_record_is_that_of_before_or_of_after(make, change, record, changes):
    before = record(after(changes, make, change)())
    done = record(after(changes + 1, make, change)())
    for made in interrupted(after(changes, make, change), lambda made: change(made, changes)):
        assert record(made) in (before, done)


SUMMED_UP = {
    # Interrupted on its way out of a `with` block, Python leaves a lock as it is.
    "stages": (
        PipelineWatch,
        lambda made, _: made.pipeline_record(None),
        lambda made: made.pipeline_record(None),
    ),
    "records": (lambda: RunFold(4), add_records, lambda made: made.summary()),
    "input": (step_totals, add_window, lambda made: made.input(None, None)),
    "waits": (
        lambda: WaitHistogram(1),
        lambda made, number: made.add_waits(np.array([0.1, 0.0, 0.2]), np.array([0.2, 0.2, 0.4])),
        lambda made: made.distribution(),
    ),
    "waits for first batches": (wall_time, move, lambda made: made.breakdown(9.0, 0.0)),
    "tracings": (wall_time, trace, lambda made: made.breakdown(9.0, 0.0)),
    "ends": (wall_time, lambda made, number: made.end(), lambda made: made.breakdown(9.0, 0.0)),
}


@pytest.mark.parametrize("changes", [0, 1, 12])
@pytest.mark.parametrize(("make", "change", "record"), SUMMED_UP.values(), ids=SUMMED_UP)
def test_a_record_of_several_parts_never_raises(make, change, record, changes):
    for made in interrupted(after(changes, make, change), lambda made: change(made, changes)):
        record(made)
        change(made, changes + 1)
        record(made)


def test_the_use_by_children_is_unknown_until_the_second_look(monkeypatch):
    monkeypatch.setattr(psutil, "process_iter", lambda attributes: [])
    for sensor in interrupted(OtherProcessesSensor, OtherProcessesSensor.poll):
        assert sensor.children_percent() is None


@pytest.mark.parametrize("but", [0, 1])
def test_no_step_is_counted_twice(but):
    def three_calls():
        calls = CallTimes()
        calls.times_s, calls.before = [0.0, 1.0, 2.0, 3.0], 1
        return calls

    for calls in interrupted(three_calls, lambda calls: calls.drop(but=but)):
        assert calls.count == 3
        inside_s = sum(calls.times_s[1::2]) - sum(calls.times_s[::2])
        assert calls.inside_s + inside_s == 2.0


def test_a_function_that_was_restored_was_not_replaced_by_others():
    def wrapped():
        attribute = ReplacedAttribute(SimpleNamespace(step=len), "step")
        attribute.replace(lambda batch: len(batch))
        return attribute

    for attribute in interrupted(wrapped, ReplacedAttribute.restore):
        assert attribute.restore() == "restored"
        assert attribute.current is len
        assert not attribute.is_replaced


def test_a_stack_that_a_generator_cut_while_it_was_read_ends_no_call(monkeypatch):
    """As Python ends it where the generator that it was read in has paused meanwhile."""
    left, frames = threading.Event(), []

    def fit():
        frames.append(CallFrame("fit"))
        left.wait()

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    wait_for(lambda: frames)
    [frame] = frames
    paused = (each for each in "a")
    monkeypatch.setattr(call_frame, "stack_of_thread", lambda thread: [paused.gi_frame])
    assert not frame.over
    monkeypatch.setattr(call_frame, "stack_of_thread", lambda thread: [sys._getframe()])
    assert frame.over
    monkeypatch.undo()
    assert not frame.over
    left.set()
    thread.join()
    assert frame.over
