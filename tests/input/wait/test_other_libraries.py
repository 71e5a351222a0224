"""Grain datasets and PyTorch loaders: the user's code is named, measured and advised on."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.training import input_of

from keras_gpukit.input.pipelines.generators import python_source
from keras_gpukit.records import Environment, RunSummary
from keras_gpukit.rules.input.advice import advice_for

BATCH, BATCHES, SLEEP_S = 8, 12, 0.004


def example(number) -> tuple[np.ndarray, np.ndarray]:
    return np.full(8, number % 7, "float32"), np.full(1, number % 2, "float32")


def slow(given):
    time.sleep(SLEEP_S)
    return given


def line_of(function) -> str:
    return f"tests/input/wait/test_other_libraries.py:{function.__code__.co_firstlineno}"


def on_cores(count) -> RunSummary:
    return RunSummary(Environment({}, cpu_count=count))


@pytest.fixture
def record_of(monkeypatch):
    """Trains on a dataset, and looks at its code often."""
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.02)
    return input_of


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


def test_a_slow_operation_of_a_grain_loader_is_the_bottleneck(record_of):
    grain = pytest.importorskip("grain")

    class Augment(grain.transforms.Map):
        def map(self, given):
            return slow(given)

    record = record_of(loader_of([Augment()]), epochs=3)
    stage = record.pipeline.bottleneck
    assert (stage.name.rpartition(".<locals>.")[2], stage.kind) == (
        "Augment.map",
        "IterDataset.map",
    )
    assert stage.location == line_of(Augment.map)
    assert stage.cost_per_batch_s > 0
    assert record.python.library == "Grain DataLoader"
    first, *_ = advice_for(record, on_cores(8))
    assert first.text.startswith("grain.DataLoader(..., worker_count=4)")


def test_what_the_threads_of_grain_run_is_told_from_what_comes_after(record_of):
    grain = pytest.importorskip("grain")
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=2)
    numbers = grain.MapDataset.range(BATCH * BATCHES)
    threads = numbers.map(slow).map(example).to_iter_dataset(options).batch(BATCH)
    alone = numbers.map(example).to_iter_dataset().map(slow).batch(BATCH)
    for dataset, kind, parallelism in (
        (threads, "MapDataset.map", 2),
        (alone, "IterDataset.map", 1),
    ):
        stage = record_of(dataset, epochs=3).pipeline.bottleneck
        assert (stage.name, stage.kind, stage.parallelism) == ("slow", kind, parallelism)
        assert stage.location == line_of(slow)


def test_worker_processes_of_grain_are_named_and_not_advised_again():
    grain = pytest.importorskip("grain")
    options = grain.MultiprocessingOptions(num_workers=2)
    source = source_of(
        _dataset=grain.MapDataset.range(8).map(slow).batch(4).to_iter_dataset().mp_prefetch(options)
    )
    record = source.python_record(None, None, None)
    assert (record.name, record.workers, record.in_processes) == ("slow", 2, True)
    advice = advice_for(SimpleNamespace(python=record, pipeline=None, contention=None), on_cores(2))
    assert advice
    assert not any("mp_prefetch" in each.text for each in advice)


def photographs(torch, **methods):
    made = {"__len__": lambda _: BATCH * BATCHES, "__getitem__": lambda _, i: example(i), **methods}
    return type("Photographs", (torch.utils.data.Dataset,), made)()


def test_the_dataset_of_a_torch_loader_is_named_and_timed(record_of):
    torch = pytest.importorskip("torch")

    def fetch(self, index):
        return slow(example(index))

    loader = torch.utils.data.DataLoader(photographs(torch, __getitem__=fetch), batch_size=BATCH)
    record = record_of(loader)
    stage = record.pipeline.bottleneck
    assert (stage.name, stage.location) == (record.python.name, line_of(fetch))
    assert stage.cost_per_batch_s > 0
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
    assert source.python_record(transform.code, 1.0, 0.01).name == "slow"
    assert source.python_record(collate.code, 1.0, 0.01).name.startswith("lambda at")
    assert source.python_record(None, None, None).location == fetch.location


def test_processes_of_a_torch_loader_are_known():
    torch = pytest.importorskip("torch")

    def source(**options):
        loader = torch.utils.data.DataLoader(photographs(torch), num_workers=2, **options)
        return source_of(_dataloader=loader).python_record(None, None, None)

    assert (source().workers, source().in_processes, source().restarts_workers) == (2, True, True)
    assert not source(persistent_workers=True).restarts_workers
