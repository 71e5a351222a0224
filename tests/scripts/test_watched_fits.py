"""A `Monitor` in every `fit`: which get one, and where it writes."""

import json
import threading
import traceback

import keras
import pytest
from helpers.training import BATCH, arrays, keras_restored, sensitive_model

import keras_gpukit as gpukit
from keras_gpukit.monitoring import run_output
from keras_gpukit.monitoring.call_frame import callbacks_of_fit
from keras_gpukit.scripts import watched_fits
from keras_gpukit.scripts.run_folder import RunFolder
from keras_gpukit.scripts.watched_fits import WatchedFits

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


def summaries(tmp_path) -> dict[str, list[dict]]:
    """By the model's folder, the summary of each run in it."""
    found = {}
    for file in sorted(tmp_path.glob("logs/*/*/gpukit/run.jsonl")):
        lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        of_fits = [line["record"] for line in lines if line["kind"] == "summary"]
        found[file.parents[1].name] = of_fits
    return found


def fits_in(summary: dict) -> list[int]:
    """The fits of the script after which memory was read."""
    return [each["epoch"] for each in summary["memory"]["fits"]]


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


def test_every_fit_is_watched_once_and_each_model_has_a_folder(watched, tmp_path):
    fits = watched()
    first, second, other = model("net"), model("net", Trained), model("a>b")
    fit(first)
    fit(first)
    # Fits another model, and its own, within a `fit`.
    inner = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: (fit(other), fit(second)))
    outer = fit(second, callbacks=inner, epochs=1)
    thread = threading.Thread(target=lambda: fit(model("in-a-thread")))
    thread.start()
    thread.join()
    first.evaluate(*arrays(1), verbose=0)
    first.predict(arrays(1)[0], verbose=0)
    for_a_loop = keras.callbacks.CallbackList(add_history=True, model=first)
    assert [type(each) for each in for_a_loop.callbacks] == [keras.callbacks.History]
    assert fits.count == 5
    assert list(outer) == ["loss"]
    found = summaries(tmp_path)
    steps = {name: [each["throughput"]["steps"] for each in found[name]] for name in found}
    once = {"a-b": [BATCHES], "in-a-thread": [BATCHES], "net": [BATCHES, BATCHES]}
    # Of the last one with those of the fit of the same model within it.
    assert steps == {**once, "net-2": [2 * BATCHES]}


def test_memory_is_followed_over_all_fits_of_the_script(watched, tmp_path):
    watched()
    first, second = model("net"), model("other")
    for trained in (first, second, first):
        fit(trained)
    found = {name: [*map(fits_in, several)] for name, several in summaries(tmp_path).items()}
    assert found == {"net": [[], [1, 2, 3]], "other": [[1, 2]]}


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
    (calls,) = fits.calls.script_record(0.0, 0.0).calls
    assert (calls.count, calls.batches) == (5, 5 * BATCHES)
    assert fits_in(summaries(tmp_path)["net"][-1]) == [1, 2, 5]


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
    assert summaries(tmp_path) == {}
    lines = (tmp_path / "own" / "gpukit" / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("summary") == 2


def test_a_profiler_is_added_on_request(watched):
    watched(profile=True)
    seen, probe = [], keras.callbacks.LambdaCallback()
    probe.on_train_begin = lambda logs: seen.extend(map(type, callbacks_of_fit()))
    fit(model("net"), callbacks=[probe])
    assert seen[:3] == [keras.callbacks.LambdaCallback, gpukit.Monitor, gpukit.Profiler]


def test_results_and_tracebacks_are_those_of_an_unwatched_fit(watched):
    def outcome():
        trained = sensitive_model()

        def fail(batch, logs):
            if len(trained.history.history.get("loss", ())) == 2:
                raise ArithmeticError("of the script")

        fails = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
        with pytest.raises(ArithmeticError) as failure:
            fit(trained, epochs=3, callbacks=[fails])
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
    [record] = caplog.records
    assert "Adding a Monitor" in record.message


def test_each_fit_is_logged_to_the_services_unless_a_monitor_of_the_script_names_its_own(
    watched, monkeypatch
):
    started = []
    monkeypatch.setattr(run_output, "start_logging", started.append)
    watched(log_to=["mlflow", "otel"])
    for callbacks, services in (
        ([], ["mlflow", "otel"]),
        ([gpukit.Monitor(None, verbose=0)], ["mlflow", "otel"]),
        ([gpukit.Monitor(None, verbose=0, log_to="otel")], ["otel"]),
    ):
        started.clear()
        fit(model("logged"), callbacks=callbacks)
        assert started == services
