"""What every callback does alike, and what `Monitor` makes of them."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import keras
import pytest
from helpers.training import (
    SlowPyDataset,
    fast_dataset,
    slow_dataset,
    slow_generator,
    small_model,
    without_autotuning,
)

import keras_gpukit as gpukit
from keras_gpukit.records.codec import SCHEMA, from_dict, to_dict
from keras_gpukit.records.machine import MemoryRecord, UtilizationRecord
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, ThroughputRecord

pytestmark = pytest.mark.usefixtures("undisturbed")

RECORDS = {
    gpukit.InputStall: InputRecord,
    gpukit.GPUMemory: MemoryRecord,
    gpukit.DevicePlacement: PlacementRecord,
    gpukit.Utilization: UtilizationRecord,
    gpukit.Throughput: ThroughputRecord,
    gpukit.Monitor: RunSummary,
}
EVERY = pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)


def records_in(log_dir):
    lines = (log_dir / "gpukit" / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@EVERY
def test_each_has_a_record_after_fit_evaluate_and_predict(kind, tmp_path):
    model, callback = small_model(), kind(tmp_path)
    assert callback.summary is None
    data = fast_dataset(5)
    for run in (model.fit, model.evaluate, model.predict, model.fit):
        run(data, callbacks=[callback], verbose=0)
        assert isinstance(callback.summary, RECORDS[kind])
        record = to_dict(callback.summary)
        assert to_dict(from_dict(record, RECORDS[kind])) == record


@EVERY
def test_each_has_a_record_at_once_after_a_fit_that_failed(kind):
    def fail(batch, logs):
        if batch == 3:
            raise RuntimeError("theirs")

    callback = kind(None)
    theirs = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(RuntimeError, match="theirs"):
        small_model().fit(fast_dataset(5), callbacks=[callback, theirs], verbose=0)
    assert isinstance(callback.summary, RECORDS[kind])


@EVERY
def test_each_writes_nothing_where_no_log_directory_is_given(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_model().fit(fast_dataset(3), callbacks=[kind(None)], verbose=0)
    assert list(tmp_path.iterdir()) == []


@EVERY
def test_each_takes_no_positional_argument_past_the_log_directory(kind):
    with pytest.raises(TypeError, match="positional"):
        kind(None, 1)


@EVERY
@pytest.mark.parametrize(
    ("log_dir", "error"),
    [(3, TypeError), (b"logs", TypeError), ("", ValueError), (True, TypeError)],
)
def test_each_refuses_a_bad_log_directory(kind, log_dir, error):
    with pytest.raises(error, match=r"`log_dir` must be .* Received: log_dir="):
        kind(log_dir)


@EVERY
def test_each_refuses_a_file_as_log_directory(kind, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        kind(tmp_path / "file")


@pytest.mark.parametrize("verbose", [3, -1, "yes", None, 1.5, [1]])
def test_monitor_refuses_a_bad_verbose(verbose):
    with pytest.raises((TypeError, ValueError), match=r"`verbose` must be .* Received: verbose="):
        gpukit.Monitor(None, verbose=verbose)


@pytest.mark.parametrize("reset_peak", [1, None, "no"])
def test_memory_refuses_a_bad_reset_peak(reset_peak):
    with pytest.raises(TypeError, match=r"`reset_peak` must be .* Received: reset_peak="):
        gpukit.GPUMemory(None, reset_peak=reset_peak)


def test_callbacks_side_by_side_share_one_run(tmp_path):
    callbacks = [gpukit.InputStall(tmp_path), gpukit.Throughput(tmp_path)]
    small_model().fit(fast_dataset(40), epochs=2, callbacks=callbacks, verbose=0)
    kinds = [line["kind"] for line in records_in(tmp_path)]
    assert kinds.count("run") == 1
    assert len(list((tmp_path / "gpukit").glob("events*"))) == 1
    windows = [line["record"] for line in records_in(tmp_path) if line["kind"] == "steps"]
    assert sum(window["steps"] for window in windows) == 2 * 38


def test_callbacks_may_log_to_different_folders(tmp_path):
    callbacks = [gpukit.InputStall(tmp_path / "a"), gpukit.Throughput(tmp_path / "b")]
    model = small_model()
    model.make_train_function()
    before = model.train_function
    model.fit(fast_dataset(10), epochs=2, callbacks=callbacks, verbose=0)
    assert model.train_function is before
    assert callbacks[0].summary.measured_steps == callbacks[1].summary.measured_steps == 16
    for folder in "ab":
        assert records_in(tmp_path / folder)[0]["kind"] == "run"


@pytest.mark.parametrize(
    "data",
    [
        lambda: fast_dataset(5),
        lambda: SlowPyDataset(5, 0.0),
        lambda: SlowPyDataset(5, 0.0, workers=2),
        lambda: slow_generator(5, 0.0),
        lambda: without_autotuning(fast_dataset(5)),
    ],
    ids=["tf.data", "PyDataset", "PyDataset, two workers", "generator", "tf.data, not tuned"],
)
def test_monitor_measures_every_kind_of_input(data, tmp_path, caplog):
    monitor = gpukit.Monitor(tmp_path)
    small_model().fit(data(), validation_data=data(), callbacks=[monitor], verbose=0)
    summary = monitor.summary
    assert [each for each in caplog.records if each.name == "keras_gpukit"] == []
    last = records_in(tmp_path)[-1]
    assert from_dict(last["record"], RunSummary) == summary
    assert summary.steps == 5
    assert summary.step_time_s > 0
    assert summary.examples_per_s > 0
    assert 0 <= summary.input_wait_s <= summary.step_time_s
    assert 0 <= summary.input_stall_fraction <= 1
    assert summary.memory_peak_bytes == {}
    assert summary.placement["CPU:0"] > 10
    assert summary.overhead_s > 0
    assert {finding.code for finding in summary.findings} >= {"no-gpu"}


def test_the_record_holds_the_run(tmp_path):
    monitor = gpukit.Monitor(tmp_path)
    small_model().fit(fast_dataset(10), callbacks=[monitor], verbose=0)
    lines = records_in(tmp_path)
    assert lines[0]["kind"] == "run"
    assert lines[0]["record"]["schema"] == SCHEMA
    by_kind = {line["kind"]: line["record"] for line in lines}
    assert from_dict(by_kind["summary"], RunSummary) == monitor.summary
    assert by_kind["environment"]["versions"]["keras"] == keras.__version__


def test_the_verdict_is_printed_at_the_end_of_fit(tmp_path, capsys):
    data = slow_dataset(20, 0.02)
    small_model().fit(data, callbacks=[gpukit.Monitor(tmp_path)], verbose=2)
    printed = capsys.readouterr().out
    assert "input-bound" in printed
    assert printed.index("loss") < printed.index("input-bound") < printed.index("gpukit report")
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize(
    ("verbose", "fit_verbose", "prints"),
    [("auto", 0, False), (0, 2, False), (1, 0, True), ("auto", 2, True)],
)
def test_who_wants_no_verdict_gets_none(tmp_path, capsys, verbose, fit_verbose, prints):
    monitor = gpukit.Monitor(tmp_path, verbose=verbose)
    small_model().fit(fast_dataset(4), callbacks=[monitor], verbose=fit_verbose)
    assert ("keras_gpukit" in capsys.readouterr().out) is prints


def test_the_global_step_goes_on_over_fits(tmp_path):
    model, monitor = small_model(), gpukit.Monitor(tmp_path)
    for _ in range(2):
        model.fit(fast_dataset(10), callbacks=[monitor], verbose=0)
    steps = [line["record"]["step"] for line in records_in(tmp_path) if line["kind"] == "steps"]
    assert steps == sorted(steps)
    assert steps[0] <= 10 < steps[-1] <= 20


def test_placement_is_that_of_the_training_step():
    callback = gpukit.DevicePlacement(None)
    model = small_model()
    model.fit(fast_dataset(3), callbacks=[callback], verbose=0)
    operations = callback.summary.operations["CPU:0"]
    assert any("MatMul" in operation for operation in operations)
    model.fit(fast_dataset(3), callbacks=[callback], verbose=0)
    assert callback.summary.operations["CPU:0"] == operations
    model.evaluate(fast_dataset(3), callbacks=[callback], verbose=0)
    assert callback.summary.unknown_because


def test_utilization_reads_this_host():
    callback = gpukit.Utilization(None)
    small_model().fit(slow_dataset(60, 0.02), callbacks=[callback], verbose=0)
    record = callback.summary
    assert record.samples >= 1
    assert record.gpus == ()
    assert 0 <= record.host.cpu_percent <= 100
    assert 0 < record.host.memory_max_bytes < record.host.memory_total_bytes


def test_a_share_of_the_cores_is_not_told_of_less_than_a_tenth_of_a_second():
    monitor, model = gpukit.Monitor(None, verbose=0), small_model()
    for batches in (3, 3, 15):  # the first one traces
        model.fit(slow_dataset(batches, 0.01), callbacks=[monitor], verbose=0)
        summary = monitor.summary
        assert (summary.host is not None) == (summary.throughput.wall_s >= 0.1)
    assert summary.host is not None


def test_records_are_frozen():
    for record in RECORDS.values():
        assert dataclasses.fields(record)
        assert record.__dataclass_params__.frozen


def test_a_path_object_and_home_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monitor = gpukit.Monitor(pathlib.Path("~/logs"))
    small_model().fit(fast_dataset(3), callbacks=[monitor], verbose=0)
    assert (tmp_path / "logs" / "gpukit" / "run.jsonl").exists()


@pytest.mark.parametrize("remote", ["gs://bucket/logs", "memory://logs"])
def test_a_remote_log_dir_is_refused_with_the_reason_and_makes_no_folder(
    remote, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"on a file system, since .* mount the bucket"):
        gpukit.Throughput(remote)
    assert list(tmp_path.iterdir()) == []
