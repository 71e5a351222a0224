"""Profiles of real pipelines: what they show of the input, and what was measured live."""

from __future__ import annotations

import pytest
from helpers.training import sleeping_model, slow_dataset, small_model
from profiling.test_automatic_captures import captured, fitted, on_a_gpu  # noqa: F401
from xprof_figures import ask_xprof

import keras_gpukit as gpukit
from keras_gpukit.profiling import read_profile

pytestmark = pytest.mark.usefixtures("undisturbed")


@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_a_capture_shows_the_stall_that_was_measured_of_the_same_steps(
    tmp_path, steps_per_execution
):
    """Of the same ten steps, however long they took: only what ran between two clocks differs."""
    model = small_model(steps_per_execution=steps_per_execution)
    [record] = captured(fitted(tmp_path, batches=300, model=model))
    most = record.live_most_stall_fraction or record.live_stall_fraction
    assert record.live_stall_fraction - 0.15 <= record.stall_fraction <= most + 0.15


def test_a_profile_shows_how_long_steps_waited_and_xprof_agrees(tmp_path):
    """A batch comes each 80 ms, of which a step sleeps for 20: the other 60 are a wait.

    Steps that take 20 ms longer would wait for half of their time. Both read the same profile.
    """
    profiler = gpukit.Profiler(tmp_path, at_steps=(8,), steps=10)
    model, data = sleeping_model(0.01), slow_dataset(30, 0.08)
    model.fit(data, callbacks=[profiler], verbose=0)
    path = tmp_path / profiler.summary.captures[0].path
    ours, theirs = read_profile(path), ask_xprof(path)
    assert 0.4 <= ours.stall_fraction <= 0.9
    assert 0.07 <= ours.step_time_s <= 0.12
    assert theirs["input_fraction"] == pytest.approx(ours.stall_fraction, abs=0.1)
    assert ours.stages[0].kind == "Sleep"
