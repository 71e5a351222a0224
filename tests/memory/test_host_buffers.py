"""How many elements caches and shuffle buffers will hold, and what each takes, without a run."""

import re

import numpy as np
import pytest
import tensorflow as tf
from helpers.training import sleeping_model

import keras_gpukit as gpukit
from keras_gpukit.frameworks.tf_datasets import parse_model, read_model
from keras_gpukit.input.pipelines.host_buffers import TENSOR_BYTES, host_buffers
from keras_gpukit.input.wait.readings import measured_element_bytes
from keras_gpukit.saved_runs.log_folder import load_report

COUNT, FEATURES = 1000, 16
ELEMENT_BYTES = FEATURES * 4 + TENSOR_BYTES


def slices():
    return tf.data.Dataset.from_tensor_slices(np.zeros((COUNT, FEATURES), "float32"))


def double(x):
    return x * 2.0


def is_positive(x):
    return x[0] > 0


def doubled():
    return slices().map(double)


def only(dataset, **options):
    (buffer,) = host_buffers(dataset, **options)
    return buffer


def test_a_cache_holds_all_elements_or_batches():
    found = only(doubled().cache().batch(32))
    assert (found.name, found.kind) == ("cache() after double", "cache")
    assert (found.elements, found.element_bytes, found.per_step) == (COUNT, ELEMENT_BYTES, 32)
    assert found.unknown_because is None
    found = only(doubled().batch(50, drop_remainder=True).cache().prefetch(2))
    assert (found.elements, found.per_step) == (20, 1)
    assert found.element_bytes == 50 * FEATURES * 4 + TENSOR_BYTES


def test_a_cache_takes_what_fills_the_shuffle_after_it():
    dataset = doubled().cache().map(double)
    both = host_buffers(dataset.shuffle(100).batch(32))
    assert {each.kind: each.ahead for each in both} == {"cache": 100, "shuffle": 0}
    # In a short run, too.
    assert host_buffers(dataset.shuffle(300).batch(32), steps=5)[1].elements == 5 * 32 + 300


def test_a_shuffle_buffer_holds_its_size_or_all_there_is():
    found = only(doubled().shuffle(100).batch(32))
    assert (found.name, found.kind, found.elements) == ("shuffle(100)", "shuffle", 100)
    assert only(doubled().shuffle(5000).batch(32)).elements == COUNT
    assert only(doubled().repeat().shuffle(5000).batch(32)).elements == 5000
    # Each input of a zip is read.
    both = tf.data.Dataset.zip((doubled().cache(), doubled().shuffle(10))).batch(32)
    assert [each.name for each in host_buffers(both)] == ["cache() after double", "shuffle(10)"]


def test_no_more_is_counted_than_the_run_asks_for():
    assert only(doubled().cache().take(300).batch(32)).elements == 300
    assert only(doubled().cache().skip(200).take(300).batch(32)).elements == 500
    endless = doubled().repeat().cache().batch(32)
    assert only(endless, steps=50).elements == 1600
    assert only(endless).unknown_because == "the number of its elements is unknown"


@pytest.mark.parametrize(
    ("make", "counted"),
    [
        (lambda: doubled().cache("/tmp/none").batch(32), []),
        (lambda: doubled().cache().shuffle(100).batch(32), ["cache"]),
        (lambda: doubled().cache().shuffle(100).repeat().shuffle(9).batch(32), ["cache"]),
        (lambda: doubled().shuffle(100).cache().batch(32), ["cache"]),
        (lambda: doubled().batch(32).prefetch(2), []),
    ],
)
def test_what_takes_no_memory_of_its_own_is_left_out(make, counted):
    assert [each.kind for each in host_buffers(make())] == counted


def test_slices_of_arrays_are_in_memory_anyway():
    assert only(slices().cache().batch(32)).element_bytes == TENSOR_BYTES
    odd = tf.data.Dataset.from_tensor_slices(np.zeros((COUNT, 3), "float32"))
    assert only(odd.cache().batch(32)).element_bytes == 12 + TENSOR_BYTES


@pytest.mark.parametrize(
    ("dataset", "because"),
    [
        (lambda: doubled().filter(is_positive).cache(), "the number of its elements"),
        (lambda: doubled().map(tf.strings.as_string).cache(), "the size of its elements"),
        (lambda: doubled().padded_batch(32).cache(), "the size of its elements"),
    ],
)
def test_what_cannot_be_known_is_unknown(dataset, because):
    assert only(dataset()).unknown_because.startswith(because)
    assert only(doubled().cache().filter(is_positive).batch(32)).per_step is None


def test_what_shapes_do_not_tell_is_measured_by_tf_data():
    texts = tf.data.Dataset.range(COUNT).map(
        lambda number: tf.strings.reduce_join(tf.repeat("abc", 1000))
    )
    dataset = texts.cache().shuffle(10).map(tf.strings.upper).batch(32)
    iterator = iter(dataset)
    next(iterator)
    sizes = measured_element_bytes(parse_model(read_model(iterator)))
    (cache,) = host_buffers(dataset)
    assert sizes[cache.kind, cache.place] == pytest.approx(3000 + TENSOR_BYTES, rel=0.02)
    assert set(sizes) == {("cache", 0), ("shuffle", 0)}
    assert measured_element_bytes(None) == {}


def monitored(log_dir, model, change, **options):
    """A fit on examples that are made of numbers."""
    data = tf.data.Dataset.range(COUNT).map(lambda number: (tf.zeros((8,)), 0.0))
    monitor = gpukit.Monitor(log_dir, verbose=0)
    model.fit(change(data), verbose=0, callbacks=[monitor], **options)
    return monitor


@pytest.fixture
def asks(monkeypatch):
    """Looks at a pipeline soon, by a function that is given."""
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.02)
    place = "keras_gpukit.monitoring.run_so_far.host_buffers"
    return lambda function: monkeypatch.setattr(place, function)


def test_a_pipeline_is_asked_once_the_first_step_is_over_for_the_epochs_left(asks, tmp_path):
    """An operation on another thread during the first step would hide where operations ran."""
    model, asked = sleeping_model(0.1), []

    def noting(dataset, steps):
        asked.append((steps, int(model.optimizer.iterations.numpy()) >= 1))
        return host_buffers(dataset, steps)

    asks(noting)
    epochs = {"initial_epoch": 8, "epochs": 10, "steps_per_epoch": 4}
    monitor = monitored(
        tmp_path, model, lambda data: data.shuffle(100).batch(32).repeat(), **epochs
    )
    assert [each.elements for each in monitor.summary.host_buffers.buffers] == [100]
    assert asked == [(8, True)]


def test_a_pipeline_that_could_not_be_read_is_not_called_another_kind(asks, tmp_path):
    def fails(*arguments):
        raise AttributeError("number")

    asks(fails)
    monitor = monitored(tmp_path, sleeping_model(0.1), lambda data: data.batch(250))
    assert "could not be read" in monitor.summary.host_buffers.unknown_because


def test_a_run_is_warned_in_its_first_seconds(monkeypatch, tmp_path, caplog):
    """The host is said to have 20 kB left, and each step adds more than 8 kB to the cache."""
    monkeypatch.setattr("keras_gpukit.monitoring.run_so_far.left_bytes", lambda: 20_000)
    with caplog.at_level("WARNING", logger="keras_gpukit"):
        monitor = monitored(tmp_path, sleeping_model(0.1), lambda data: data.cache().batch(32))
    (warning,) = (each.getMessage() for each in caplog.records if each.name == "keras_gpukit")
    assert re.search(
        r"cache\(\) after lambda at [\w/]*test_host_buffers.py:\d+ runs out of host memory after "
        r"about \d+ % of the first epoch",
        warning,
    )
    record = monitor.summary.host_buffers
    assert (record.steps, record.missing_bytes) == (32, 0)
    assert "host-memory-runs-out" in monitor.summary.verdict.passed
    # Of a run that was killed after its first look, what it wrote until then is left.
    file = tmp_path / "gpukit" / "run.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    looks = [line for line in lines if '"host_buffers"' in line and '"summary"' not in line]
    others = [line for line in lines if '"host_buffers"' not in line]
    file.write_text("".join([*others, looks[0]]))
    summary = load_report(tmp_path).runs[0].summary
    (found,) = (each for each in summary.findings if each.code == "host-memory-runs-out")
    assert found.severity == "critical"
    assert "runs out of host memory after about" in found.title
