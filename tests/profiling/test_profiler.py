"""Captures: when they are taken, what is in them, and that they do no harm."""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.processes import wait_for
from helpers.training import BATCH, SlowPyDataset, arrays, fast_dataset, slow_dataset, small_model

import keras_gpukit as gpukit
from keras_gpukit.frameworks.keras_models import profiled_batches
from keras_gpukit.monitoring import call_frame
from keras_gpukit.profiling import capture
from keras_gpukit.profiling.capture import profile_name, write_profile
from keras_gpukit.profiling.capture_settings import RequestFile, next_scheduled
from keras_gpukit.saved_runs.log_folder import load_report

pytestmark = pytest.mark.usefixtures("undisturbed")


def profiler_of(log_dir: Path, *at_steps: int, **options) -> gpukit.Profiler:
    """One that captures nothing on its own but what begins with these steps."""
    return gpukit.Profiler(log_dir, **{"at_steps": at_steps, **options})


def fit(*callbacks, data=None, model=None, **options) -> None:
    model = model or small_model()
    data = fast_dataset(20) if data is None else data
    model.fit(data, callbacks=[*callbacks], verbose=0, **options)


def warnings_of(caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "keras_gpukit"]


def profiles(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.xplane.pb"))


def tab(path: Path, tool: str) -> list:
    """What TensorBoard's Profile tab shows of a profile."""
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {})
    for cached in path.parent.glob("*op_stats*"):
        cached.unlink()
    return json.loads(data)


def steps_in_tab(path: Path) -> list[int]:
    # Each is listed as "train 7"; the first and the last of more than five are left out.
    rows = tab(path, "input_pipeline_analyzer")[1]["rows"]
    return [int(row["c"][0]["v"].split()[1]) for row in rows]


def bottleneck(path: Path) -> str:
    return tab(path, "overview_page")[3]["p"]["bottleneck"]


def marks(path: Path) -> list[int]:
    """Numbers of the steps that are marked in a profile."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    [host] = (
        plane
        for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes
        if plane.name == "/host:CPU"
    )
    names = {each.id: each.name for each in host.stat_metadata.values()}
    return sorted(
        stat.int64_value
        for line in host.lines
        for event in line.events
        if host.event_metadata[event.metadata_id].name == "train"
        for stat in event.stats
        if names[stat.metadata_id] == "step_num"
    )


# When


def test_steps_are_taken_from_both_schedules():
    due = [next_scheduled((7, 3), 5, step) for step in range(10)]
    assert due == [3, 3, 3, 5, 5, 7, 7, 10, 10, 10]
    assert next_scheduled((), None, 0) == float("inf")


def test_a_request_file_is_taken_once_and_a_folder_in_its_place_asks_for_nothing(tmp_path):
    request, file = RequestFile(tmp_path / "capture"), tmp_path / "capture"
    assert request.due() is None
    file.mkdir()
    assert request.due() is None
    file.rmdir()
    file.touch()
    assert "capture" in request.due()
    assert request.due() is None


def test_one_request_asks_every_worker_once_and_touching_it_again_asks_again(tmp_path):
    file, now = tmp_path / "capture", [0.0]
    workers = [RequestFile(file, 10.0, lambda: now[0]) for _ in range(3)]

    def answers() -> int:
        now[0] += 1
        return sum(worker.due() is not None for worker in workers)

    file.touch()
    assert [answers() for _ in range(5)] == [3, 0, 0, 0, 0]
    os.utime(file, ns=(1, 1))
    assert [answers() for _ in range(5)] == [3, 0, 0, 0, 0]
    assert [answers() for _ in range(8)] == [0] * 8
    assert not file.exists()
    file.touch()
    workers[0].due()
    workers[0].withdraw()  # its run is over
    assert not file.exists()
    file.touch()
    assert answers() == 3


# What is in a capture


def recurrent_model() -> keras.Model:
    model = keras.Sequential([keras.Input((8, 1)), keras.layers.LSTM(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    return model


SLOW = functools.partial(slow_dataset, 40, 0.002)
CASES = {  # the model's options, the data, and the steps that are marked
    "compiled": ({}, SLOW, [8, 9, 10, 11]),
    "jit": ({"jit_compile": True}, SLOW, [8, 9, 10, 11]),
    "eager": ({"run_eagerly": True}, SLOW, [8, 9, 10, 11]),
    "PyDataset": ({}, lambda: SlowPyDataset(30, 0.002), [8, 9, 10, 11]),
    "NumPy": ({}, lambda: arrays(30)[0], [8, 9, 10, 11]),
    "several steps an execution": ({"steps_per_execution": 4}, SLOW, [17, 21, 25]),
    "recurrent": (None, SLOW, [17, 18, 19]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_profile_tab_finds_the_steps_and_a_bottleneck(tmp_path, case):
    options, data, marked = CASES[case]
    steps = len(marked) * (marked[1] - marked[0])
    profiler, x = profiler_of(tmp_path, marked[0], steps=steps), data()
    y = {"y": arrays(30)[1], "batch_size": BATCH} if isinstance(x, np.ndarray) else {}
    model = recurrent_model() if options is None else small_model(**options)
    fit(profiler, data=x, model=model, **y)
    [record] = profiler.summary.captures
    assert record.failed_because is None
    assert (record.first_step, record.steps, record.ended_early_because) == (marked[0], steps, None)
    path = tmp_path / record.path
    assert record.profile_bytes == path.stat().st_size
    assert path.parent.parent == tmp_path / "gpukit" / "plugins" / "profile"
    assert path.parent.name == record.run
    assert marks(path) == steps_in_tab(path) == marked
    assert bottleneck(path) in ("host", "device", "both")
    # It is in the record of the run, too.
    lines = (tmp_path / "gpukit" / "run.jsonl").read_text().splitlines()
    [line] = [each for each in map(json.loads, lines) if each["kind"] == "capture"]
    written = line["record"]
    assert (line["step"], written["path"]) == (marked[0], record.path)
    assert written["reason"] == f"step {marked[0]} of the run"
    assert written["blocked_s"] > 0


@pytest.mark.parametrize(("first", "steps_per_execution"), [("ours", 1), ("theirs", 2)])
def test_what_the_callback_of_keras_captures_has_steps_too(
    tmp_path, caplog, first, steps_per_execution
):
    # Both want the same steps: theirs is not to fail for ours, which ends.
    profiler = profiler_of(
        tmp_path / "ours", 6 * steps_per_execution, steps=4 * steps_per_execution
    )
    theirs = keras.callbacks.TensorBoard(tmp_path / "theirs", profile_batch=(8, 10))
    callbacks = [profiler, theirs] if first == "ours" else [theirs, profiler]
    fit(*callbacks, data=SLOW(), model=small_model(steps_per_execution=steps_per_execution))
    [path] = profiles(tmp_path / "theirs")
    assert len(steps_in_tab(path)) == 3
    assert bottleneck(path) != "unknown"
    [record] = profiler.summary.captures
    assert record.first_step == 5 * steps_per_execution + 1
    assert record.ended_early_because == "other code started a profile"
    assert warnings_of(caplog) == []


def test_only_files_of_the_callback_of_keras_are_looked_at(tmp_path, caplog):
    # A pipe would be read for ever; neither it nor a half-written file does harm.
    folder = tmp_path / "train" / "plugins" / "profile" / "a"

    def put_others_there():
        folder.mkdir(parents=True)
        os.mkfifo(folder / "pipe.xplane.pb")
        (folder / "link.xplane.pb").symlink_to(tmp_path / "nowhere")
        (folder / "half.xplane.pb").write_bytes(b"\x0a\xff\xff")

    theirs = keras.callbacks.TensorBoard(tmp_path, profile_batch=(8, 10))
    callbacks = profiler_of(tmp_path), theirs, At(2, put_others_there)
    fit(*callbacks, data=fast_dataset(40), model=small_model(steps_per_execution=2))
    [path] = [each for each in profiles(tmp_path) if each.parent != folder]
    assert len(steps_in_tab(path)) == 3
    [message] = warnings_of(caplog)
    assert "half.xplane.pb" in message


@pytest.fixture
def slowly_gathered(monkeypatch):
    finish = capture.Capture._finish

    def slow(self, folder):
        self._ended.wait()
        time.sleep(0.1)
        return finish(self, folder)

    monkeypatch.setattr(capture.Capture, "_finish", slow)


def test_a_capture_ends_with_its_epoch(tmp_path):
    # The look for a batch after the last one is in the profile and is no step.
    profiler = profiler_of(tmp_path, 8, 19)
    data = slow_dataset(10, 0.001).filter(lambda x, y: True)  # of unknown length
    fit(profiler, data=data, epochs=2, validation_data=fast_dataset(2))
    records = profiler.summary.captures
    assert [(each.first_step, each.steps) for each in records] == [(8, 3), (19, 2)]
    assert {each.ended_early_because for each in records} == {"the epoch ended"}
    assert [marks(tmp_path / each.path) for each in records] == [[8, 9, 10], [19, 20]]


@pytest.mark.usefixtures("slowly_gathered")
def test_a_capture_waits_until_the_one_before_is_gathered(tmp_path):
    profiler = profiler_of(tmp_path, 3, 7, steps=2)
    # The first is gathered before step 30, while the second is wanted since step 7.
    fit(profiler, Written(30), data=fast_dataset(60))
    assert profiler.summary.missed == ()
    reasons = [each.reason for each in profiler.summary.captures]
    assert reasons == ["step 3 of the run", "step 7 of the run"]


# On demand, and when something goes wrong


@pytest.fixture
def often(monkeypatch):
    """What happens each second happens each hundredth."""
    monkeypatch.setattr("keras_gpukit.monitoring.sampling.SAMPLE_EVERY_S", 0.01)
    monkeypatch.setattr("keras_gpukit.input.wait.step_windows.WINDOW_S", 0.01)


class At(keras.callbacks.Callback):
    """Does something before one batch."""

    def __init__(self, batch, action):
        super().__init__()
        self.batch, self.action = batch, action

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.batch:
            self.action()


def touched(log_dir: Path) -> At:
    """Asks for a capture before the tenth batch, and goes on once that was seen."""
    file = log_dir / "gpukit" / "capture"
    return At(10, lambda: (file.touch(), wait_for(lambda: not file.exists())))


def test_a_touched_file_makes_monitor_capture_and_nothing_else(tmp_path, often):
    monitor = gpukit.Monitor(tmp_path)
    fit(monitor, touched(tmp_path), data=slow_dataset(60, 0.005))
    [record] = monitor.summary.captures.captures
    assert (record.trigger, record.reason) == ("file", "capture was touched")
    assert record.first_step >= 10
    assert len(marks(tmp_path / record.path)) == record.steps == 10
    assert not (tmp_path / "gpukit" / "capture").exists()


def test_monitor_leaves_captures_to_a_profiler_beside_it(tmp_path, often):
    monitor, profiler = gpukit.Monitor(tmp_path), profiler_of(tmp_path)
    fit(monitor, profiler, touched(tmp_path), data=slow_dataset(60, 0.005))
    assert monitor.summary.captures is None
    assert [each.trigger for each in profiler.summary.captures] == ["file"]


# Limits


class Written(keras.callbacks.Callback):
    """Waits, before some batches, for the capture that ended with the batch before.

    Steps here are shorter than it takes to write a profile, and captures come one by one.
    """

    def __init__(self, *batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_begin(self, batch, logs=None):
        if batch in self.batches:
            for thread in threading.enumerate():
                if thread.name == "gpukit-capture":
                    thread.join(60)


def fit_with(profiler):
    """Captures of up to two steps that begin with the steps 3 and 10, or 5, 10 and 15."""
    fit(profiler, Written(6, 13))
    return profiler.summary


def test_captures_are_capped(tmp_path):
    summary = fit_with(profiler_of(tmp_path, every_steps=5, steps=1, max_captures=2))
    assert [each.first_step for each in summary.captures] == [5, 10]
    assert summary.missed[0].step == 15
    assert "max_captures=2" in summary.missed[0].because


def test_disk_space_is_capped_for_all_runs_together(tmp_path):
    first = fit_with(profiler_of(tmp_path, 3, 10, steps=1))
    taken = sum(each.profile_bytes for each in first.captures)
    summary = fit_with(profiler_of(tmp_path, 3, 10, steps=1, max_bytes=taken + 1))
    assert len(summary.captures) == 2
    assert all("max_bytes leaves 1" in each.failed_because for each in summary.captures)
    assert len(profiles(tmp_path)) == 2
    full = fit_with(profiler_of(tmp_path, 3, 10, steps=1, max_bytes=taken))
    assert full.captures == ()
    assert {each.step for each in full.missed} == {3, 10}


@pytest.mark.parametrize(
    ("argument", "value", "error", "accepted"),
    [
        ("log_dir", None, TypeError, "a folder's path"),
        ("steps", 51, ValueError, "from 1 to 50"),
        ("steps", 0, ValueError, "from 1 to 50"),
        ("steps", 2.0, TypeError, "from 1 to 50"),
        ("at_steps", 5, TypeError, "list or tuple"),
        ("at_steps", (0,), ValueError, "from 1 on"),
        ("at_steps", ("a",), TypeError, "from 1 on"),
        ("every_steps", 0, ValueError, "or None"),
        ("every_minutes", 0, ValueError, "above 0, or None"),
        ("every_minutes", float("nan"), ValueError, "above 0, or None"),
        ("on_demand", 1, TypeError, "True or False"),
        ("max_captures", 0, ValueError, "from 1 on"),
        ("max_bytes", "1GB", TypeError, "from 1 on"),
    ],
)
def test_wrong_arguments_are_refused_at_once(argument, value, error, accepted):
    with pytest.raises(error) as found:
        gpukit.Profiler(**{argument: value})
    assert argument in str(found.value)
    assert accepted in str(found.value)
    assert f"Received: {argument}={value!r}" in str(found.value)


# No harm


def test_training_goes_on_while_a_profile_is_written(tmp_path, monkeypatch):
    trained_on, found = threading.Event(), []
    write = capture.write_profile

    def slow(*args):
        found.append(trained_on.wait(60))
        return write(*args)

    monkeypatch.setattr(capture, "write_profile", slow)
    profiler = profiler_of(tmp_path, 3, steps=2)
    fit(profiler, At(15, trained_on.set))
    assert found == [True]
    assert profiler.summary.captures[0].path is not None


def test_a_disk_that_hangs_does_not_keep_fit_from_returning(tmp_path, monkeypatch, caplog):
    free = threading.Event()
    monkeypatch.setattr(capture, "FINISH_WITHIN_S", 0.1)
    monkeypatch.setattr(capture, "write_profile", lambda *args: free.wait())
    profiler = profiler_of(tmp_path, 3, steps=2)
    try:
        fit(profiler)
        [record] = profiler.summary.captures
        assert (record.path, record.steps) == (None, 2)
        assert "not written after" in record.failed_because
        [message] = warnings_of(caplog)
        assert "not written after" in message
        assert '"failed_because":' in (tmp_path / "gpukit" / "run.jsonl").read_text()
    finally:
        free.set()


def test_a_disk_that_is_full_is_said_once(tmp_path, monkeypatch, caplog):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(capture, "write_profile", full)
    summary = fit_with(profiler_of(tmp_path, 3, 10, steps=2))
    assert [each.path for each in summary.captures] == [None, None]
    assert "No space left" in summary.captures[0].failed_because
    assert len(warnings_of(caplog)) == 1


def test_a_profile_that_is_recorded_elsewhere_goes_on(tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "theirs"))
    try:
        summary = fit_with(profiler_of(tmp_path / "ours", 3, 10, steps=2))
    finally:
        tf.profiler.experimental.stop()
    assert summary.captures == ()
    assert [each.step for each in summary.missed] == [3, 10]
    [message] = warnings_of(caplog)
    assert "tf.profiler.experimental.stop()" in message
    [path] = profiles(tmp_path / "theirs")
    assert marks(path)[:20] == list(range(1, 21))


@pytest.mark.parametrize(
    ("how", "batch"),
    [("start", 5), ("Profile", 7)],
    ids=["while it records", "while it is written"],
)
@pytest.mark.usefixtures("slowly_gathered")
def test_a_profile_that_somebody_else_begins_ends_a_capture(tmp_path, caplog, how, batch):
    experimental = tf.profiler.experimental
    start = experimental.start
    theirs = str(tmp_path / "theirs")
    profile = experimental.Profile(theirs)

    def begin():
        experimental.start(theirs) if how == "start" else profile.__enter__()

    profiler = profiler_of(tmp_path / "ours", 3, steps=4)
    fit(profiler, At(batch, begin), At(12, experimental.stop))
    [record] = profiler.summary.captures
    assert (record.first_step, record.steps) == (3, 3 if batch == 5 else 4)
    reason = "other code started a profile" if batch == 5 else None
    assert record.ended_early_because == reason
    assert marks(tmp_path / "ours" / record.path) == list(range(3, 3 + record.steps))
    [path] = profiles(tmp_path / "theirs")
    assert marks(path) == list(range(batch + 1, 13))
    assert experimental.start is start
    assert warnings_of(caplog) == []


def test_of_two_profilers_one_captures_at_a_time(tmp_path):
    one = profiler_of(tmp_path / "one", 3, steps=2)
    other = profiler_of(tmp_path / "other", 4, 20, steps=2)
    fit(one, other, Written(10), data=fast_dataset(40))
    assert [each.first_step for each in one.summary.captures] == [3]
    assert [each.step for each in other.summary.missed] == [4]
    assert [each.first_step for each in other.summary.captures] == [20]


@pytest.mark.parametrize("first", ["profiler", "monitor"])
def test_a_step_is_marked_once_whoever_watches_beside(tmp_path, first):
    profiler, monitor = profiler_of(tmp_path / "one", 8, steps=4), gpukit.Monitor(tmp_path / "two")
    callbacks = [profiler, monitor] if first == "profiler" else [monitor, profiler]
    fit(*callbacks, data=slow_dataset(30, 0.001))
    [record] = profiler.summary.captures
    assert marks(tmp_path / "one" / record.path) == [8, 9, 10, 11]


def test_steps_are_marked_when_who_watched_a_run_that_failed_has_not_left_yet(tmp_path):
    def fail():
        raise RuntimeError("theirs")

    model = small_model()
    with pytest.raises(RuntimeError):
        fit(profiler_of(tmp_path / "failed"), At(3, fail), model=model)
    profiler = profiler_of(tmp_path / "next", 3, steps=2)
    fit(profiler, model=model)
    [record] = profiler.summary.captures
    assert marks(tmp_path / "next" / record.path) == [6, 7]


def test_a_shorter_last_execution_is_counted_as_what_it_is(tmp_path):
    # Two executions an epoch, of 16 steps and of 1.
    profiler, model = profiler_of(tmp_path, 40, steps=32), small_model(steps_per_execution=16)
    fit(profiler, data=fast_dataset(17), model=model, epochs=3)
    [record] = profiler.summary.captures
    assert (record.first_step, record.steps) == (35, 17)
    assert marks(tmp_path / record.path) == [35, 51]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("vm: Insufficient privilege to run libcupti (you need root permission).", "SYS_ADMIN"),
        ("vm: Failed to load libcupti (is it installed and accessible?)", "tensorflow[and-cuda]"),
    ],
)
def test_what_cupti_refuses_is_said_once_with_the_fix(tmp_path, monkeypatch, caplog, error, remedy):
    # No GPU here: this is what TensorFlow's profiler writes into a profile where there is one.
    amend = capture.amend
    monkeypatch.setattr(capture, "amend", lambda *args: (amend(*args)[0], (error,)))
    summary = fit_with(profiler_of(tmp_path, 3, 10, steps=2))
    assert all(remedy in each.incomplete_because for each in summary.captures)
    assert all(each.path is not None for each in summary.captures)
    [message] = warnings_of(caplog)
    assert remedy in message


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("theirs")])
def test_a_run_that_is_interrupted_within_a_capture_is_captured_until_then(tmp_path, error):
    def fail():
        raise error

    profiler, model = profiler_of(tmp_path, 3), small_model()
    with pytest.raises(type(error)):
        fit(profiler, At(6, fail), model=model)
    [record] = profiler.summary.captures
    assert (record.steps, record.ended_early_because) == (4, "the run was interrupted")
    assert marks(tmp_path / record.path) == [3, 4, 5, 6]
    fit(profiler, model=model)  # TensorFlow's profiler is free again
    assert profiler.summary.captures[0].path is not None


@pytest.mark.parametrize("moment", ["TensorFlow starts", "it began"])
def test_an_interrupt_while_a_capture_begins_leaves_nothing_behind(tmp_path, monkeypatch, moment):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    start, begin = tf.profiler.experimental.start, capture.Capture.begin

    def interrupted_start(*args, **kwargs):
        start(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)  # Python handles it on the main thread
        time.sleep(0.05)

    def begun_and_interrupted(self):
        begin(self)
        raise KeyboardInterrupt

    if moment == "TensorFlow starts":
        monkeypatch.setattr(tf.profiler.experimental, "start", interrupted_start)
    else:
        monkeypatch.setattr(capture.Capture, "begin", begun_and_interrupted)
    profiler = profiler_of(tmp_path, 3)
    with pytest.raises(KeyboardInterrupt):
        fit(profiler)
    monkeypatch.setattr(tf.profiler.experimental, "start", start)
    [record] = profiler.summary.captures
    assert "no whole step ran" in record.failed_because
    assert list(scratch.iterdir()) == []
    tf.profiler.experimental.start(str(tmp_path / "theirs"))  # TensorFlow's profiler is free
    tf.profiler.experimental.stop()


class StepRaises(keras.layers.Layer):
    def call(self, inputs):
        tf.debugging.assert_less(tf.reduce_max(inputs), 4.0)
        return inputs


def test_a_capture_without_a_whole_step_is_thrown_away_and_said(tmp_path, caplog):
    inputs, targets = arrays(8)
    inputs[2 * BATCH] = 5.0
    model = keras.Sequential([keras.Input((8,)), StepRaises(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    profiler = profiler_of(tmp_path, 3)
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(BATCH)
    with pytest.raises(tf.errors.InvalidArgumentError):
        fit(profiler, data=data, model=model)
    [record] = profiler.summary.captures
    assert record.path is None
    assert "no whole step ran" in record.failed_because
    assert profiles(tmp_path) == []
    assert len(warnings_of(caplog)) == 1


def test_steps_that_a_callback_trains_itself_are_none_of_the_run(tmp_path):
    model, profiler = small_model(), profiler_of(tmp_path, 10)

    def train():
        for seed in range(5):
            model.train_on_batch(*arrays(1, seed=seed))

    fit(profiler, At(5, train), data=fast_dataset(8), model=model)
    assert profiler.summary.captures == ()


def test_profiles_of_one_moment_have_names_of_their_own(tmp_path):
    name = profile_name(7, time_s=1795286223.25)
    assert name.endswith("_250000_step_7")
    with ThreadPoolExecutor(20) as pool:
        paths = pool.map(lambda _: write_profile(tmp_path, name, "host.xplane.pb", b"x"), range(20))
    assert len(set(paths)) == len(profiles(tmp_path)) == 20


def test_one_profiler_for_several_fits(tmp_path):
    profiler, model = profiler_of(tmp_path, 3, steps=2), small_model()
    for first_step in (3, 11):
        fit(profiler, data=fast_dataset(8), model=model)
        assert [each.first_step for each in profiler.summary.captures] == [first_step]
    assert len(profiles(tmp_path)) == 2


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_without_training_nothing_is_captured_and_that_is_told(tmp_path, call):
    profiler = gpukit.Profiler(tmp_path, every_steps=1)
    getattr(small_model(), call)(fast_dataset(4), callbacks=[profiler], verbose=0)
    assert profiler.summary.captures == ()
    assert "not a fit" in profiler.summary.unknown_because


def test_the_callback_of_keras_still_says_whether_it_captures(tmp_path):
    callback = keras.callbacks.TensorBoard(tmp_path, profile_batch=(3, 4))
    assert profiled_batches(callback) == (3, 4)
    seen = []
    look = At(2, lambda: seen.append(call_frame.callbacks_of_fit()))
    fit(look)
    assert look in seen[0]


MIRRORED = """
import json
from pathlib import Path
import tensorflow as tf
from helpers.training import arrays, BATCH, mirrored_model
from profiling.test_profiler import marks, profiler_of, steps_in_tab
model = mirrored_model()
dataset = tf.data.Dataset.from_tensor_slices(arrays(24)).batch(BATCH, drop_remainder=True)
profiler = profiler_of(Path({folder!r}), 5, steps=4)
model.fit(dataset, callbacks=[profiler], verbose=0)
[record] = profiler.summary.captures
path = Path({folder!r}) / record.path
print(json.dumps([marks(path), steps_in_tab(path)]))
"""


def test_two_replicas_are_captured(run_script, tmp_path):
    output = run_script(MIRRORED.format(folder=str(tmp_path))).stdout
    assert json.loads(output.splitlines()[-1]) == [[5, 6, 7, 8]] * 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_of_a_cluster_captures_only_what_is_asked_for(
    count, tmp_path, monkeypatch, caplog
):
    cluster = {"worker": [f"localhost:{port}" for port in range(1, 1 + count)]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    profilers = gpukit.Profiler(tmp_path), gpukit.Profiler(tmp_path, steps=1, at_steps=(2,))
    for profiler in profilers:
        caplog.clear()
        fit(profiler, data=fast_dataset(22))
        assert ("may crash a worker" in caplog.text) == (count == 2)
    assert [len(each.summary.captures) for each in profilers] == [count == 1, 1]
    caplog.clear()
    fit(gpukit.Monitor(tmp_path, verbose=0), data=fast_dataset(2))
    assert "may crash" not in caplog.text


@pytest.mark.parametrize("callback", [gpukit.Profiler, gpukit.InputStall, gpukit.GPUMemory])
def test_the_record_of_one_callback_alone_says_that_the_run_ended(tmp_path, callback):
    fit(callback(tmp_path))
    [run] = load_report(tmp_path).runs
    assert run.summary.ending == "completed"
    assert run.summary.killed_in is None
