"""What is said of a run in which no step ends for long, and what its record keeps."""

import json
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.stopped_clock import StoppedClock
from helpers.training import small_model

import keras_gpukit as gpukit
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.monitoring import hangs, sampling
from keras_gpukit.monitoring.hangs import Frame, HangWatch, describe
from keras_gpukit.records import Hang, RunReport
from keras_gpukit.reports.run_words import state_note
from keras_gpukit.saved_runs.log_folder import load_report

LIBRARY = "/usr/lib/python3/site-packages"
TF, KERAS = f"{LIBRARY}/tensorflow/python", f"{LIBRARY}/keras/src"
EXECUTE = Frame(f"{TF}/eager/execute.py", "quick_execute", 53)
PY_FUNC = Frame(f"{TF}/ops/script_ops.py", "__call__", 271)
CALLBACKS = Frame(f"{KERAS}/callbacks/callback_list.py", "on_epoch_end", 170)
SAVES = Frame(f"{KERAS}/callbacks/model_checkpoint.py", "ModelCheckpoint.on_epoch_end", 9)
TRACES = Frame(f"{TF}/framework/func_graph.py", "func_graph_from_py_func", 1)
LOAD = Frame("/home/me/train.py", "load", 31)
SLEEPS = Frame("/home/me/train.py", "Late.on_epoch_end", 7)
STEP = Frame("/home/me/train.py", "train_step", 50)


@pytest.mark.parametrize(
    ("training", "others", "part", "options", "expected"),
    [
        ([EXECUTE], [[LOAD, PY_FUNC]], "steps", {}, "waiting for input, load (train.py:31)"),
        ([EXECUTE], [[LOAD]], "steps", {"cores": 0.0}, "waiting for input or a device"),
        ([EXECUTE], [], "steps", {"in_cluster": True, "cores": 0.1}, "waiting for another worker"),
        ([EXECUTE, SAVES, CALLBACKS], [], "callbacks", {}, "in the callback ModelCheckpoint.on_"),
        ([SLEEPS, CALLBACKS], [], "steps", {}, "in the callback Late.on_epoch_end (train.py:7)"),
        ([LOAD, SLEEPS, CALLBACKS], [], "steps", {}, "in the callback Late.on_epoch_end, load (tr"),
        ([STEP, TRACES], [[LOAD, PY_FUNC]], "first step", {}, "tracing the step, train_step (trai"),
        ([EXECUTE], [], "first step", {"cores": 1.5}, "computing or compiling the first step, or"),
        ([STEP], [], "steps", {}, "in train_step (train.py:50)"),
    ],
)  # fmt: skip
def test_the_stacks_show_what_the_process_does(training, others, part, options, expected):
    described = describe(training, others, part, **{"cores": None, "in_cluster": False, **options})
    assert described[1].startswith(expected)


class Call:
    """Stands in for the steps of a call."""

    def __init__(self):
        self.executions, self.step, self.suspended = 0, 0, False
        self.wall = SimpleNamespace(part="steps")
        self.own = SimpleNamespace(step_time_s=None)
        self.model = SimpleNamespace(steps_per_execution=1)
        self.frame = SimpleNamespace(stack=list, thread=threading.get_ident())
        self.written, self.output = [], self

    def suspended_since(self, moment_s):
        return self.suspended

    def write_record(self, kind, record, step=None):
        self.written.append(record)

    def event(self, kind, began_s, ended_s):
        assert kind == "hang"
        self.written.append(ended_s - began_s)


@pytest.fixture
def after(monkeypatch):
    """Lets seconds pass and looks."""
    clock, call = StoppedClock.of(monkeypatch, hangs), Call()
    watch = HangWatch(call)

    def pass_and_look(seconds, *, steps=0):
        clock.now_s += seconds
        call.executions += steps
        watch.poll()

    pass_and_look.call = call
    return pass_and_look


def printed(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_hang_is_said_once_and_once_that_it_is_over(after, capsys):
    call = after.call
    after(59)
    assert not printed(capsys)
    after(2)
    after(2)
    [line] = printed(capsys)
    said = "keras-gpukit: no step has ended for 61 s: waiting for input or a device"
    assert line.startswith(said)
    after(70)
    assert not printed(capsys)  # the record has the stacks of then
    after(1, steps=1)
    assert printed(capsys) == ["keras-gpukit: steps continue after 2.23 min."]
    *during, last, event = call.written
    assert [type(each) for each in during] == [Hang, Hang]
    assert all(each.lasted_s is None for each in during)
    assert last.lasted_s == event == pytest.approx(134)


def test_a_suspended_process_does_not_hang_and_the_limit_follows_the_steps(after, capsys):
    call = after.call
    call.suspended = True
    after(3600)
    call.suspended = False
    after(30)
    assert not printed(capsys)
    call.own.step_time_s = 5.0
    after(1, steps=1)
    after(99)
    assert not printed(capsys)
    after(2)
    assert "no step has ended for 101 s (usually 5 s)" in printed(capsys)[0]


def test_a_long_part_is_not_said_again_until_it_takes_twice_as_long(after, capsys):
    call = after.call
    call.wall.part = "callbacks"
    after(70)
    after(1, steps=1)
    assert len(printed(capsys)) == 2
    after(100)
    after(1, steps=1)
    assert not printed(capsys)
    call.wall.part = "steps"
    after(61)
    assert len(printed(capsys)) == 1


def test_the_live_page_says_so_while_it_lasts():
    hang = Hang(100.0, 40, "waiting for input, load (train.py:31)", "input")
    run = RunReport("train", "running", began_s=10.0, ended_s=200.0, hang=hang)
    assert "No step has ended since" in state_note(run)
    assert "waiting for input, load (train.py:31)." in state_note(run)
    over = replace(run, hang=replace(hang, lasted_s=30.0))
    assert "No step has ended" not in state_note(over)


def test_a_fit_that_waits_says_for_what_and_keeps_the_stacks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sampling, "SAMPLE_EVERY_S", 0.1)
    monkeypatch.setattr(hangs, "LEAST_S", 1.0)
    monkeypatch.setattr(hangs, "LEAST_STEPS", 1)

    blocked, said, over = (threading.Event() for _ in range(3))

    def then(event, original):
        def told(watch, *arguments):
            original(watch, *arguments)
            if blocked.is_set():
                event.set()

        return told

    for name, event in (("_report", said), ("_report_end", over)):
        monkeypatch.setattr(HangWatch, name, then(event, getattr(HangWatch, name)))

    def batches():
        for number in range(30):
            if number == 15:
                blocked.set()
                said.wait(60)
            if number == 29:
                over.wait(60)
            yield np.zeros((8, 8), "float32"), np.zeros((8, 1), "float32")

    small_model().fit(batches(), verbose=0, callbacks=[gpukit.Monitor(tmp_path)])
    *_, first, last = printed(capsys)  # before them, those on the first step's tracing
    where = place(__file__, batches.__code__.co_firstlineno + 4)
    assert f": waiting for input, batches ({where}), which waits for another thread" in first
    assert last.startswith("keras-gpukit: steps continue after ")
    assert load_report(tmp_path).runs[0].hang.lasted_s > 1.0
    lines = [json.loads(line) for line in (tmp_path / "gpukit/run.jsonl").read_text().splitlines()]
    records = [line["record"] for line in lines if line["kind"] == "hang"]
    assert records[0]["lasted_s"] is None
    assert records[-1]["lasted_s"] > 1.0
    assert any(f"batches ({where})" in stack for stack in records[-1]["stacks"])
