"""Which processor time counts as that of making batches."""

from __future__ import annotations

import threading
import time

import pytest

from keras_gpukit.sensors.compilations import Compilations
from keras_gpukit.sensors.interpreter import NewThreadsSensor, ThreadTimes


class Process:
    """Two threads that are there from the start, and what else the process uses."""

    def __init__(self, names=None) -> None:
        self.now_s = 100.0
        self.compiled = Compilations(1, 1.0)
        self.process_s = 3.0
        self.threads = {1: ThreadTimes(2.0), 2: ThreadTimes(1.0)}
        self.sensor = NewThreadsSensor(
            threads=lambda: self.threads,
            process_s=lambda: self.process_s,
            now=lambda: self.now_s,
            name=lambda thread: (names or {}).get(thread, ""),
            compiled=lambda: self.compiled,
        )

    def run(self, old_s: float, new_s: float, in_steps: bool = True) -> None:
        """A second in which a first thread and new ones use so much, and then a reading."""
        self.now_s += 1.0
        self.threads = {**self.threads, 1: ThreadTimes(self.threads[1].computed_s + old_s)}
        self.process_s += old_s + new_s
        self.sensor.read_times(in_steps=in_steps)


def test_threads_that_were_there_do_not_count_and_new_ones_do_even_if_they_ended():
    process = Process()
    process.run(0.9, 0.1)
    for _ in range(3):
        process.run(0.9, 0.5)
    assert process.sensor.cores() == pytest.approx(0.5)


def test_only_time_between_two_readings_within_steps_counts_and_a_short_time_says_nothing():
    process = Process()
    for new_s, in_steps in [(0.5, True), (0.5, True), (9.0, False), (9.0, True), (0.5, True)]:
        process.run(0.1, new_s, in_steps)
    assert process.sensor.cores() == pytest.approx(0.5)
    process = Process()
    process.run(0.1, 0.5)
    process.run(0.1, 0.5)
    assert process.sensor.cores() is None


def test_threads_that_xla_starts_for_the_steps_do_not_count():
    process = Process(names={3: "tf_XLAEigen\n", 4: "tf_data_map\n"})
    process.run(0.1, 0.0)
    for number in range(1, 4):
        times = {3: ThreadTimes(0.6 * number), 4: ThreadTimes(0.3 * number)}
        process.threads = {**process.threads, **times}
        process.run(0.1, 0.9)
    assert process.sensor.cores() == pytest.approx(0.3)


def test_time_in_which_xla_compiled_does_not_count():
    process = Process()
    process.run(0.1, 0.5)
    for number in range(9):
        process.compiled = Compilations(2 + number // 3, 1.0)
        process.run(0.1, 0.5 if number % 3 else 5.0)
    assert process.sensor.cores() == pytest.approx(0.5)


def test_how_long_new_threads_waited_for_a_core_counts_until_they_ended():
    process = Process()
    for times in [{3: ThreadTimes(0.2, 0.3)}, {3: ThreadTimes(0.4, 0.7), 4: ThreadTimes(0.1, 0.0)}]:
        process.threads = {1: ThreadTimes(2.0, 9.0), 2: ThreadTimes(1.0, 9.0), **times}
        process.run(0.0, 0.3)
    process.threads = {1: ThreadTimes(2.0, 9.0)}
    process.run(0.0, 0.0)
    assert process.sensor.queued_ratio() == pytest.approx(0.7 / 0.5)
    process.threads |= {5: ThreadTimes(0.1)}
    process.run(0.0, 0.1)
    assert process.sensor.queued_ratio() is None


def test_a_real_thread_counts_after_it_ended():
    sensor = NewThreadsSensor(now=iter([0.0, 2.0]).__next__, compiled=lambda: None)
    sensor.read_times(in_steps=True)

    def compute():
        until_s = time.thread_time() + 0.2
        while time.thread_time() < until_s:
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    sensor.read_times(in_steps=True)
    assert sensor.cores() == pytest.approx(0.1, abs=0.03)
