"""A `Monitor` in every `fit`: which get one, and where it writes."""

from __future__ import annotations

import json
import threading
import traceback

import keras
import pytest
from helpers.training import BATCH, arrays, keras_restored, sensitive_model

import keras_gpukit as gpukit
from keras_gpukit.scripts import watched_fits
from keras_gpukit.scripts.run_folder import RunFolder
from keras_gpukit.scripts.watched_fits import WatchedFits
from keras_gpukit.watching import run_output
from keras_gpukit.watching.call_frame import callbacks_of_fit

BATCHES = 4


@pytest.fixture
def watched(tmp_path):
    """Makes fits watched, and undoes it."""

    def install(**options) -> WatchedFits:
        fits = WatchedFits(RunFolder(tmp_path / "logs", "train.py"), **options)
        fits.install()
        return fits

    with keras_restored():
        yield install


def steps_by_folder(tmp_path) -> dict[str, list[int]]:
    """By the model's folder, the steps of each run in it."""
    return {
        file.parents[1].name: [
            line["record"]["throughput"]["steps"]
            for line in map(json.loads, file.read_text(encoding="utf-8").splitlines())
            if line["kind"] == "summary"
        ]
        for file in sorted(tmp_path.glob("logs/*/*/gpukit/run.jsonl"))
    }


def model(name: str, kind: type[keras.Model] = keras.Sequential) -> keras.Model:
    made = kind([keras.layers.Dense(1)], name=name)
    made.compile("sgd", "mse", run_eagerly=True)  # nothing to trace: these fits are many
    return made


def fit(trained: keras.Model, **options) -> dict:
    return trained.fit(*arrays(BATCHES), batch_size=BATCH, verbose=0, **options).history


class Trained(keras.Sequential):
    """Has a training step and a `fit` of its own."""

    def train_step(self, data):
        return super().train_step(data)

    def fit(self, *args, **options):
        return super().fit(*args, **options)


class InnerFits(keras.callbacks.Callback):
    """Fits another model, and its own, within a `fit`."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def on_epoch_end(self, epoch, logs=None):
        fit(self.other)
        fit(self.model)


class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if len(self.model.history.history.get("loss", ())) == 2:
            raise ArithmeticError("of the script")


def test_every_fit_is_watched_once_and_each_model_has_a_folder(watched, tmp_path):
    fits = watched()
    first, second, other = model("net"), model("net", Trained), model("a>b")
    fit(first)
    fit(first)
    outer = fit(second, callbacks=InnerFits(other), epochs=1)
    thread = threading.Thread(target=lambda: fit(model("in-a-thread")))
    thread.start()
    thread.join()
    first.evaluate(*arrays(1), verbose=0)
    first.predict(arrays(1)[0], verbose=0)
    for_a_loop = keras.callbacks.CallbackList(add_history=True, model=first)
    assert [type(each) for each in for_a_loop.callbacks] == [keras.callbacks.History]
    assert fits.count == 5
    assert list(outer) == ["loss"]
    assert steps_by_folder(tmp_path) == {
        "a-b": [BATCHES],
        "in-a-thread": [BATCHES],
        "net": [BATCHES, BATCHES],
        "net-2": [2 * BATCHES],  # with those of the fit of the same model within it
    }


def test_memory_is_followed_over_all_fits_of_the_script(watched, tmp_path):
    watched()
    first, second = model("net"), model("other")
    for trained in (first, second, first):
        fit(trained)
    fits = {
        (file.parents[1].name, number): [
            each["epoch"] for each in json.loads(line)["record"]["memory"]["fits"]
        ]
        for file in tmp_path.glob("logs/*/*/gpukit/run.jsonl")
        for number, line in enumerate(
            line for line in file.read_text().splitlines() if '"summary"' in line
        )
    }
    assert fits == {("net", 0): [], ("other", 0): [1, 2], ("net", 1): [1, 2, 3]}


def test_of_many_short_fits_only_some_are_monitored_and_all_are_counted(
    watched, tmp_path, monkeypatch
):
    monkeypatch.setattr(watched_fits, "ALWAYS_MONITORED", 2)
    monkeypatch.setattr(watched_fits, "MOST_COST", 0.0)
    fits, trained = watched(), model("net")
    for number in range(5):
        if number == 4:  # as after a long fit
            monkeypatch.setattr(watched_fits, "MOST_COST", float("inf"))
        fit(trained)
    assert fits.count == 3
    (calls,) = fits.calls.record(0.0, 0.0).calls
    assert (calls.count, calls.batches) == (5, 5 * BATCHES)
    (file,) = tmp_path.glob("logs/*/net/gpukit/run.jsonl")
    summaries = [line for line in file.read_text().splitlines() if '"summary"' in line]
    memory = json.loads(summaries[-1])["record"]["memory"]
    assert [each["epoch"] for each in memory["fits"]] == [1, 2, 5]


def test_callbacks_of_the_script_are_not_doubled(watched, tmp_path):
    fits = watched()
    trained = model("net")
    monitor = gpukit.Monitor(tmp_path / "own", verbose=0)
    given = [[monitor]]
    fit(trained, callbacks=given)
    assert given == [[monitor]]
    assert monitor.summary.steps == BATCHES
    fit(trained, callbacks=[gpukit.Throughput(None)])
    assert fits.count == 0
    assert fits.has_own
    assert fits.own_log_dirs == {tmp_path / "own"}
    fit(trained, callbacks=[gpukit.Profiler(tmp_path / "own", at_steps=())])
    assert fits.count == 1
    assert steps_by_folder(tmp_path) == {}
    lines = (tmp_path / "own" / "gpukit" / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("summary") == 2


def test_a_profiler_is_added_on_request(watched):
    watched(profile=True)
    seen = []
    probe = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: seen.extend(map(type, callbacks_of_fit()))
    )
    fit(model("net"), callbacks=[probe])
    assert seen[:3] == [keras.callbacks.LambdaCallback, gpukit.Monitor, gpukit.Profiler]


def test_results_and_tracebacks_are_those_of_an_unwatched_fit(watched):
    def outcome():
        trained = sensitive_model()
        with pytest.raises(ArithmeticError) as failure:
            fit(trained, epochs=3, callbacks=[Fails()])
        frames = traceback.extract_tb(failure.value.__traceback__)
        return trained.history.history["loss"], [frame.name for frame in frames]

    unwatched = outcome()
    fits = watched()
    assert outcome() == unwatched
    assert fits.count == 1
    assert len(unwatched[0]) == 2


def test_a_failure_of_ours_is_logged_and_the_fit_goes_on(watched, tmp_path, caplog):
    (tmp_path / "logs").touch()  # no folder can be made
    fits = watched()
    trained = model("net")
    for _ in range(2):
        assert fit(trained)["loss"]
    assert fits.count == 0
    assert [record.message for record in caplog.records if "Adding a Monitor" in record.message]
    assert len(caplog.records) == 1


def test_each_fit_is_logged_to_the_services(watched, monkeypatch):
    started = []
    monkeypatch.setattr(run_output, "start_logging", started.append)
    watched(log_to=["mlflow", "otel"])
    fit(model("logged"))
    assert started == ["mlflow", "otel"]


def test_a_monitor_of_the_script_logs_to_the_services_too_unless_it_names_its_own(
    watched, monkeypatch
):
    started = []
    monkeypatch.setattr(run_output, "start_logging", started.append)
    watched(log_to=["mlflow"])
    fit(model("own"), callbacks=[gpukit.Monitor(None, verbose=0)])
    assert started == ["mlflow"]
    fit(model("own"), callbacks=[gpukit.Monitor(None, verbose=0, log_to="otel")])
    assert started == ["mlflow", "otel"]
