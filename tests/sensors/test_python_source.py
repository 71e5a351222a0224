"""The user's own Python code that makes batches: found, named and timed next to its queue."""

from __future__ import annotations

from helpers.training import SlowPyDataset, fast_dataset, input_of, slow_generator


def test_a_generator_is_named_and_not_timed_processes_are_out_of_sight_and_a_dataset_has_none():
    source = input_of(slow_generator(10, 0.01)).python
    assert source.name == "slow_generator"
    assert source.workers == 1
    assert source.busy_workers is None
    assert source.time_per_batch_s is None
    source = input_of(SlowPyDataset(10, 0.01, workers=2, use_multiprocessing=True)).python
    assert source.in_processes
    assert source.busy_workers is None
    assert input_of(fast_dataset(5)).python is None


def test_the_stage_and_the_code_carry_the_same_name():
    record = input_of(SlowPyDataset(40, 0.02))
    stage = record.pipeline.bottleneck
    assert (stage.name, stage.location) == (record.python.name, record.python.location)
    assert stage.work == "python"
