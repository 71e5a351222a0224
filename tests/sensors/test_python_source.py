"""The user's own Python code that makes batches: found, named and timed next to its queue."""

from __future__ import annotations

import keras
from helpers.training import (
    SlowPyDataset,
    fast_dataset,
    slow_generator,
    small_model,
)

import keras_gpukit as gpukit


def source_of(data, **fit_options):
    callback = gpukit.InputStall(None)
    small_model().fit(data, verbose=0, callbacks=[callback], **fit_options)
    return callback.summary.python


def test_a_generator_is_named_and_a_short_run_not_timed():
    source = source_of(slow_generator(10, 0.01))
    assert source.name == "slow_generator"
    assert source.workers == 1
    assert source.busy_workers is None
    assert source.time_per_batch_s is None


def test_processes_are_out_of_sight():
    source = source_of(SlowPyDataset(10, 0.01, workers=2, use_multiprocessing=True))
    assert source.in_processes
    assert source.busy_workers is None


def test_a_dataset_has_no_python_code_behind_it():
    assert source_of(fast_dataset(5)) is None


def test_the_stage_and_the_code_carry_the_same_name():
    callback = gpukit.InputStall(None)
    small_model().fit(
        SlowPyDataset(40, 0.02), verbose=0, callbacks=[callback, keras.callbacks.Callback()]
    )
    stage = callback.summary.pipeline.bottleneck
    assert (stage.name, stage.location) == (
        callback.summary.python.name,
        callback.summary.python.location,
    )
    assert stage.work == "python"
