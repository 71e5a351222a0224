"""What every callback does alike, and what `Monitor` makes of them."""

import json
import pathlib

import keras
import psutil
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
from keras_gpukit import records
from keras_gpukit.records import SCHEMA, RunSummary, from_dict, to_dict
from keras_gpukit.sensors.allocator import NO_ALLOCATOR

pytestmark = pytest.mark.usefixtures("undisturbed")

RECORDS = {
    gpukit.InputStall: records.InputRecord,
    gpukit.GPUMemory: records.MemoryRecord,
    gpukit.DevicePlacement: records.PlacementRecord,
    gpukit.Utilization: records.UtilizationRecord,
    gpukit.Throughput: records.ThroughputRecord,
    gpukit.Monitor: RunSummary,
}


def one_of_each(folder=None):
    return [kind(folder and folder / kind.__name__) for kind in RECORDS]


def records_in(log_dir):
    lines = (log_dir / "gpukit" / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_monitor_says_that_another_one_is_too_many(caplog, tmp_path):
    model, both = small_model(), [gpukit.Monitor(None), gpukit.Monitor(None)]
    for callbacks in (both, [gpukit.Profiler(tmp_path), both[0]]):
        model.fit(fast_dataset(2), callbacks=callbacks, verbose=0)
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


def test_each_has_a_record_at_once_after_a_fit_that_failed_and_without_a_folder_writes_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def fail(batch, logs):
        if batch == 3:
            raise RuntimeError("theirs")

    callbacks = one_of_each()
    theirs = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(RuntimeError, match="theirs"):
        small_model().fit(fast_dataset(5), callbacks=[*callbacks, theirs], verbose=0)
    for callback, kind in zip(callbacks, RECORDS.values(), strict=True):
        assert isinstance(callback.summary, kind)
        assert kind.__dataclass_params__.frozen
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
    others = {
        gpukit.Monitor: ("verbose", (3, -1, "yes", None, 1.5, [1])),
        gpukit.GPUMemory: ("reset_peak", (1, None, "no")),
    }
    name, values = others.get(kind, ("", ()))
    for value in values:
        with pytest.raises((TypeError, ValueError), match=f"`{name}` must be .* Received: {name}="):
            kind(None, **{name: value})


def test_an_unknown_argument_gets_the_one_that_was_likely_meant():
    with pytest.raises(TypeError, match=r"did you mean at_steps\? Received: at=\[5\]"):
        gpukit.Profiler(at=[5])
    with pytest.raises(TypeError, match="no argument `profile`: it has log_dir, verbose"):
        gpukit.Monitor(profile=True)


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
    assert summary.memory.unknown_because == NO_ALLOCATOR
    placement = next(line["record"] for line in records_in(tmp_path) if line["kind"] == "placement")
    assert placement["unknown_because"] is None
    assert summary.placement["CPU:0"] > 10
    assert summary.overhead_s > 0
    assert {finding.code for finding in summary.findings} >= {"no-gpu"}


def test_the_verdict_is_printed_where_it_is_wanted_and_the_record_holds_the_run(tmp_path, capsys):
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
    model = small_model()
    for verbose, fit_verbose, prints in (("auto", 0, False), (0, 2, False), (1, 0, True)):
        monitor = gpukit.Monitor(tmp_path, verbose=verbose)
        model.fit(fast_dataset(4), callbacks=[monitor], verbose=fit_verbose)
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
    model, callback = small_model(), gpukit.DevicePlacement(None)
    found = []
    for _ in range(2):
        model.fit(fast_dataset(3), callbacks=[callback], verbose=0)
        found.append(callback.summary.operations["CPU:0"])
    assert found[0] == found[1]
    assert any("MatMul" in operation for operation in found[0])
    model.evaluate(fast_dataset(3), callbacks=[callback], verbose=0)
    assert callback.summary.unknown_because


def test_this_host_is_read_and_no_share_of_its_cores_told_of_less_than_a_tenth_of_a_second():
    monitor, model = gpukit.Monitor(None, verbose=0), small_model()
    for batches in (3, 3, 120):  # the first one traces
        model.fit(slow_dataset(batches, 0.01), callbacks=[monitor], verbose=0)
        summary = monitor.summary
        assert (summary.host is not None) == (summary.throughput.wall_s >= 0.1)
    record = summary.utilization
    assert record.samples >= 1
    assert record.gpus == ()
    assert 0 <= summary.host.cpu_percent <= 100
    assert 0 < summary.host.memory_max_bytes < psutil.virtual_memory().total


def test_a_remote_log_dir_is_refused_with_the_reason_and_makes_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for remote in ("gs://bucket/logs", "memory://logs"):
        with pytest.raises(ValueError, match=r"on a file system, since .* mount the bucket"):
            gpukit.Throughput(remote)
    assert list(tmp_path.iterdir()) == []
