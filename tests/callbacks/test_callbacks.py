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
from keras_gpukit.records import (
    SCHEMA,
    InputRecord,
    MemoryRecord,
    PlacementRecord,
    RunSummary,
    ThroughputRecord,
    UtilizationRecord,
    from_dict,
    to_dict,
)

pytestmark = pytest.mark.usefixtures("undisturbed")

RECORDS = {
    gpukit.InputStall: InputRecord,
    gpukit.GPUMemory: MemoryRecord,
    gpukit.DevicePlacement: PlacementRecord,
    gpukit.Utilization: UtilizationRecord,
    gpukit.Throughput: ThroughputRecord,
    gpukit.Monitor: RunSummary,
}


def one_of_each(folder=None):
    return [kind(folder and folder / kind.__name__) for kind in RECORDS]


def records_in(log_dir):
    lines = (log_dir / "gpukit" / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_monitor_says_that_another_one_is_too_many(caplog, tmp_path):
    both = [gpukit.Profiler(tmp_path), gpukit.Monitor(None), gpukit.Monitor(None)]
    small_model().fit(fast_dataset(2), callbacks=both[1:], verbose=0)
    small_model().fit(fast_dataset(2), callbacks=both[:2], verbose=0)
    [said] = [each for each in caplog.messages if "callbacks has" in each]
    assert "callbacks has Monitor, Monitor. One Monitor measures all that they do" in said


def test_each_has_a_record_after_fit_evaluate_and_predict(tmp_path):
    model, callbacks = small_model(), one_of_each(tmp_path)
    assert all(callback.summary is None for callback in callbacks)
    data = fast_dataset(5)
    for run in (model.fit, model.evaluate, model.predict, model.fit):
        run(data, callbacks=callbacks, verbose=0)
        for callback, kind in zip(callbacks, RECORDS.values(), strict=True):
            assert isinstance(callback.summary, kind)
            record = to_dict(callback.summary)
            assert to_dict(from_dict(record, kind)) == record


def test_each_has_a_record_at_once_after_a_fit_that_failed():
    def fail(batch, logs):
        if batch == 3:
            raise RuntimeError("theirs")

    callbacks = one_of_each()
    theirs = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(RuntimeError, match="theirs"):
        small_model().fit(fast_dataset(5), callbacks=[*callbacks, theirs], verbose=0)
    for callback, kind in zip(callbacks, RECORDS.values(), strict=True):
        assert isinstance(callback.summary, kind)


def test_none_writes_anything_where_no_log_directory_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_model().fit(fast_dataset(3), callbacks=one_of_each(), verbose=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_each_refuses_wrong_arguments(kind, tmp_path):
    with pytest.raises(TypeError, match="positional"):
        kind(None, 1)
    for log_dir, error in ((3, TypeError), (b"logs", TypeError), ("", ValueError)):
        with pytest.raises(error, match=r"`log_dir` must be .* Received: log_dir="):
            kind(log_dir)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        kind(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (gpukit.Monitor, "verbose", (3, -1, "yes", None, 1.5, [1])),
        (gpukit.GPUMemory, "reset_peak", (1, None, "no")),
    ],
)
def test_other_arguments_are_checked(kind, name, values):
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"`{name}` must be .* Received: {name}="):
            kind(None, **{name: value})


def test_callbacks_share_one_run_in_each_folder(tmp_path):
    given = [("a", gpukit.InputStall), ("a", gpukit.Throughput), ("b", gpukit.Throughput)]
    callbacks = [kind(tmp_path / folder) for folder, kind in given]
    model = small_model()
    model.make_train_function()
    before = model.train_function
    model.fit(fast_dataset(40), epochs=2, callbacks=callbacks, verbose=0)
    assert model.train_function is before
    assert {each.summary.measured_steps for each in callbacks} == {2 * 38}
    for folder in "ab":
        lines = records_in(tmp_path / folder)
        assert [line["kind"] for line in lines].count("run") == 1
        assert len(list((tmp_path / folder / "gpukit").glob("events*"))) == 1
        windows = [line["record"] for line in lines if line["kind"] == "steps"]
        assert sum(window["steps"] for window in windows) == 2 * 38


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


def test_the_verdict_is_printed_and_the_record_holds_the_run(tmp_path, capsys):
    data, monitor = slow_dataset(20, 0.02), gpukit.Monitor(tmp_path)
    small_model().fit(data, callbacks=[monitor], verbose=2)
    printed = capsys.readouterr().out
    assert printed.index("loss") < printed.index("input-bound") < printed.index("gpukit report")
    assert max(map(len, printed.splitlines())) <= 80
    lines = records_in(tmp_path)
    assert lines[0]["kind"] == "run"
    assert lines[0]["record"]["schema"] == SCHEMA
    by_kind = {line["kind"]: line["record"] for line in lines}
    assert from_dict(by_kind["summary"], RunSummary) == monitor.summary
    assert by_kind["environment"]["versions"]["keras"] == keras.__version__


@pytest.mark.parametrize(
    ("verbose", "fit_verbose", "prints"),
    [("auto", 0, False), (0, 2, False), (1, 0, True), ("auto", 2, True)],
)
def test_who_wants_no_verdict_gets_none(tmp_path, capsys, verbose, fit_verbose, prints):
    monitor = gpukit.Monitor(tmp_path, verbose=verbose)
    small_model().fit(fast_dataset(4), callbacks=[monitor], verbose=fit_verbose)
    assert ("keras-gpukit" in capsys.readouterr().out) is prints


def test_the_global_step_goes_on_over_fits_in_a_path_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    model, monitor = small_model(), gpukit.Monitor(pathlib.Path("~/logs"))
    for _ in range(2):
        model.fit(fast_dataset(10), callbacks=[monitor], verbose=0)
    lines = records_in(tmp_path / "logs")
    steps = [line["record"]["step"] for line in lines if line["kind"] == "steps"]
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


@pytest.mark.parametrize("remote", ["gs://bucket/logs", "memory://logs"])
def test_a_remote_log_dir_is_refused_with_the_reason_and_makes_no_folder(
    remote, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"on a file system, since .* mount the bucket"):
        gpukit.Throughput(remote)
    assert list(tmp_path.iterdir()) == []
