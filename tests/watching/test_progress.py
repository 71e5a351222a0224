"""What a run notes while it goes on."""

from __future__ import annotations

import itertools
import json
import time
from types import SimpleNamespace

import pytest

from keras_gpukit.records import InputRecord, Progress, ThroughputRecord
from keras_gpukit.watching import progress, session
from keras_gpukit.watching.progress import InputSoFar, ProgressNotes


class Call:
    """Stands in for a session: a call in some part, at some step."""

    def __init__(self) -> None:
        self.phase, self.epoch, self.step = "fit", None, 0
        self.wall = SimpleNamespace(part="callbacks", is_over=False)
        self.written = []
        self.asked = 0
        self.own_steps = self.output = self

    def record(self, kind, record, step):
        self.written.append((kind, record, step))

    def input_so_far(self):
        self.asked += 1
        return InputRecord("fit", measured_steps=self.step)

    def throughput(self):
        return ThroughputRecord("fit", self.step, self.step, None, None)

    def with_stages(self, record):
        return record


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def call():
    return Call()


@pytest.fixture
def clock():
    return Clock()


def test_a_change_of_part_or_epoch_is_noted_and_else_only_now_and_then(call, clock):
    notes = ProgressNotes(call, {"epochs": 5, "steps": 30}, clock)
    notes.note()
    call.wall.part, call.epoch, call.step = "steps", 1, 12
    for _ in range(5):
        clock.now_s += 1
        call.step += 1
        notes.note()
    assert [record for _, record, _ in call.written] == [
        Progress("fit", "callbacks", 0, None, 5, 30),
        Progress("fit", "steps", 13, 1, 5, 30),
    ]
    clock.now_s += progress.NOTE_EVERY_S
    notes.note()
    call.epoch = 2
    notes.note()
    assert [step for *_, step in call.written] == [0, 13, 17, 17]


def test_what_keras_does_not_know_is_unknown(call, clock):
    call.phase, call.wall.part = "evaluate", "steps"
    ProgressNotes(call, {"epochs": 1, "steps": None}, clock).note()
    ProgressNotes(call, None, clock).note()
    assert [record for _, record, _ in call.written] == 2 * [Progress("evaluate", "steps", 0)]


def test_the_input_is_noted_in_the_first_seconds_and_then_more_rarely(call, clock):
    notes = InputSoFar(call, lambda record: record, clock)
    looks = []
    for second in range(1, 3600):
        clock.now_s = 100.0 + second
        asked = call.asked
        notes.on_window(None)
        notes.write()
        if call.asked > asked:
            looks.append(second)
    assert looks[0] <= 5
    assert len(call.written) / 2 == call.asked == len(looks) < 30
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert pauses == sorted(pauses)
    assert pauses[-1] <= progress.MOST_PAUSE_S
    call.wall.is_over = True  # the summary follows
    clock.now_s += 3600
    notes.on_window(None)
    assert call.asked == len(looks)


@pytest.mark.tensorflow
def test_a_fit_notes_the_stage_and_where_its_time_goes_while_it_goes_on(tmp_path, monkeypatch):
    import tensorflow as tf
    from helpers.training import fast_dataset, small_model

    from keras_gpukit import Monitor

    def load(inputs, targets):
        time.sleep(0.02)
        return inputs, targets

    def slowly(inputs, targets):
        loaded = tf.numpy_function(load, (inputs, targets), (tf.float32, tf.float32))
        return [tf.ensure_shape(a, b.shape) for a, b in zip(loaded, (inputs, targets), strict=True)]

    monkeypatch.setattr(progress, "FIRST_INPUT_S", 0.5)
    monkeypatch.setattr(progress, "LEAST_PAUSE_S", 0.1)
    monkeypatch.setattr(session, "SAMPLE_EVERY_S", 0.1)
    monitor = Monitor(tmp_path)
    data = fast_dataset(60).map(slowly)
    options = {"validation_data": fast_dataset(3), "verbose": 0, "callbacks": [monitor]}
    small_model().fit(data, epochs=2, **options)
    record = (tmp_path / "gpukit" / "run.jsonl").read_bytes()
    lines = list(map(json.loads, record.splitlines()))
    noted = [line["record"] for line in lines if line["kind"] == "progress"]
    assert [each["epoch"] for each in noted if each["part"] == "steps"] == [1, 2]
    assert {each["epochs"] for each in noted} == {2}

    final = monitor.summary.input
    inputs = [line["record"] for line in lines if line["kind"] == "input"]
    *inputs, last = [each for each in inputs if each["phase"] == "fit"]  # not of the validation
    assert inputs
    assert last["breakdown"]["wall_s"] == final.breakdown.wall_s
    for each in inputs:
        assert each["pipeline"]["bottleneck"]["name"] == final.pipeline.bottleneck.name == "slowly"
        assert 0 < each["breakdown"]["input_s"] < each["breakdown"]["wall_s"]
        assert each["breakdown"]["wall_s"] < final.breakdown.wall_s
