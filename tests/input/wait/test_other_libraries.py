"""Grain datasets and PyTorch loaders: the user's code is named, measured and advised on."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.training import sensitive_model, small_model

import keras_gpukit as gpukit
from keras_gpukit.input.pipelines.generators import python_source
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.advice import advice_for

BATCH, BATCHES, SLEEP_S = 8, 12, 0.004


def example(number) -> tuple[np.ndarray, np.ndarray]:
    return np.full(8, number % 7, "float32"), np.full(1, number % 2, "float32")


def slow(given):
    time.sleep(SLEEP_S)
    return given


def line_of(function) -> str:
    return f"test_other_libraries.py:{function.__code__.co_firstlineno}"


def on_cores(count) -> RunSummary:
    return RunSummary(Environment({}, cpu_count=count))


def record_of(dataset, **fit_options):
    callback = gpukit.InputStall(None)
    small_model().fit(dataset, verbose=0, callbacks=[callback], **fit_options)
    return callback.summary


def loader_of(operations, **options):
    grain = pytest.importorskip("grain")
    return grain.DataLoader(
        data_source=[example(i) for i in range(BATCH * BATCHES)],
        sampler=grain.samplers.SequentialSampler(BATCH * BATCHES, grain.sharding.NoSharding()),
        operations=[*operations, grain.transforms.Batch(BATCH, drop_remainder=True)],
        **options,
    )


def source_of(**adapter):
    return python_source(SimpleNamespace(data_adapter=SimpleNamespace(**adapter)))


def test_a_slow_operation_of_a_grain_loader_is_the_bottleneck():
    grain = pytest.importorskip("grain")

    class Augment(grain.transforms.Map):
        def map(self, given):
            return slow(given)

    record = record_of(loader_of([Augment()]), epochs=2)
    stage = record.pipeline.bottleneck
    assert (stage.name.rpartition(".<locals>.")[2], stage.kind) == (
        "Augment.map",
        "IterDataset.map",
    )
    assert stage.location == line_of(Augment.map)
    assert BATCH * SLEEP_S <= stage.cost_per_batch_s < 3 * BATCH * SLEEP_S
    assert record.python.library == "Grain DataLoader"
    first, *_ = advice_for(record, on_cores(8))
    assert first.text.startswith("grain.DataLoader(..., worker_count=4)")


def test_the_threads_of_a_grain_dataset_share_its_stages():
    grain = pytest.importorskip("grain")
    numbers = grain.MapDataset.range(BATCH * BATCHES).map(slow).map(example)
    dataset = numbers.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=2))
    record = record_of(dataset.batch(BATCH))
    stage = record.pipeline.bottleneck
    assert (stage.name, stage.kind, stage.parallelism) == ("slow", "MapDataset.map", 2)
    assert stage.location == line_of(slow)
    # Both threads' time, of which training waits for half.
    assert BATCH * SLEEP_S <= stage.cost_per_batch_s < 3 * BATCH * SLEEP_S
    assert record.pipeline.slowest_s == pytest.approx(stage.cost_per_batch_s / 2, rel=0.2)
    # The user's dataset outlives the run, and Grain does not go on timing it.
    assert not hasattr(numbers._stats, "_self_times_buffer")


def test_what_runs_after_the_threads_of_grain_is_told_from_what_they_run():
    grain = pytest.importorskip("grain")
    dataset = grain.MapDataset.range(BATCH * BATCHES).map(example).to_iter_dataset().map(slow)
    stage = record_of(dataset.batch(BATCH)).pipeline.bottleneck
    assert (stage.name, stage.kind, stage.parallelism) == ("slow", "IterDataset.map", 1)


def test_worker_processes_of_grain_are_named_and_not_advised_again():
    grain = pytest.importorskip("grain")
    options = grain.MultiprocessingOptions(num_workers=2)
    source = source_of(
        _dataset=grain.MapDataset.range(8).map(slow).batch(4).to_iter_dataset().mp_prefetch(options)
    )
    record = source.record(None, None, None)
    assert (record.name, record.workers, record.in_processes) == ("slow", 2, True)
    advice = advice_for(SimpleNamespace(python=record, pipeline=None, contention=None), on_cores(2))
    assert advice
    assert not any("mp_prefetch" in each.text for each in advice)


def test_a_timed_grain_dataset_gives_the_same_batches():
    pytest.importorskip("grain")
    losses = [
        sensitive_model().fit(loader_of([]), epochs=2, verbose=0, callbacks=callbacks).history
        for callbacks in ([], [gpukit.InputStall(None)])
    ]
    assert losses[0] == losses[1]


def photographs(torch, **methods):
    made = {"__len__": lambda _: BATCH * BATCHES, "__getitem__": lambda _, i: example(i), **methods}
    return type("Photographs", (torch.utils.data.Dataset,), made)()


def test_the_dataset_of_a_torch_loader_is_named_and_timed():
    torch = pytest.importorskip("torch")

    def fetch(self, index):
        return slow(example(index))

    loader = torch.utils.data.DataLoader(photographs(torch, __getitem__=fetch), batch_size=BATCH)
    record = record_of(loader)
    stage = record.pipeline.bottleneck
    assert (stage.name, stage.location) == (record.python.name, line_of(fetch))
    assert BATCH * SLEEP_S <= stage.cost_per_batch_s < 3 * BATCH * SLEEP_S
    first, *others = advice_for(record, on_cores(8))
    assert "num_workers=4, persistent_workers=True" in first.text
    assert not any("persistent_workers" in each.text for each in others)


def test_transforms_and_collate_fn_of_a_torch_loader_count_for_themselves():
    torch = pytest.importorskip("torch")
    dataset = photographs(torch)
    dataset.transform = type("Compose", (), {"__call__": lambda self, x: x, "transforms": [slow]})()
    loader = torch.utils.data.DataLoader(dataset, collate_fn=lambda rows: rows)
    source = source_of(_dataloader=loader)
    fetch, transform, collate = source.parts
    assert transform.location == line_of(slow)
    assert source.record(transform.code, 1.0, 0.01).name == "slow"
    assert source.record(collate.code, 1.0, 0.01).name.startswith("lambda at")
    assert source.record(None, None, None).location == fetch.location


def test_processes_of_a_torch_loader_are_known():
    torch = pytest.importorskip("torch")

    def source(**options):
        loader = torch.utils.data.DataLoader(photographs(torch), num_workers=2, **options)
        return source_of(_dataloader=loader).record(None, None, None)

    assert (source().workers, source().in_processes, source().restarts_workers) == (2, True, True)
    assert not source(persistent_workers=True).restarts_workers
