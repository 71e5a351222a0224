"""What a run notes while it goes on, its events among it, and the panel of a notebook."""

import itertools
import json
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
from helpers.stopped_clock import StoppedClock

from keras_gpukit.monitoring import input_so_far, live_view, run_output, sampling, session
from keras_gpukit.monitoring.input_so_far import InputSoFar
from keras_gpukit.monitoring.live_view import LiveView
from keras_gpukit.monitoring.run_output import SHORTEST_S, RunOutput
from keras_gpukit.monitoring.session import ProgressNotes
from keras_gpukit.records import InputRecord, Progress, RunEvent, ThroughputRecord
from keras_gpukit.reports.terminal import is_notebook, profiled_again


class Call:
    """Stands in for the steps of a call in some part, at some step."""

    def __init__(self) -> None:
        self.phase, self.epoch, self.step = "fit", None, 0
        self.wall = SimpleNamespace(part="callbacks", is_over=False)
        self.written = []
        self.asked = 0
        self.own = self.output = self

    def write_record(self, kind, record, step=None):
        self.written.append((kind, record, step))

    def input_so_far(self):
        self.asked += 1
        return InputRecord("fit", measured_steps=self.step)

    def throughput(self):
        return ThroughputRecord("fit", self.step, self.step, None, None)

    def with_stages(self, record):
        return record


def test_a_change_of_part_or_epoch_is_noted_and_else_only_now_and_then():
    call, clock = Call(), StoppedClock()
    notes = ProgressNotes(call, {"epochs": 5, "steps": 30}, clock.monotonic)
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
    clock.now_s += session.NOTE_EVERY_S
    notes.note()
    call.epoch = 2
    notes.note()
    assert [step for *_, step in call.written] == [0, 13, 17, 17]
    call = Call()
    call.phase, call.wall.part = "evaluate", "steps"
    for known in ({"epochs": 1, "steps": None}, None):  # what Keras does not know is unknown
        ProgressNotes(call, known, clock.monotonic).note()
    assert [record for _, record, _ in call.written] == 2 * [Progress("evaluate", "steps", 0)]


def test_the_input_is_noted_in_the_first_seconds_and_then_more_rarely():
    call, clock = Call(), StoppedClock()
    notes = InputSoFar(call, lambda record: record, clock.monotonic)
    looks = []
    for second in range(1, 3600):
        clock.now_s = second
        asked = call.asked
        notes.on_window(None)
        notes.write()
        if call.asked > asked:
            looks.append(second)
    assert looks[0] <= 5
    assert len(call.written) / 2 == call.asked == len(looks) < 30
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert pauses == sorted(pauses)
    assert pauses[-1] <= input_so_far.MOST_PAUSE_S
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

    monkeypatch.setattr(input_so_far, "FIRST_INPUT_S", 0.5)
    monkeypatch.setattr(input_so_far, "LEAST_PAUSE_S", 0.1)
    monkeypatch.setattr(sampling, "SAMPLE_EVERY_S", 0.1)
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


OUTPUT = RunOutput(None)
OUTPUT.start(None, "fit", lambda: 40)
OUTPUT.write_record("throughput", ThroughputRecord("fit", 40, 38, 0.02, 640.0))
OUTPUT.write_record("progress", Progress("fit", "steps", 0, 2, 3))


class ZMQInteractiveShell:
    """The kernel of Jupyter."""


class Shell(ZMQInteractiveShell):
    """Colab's."""


@pytest.fixture
def shown(monkeypatch):
    """IPython as it is loaded in a kernel; gives the texts that are shown, or raises one."""
    texts = []

    def show(bundle, *, raw):
        assert raw
        if texts and isinstance(texts[-1], Exception):
            raise texts[-1]
        texts.append(bundle["text/plain"])

    display = ModuleType("IPython.display")
    display.DisplayHandle = lambda: SimpleNamespace(display=show, update=show)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return texts


def test_only_a_kernel_is_a_notebook(monkeypatch):
    for shell in (ZMQInteractiveShell, Shell, SimpleNamespace):  # the last one is in a terminal
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=shell))
        assert is_notebook() == (shell is not SimpleNamespace)
    monkeypatch.delitem(sys.modules, "IPython")
    assert not is_notebook()


@pytest.mark.parametrize(
    ("words", "module", "command"),
    [
        (["my train.py", "--epochs", "3"], None, "'my train.py' --epochs 3"),
        (["/home/me/net/__main__.py", "-v"], "net.__main__", "-m net -v"),
        (["/usr/bin/keras-gpukit", "demo"], None, None),
        (["/lib/keras_gpukit/__main__.py", "demo"], "keras_gpukit.__main__", None),
    ],
)
def test_the_command_that_profiles_names_the_script_that_runs(monkeypatch, words, module, command):
    main = SimpleNamespace(__file__=words[0], __spec__=module and SimpleNamespace(name=module))
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", words)
    assert profiled_again() == (command and f"keras-gpukit run --profile {command}")
    del main.__file__
    assert profiled_again() is None


def test_it_shows_the_run_and_goes_when_that_ends(shown):
    view = LiveView(OUTPUT)
    view.update()
    view.close()
    first, running, last = shown
    assert "starting" in first
    assert "training, at step 40 in epoch 2 of 3" in running
    assert "20 ms per step" in running
    assert last == ""


def test_verdicts_become_rare_as_the_run_goes_on(shown, monkeypatch):
    clock, made = SimpleNamespace(now_s=0.0), []
    monkeypatch.setattr(live_view, "judge_run", lambda summary: made.append(clock.now_s) or summary)
    view = LiveView(OUTPUT, lambda: clock.now_s)
    for second in range(1, 101):
        clock.now_s = float(second)
        view.update()
    assert made == [5, 8, 12, 18, 27, 41, 62, 93]
    assert len(shown) == 101


def test_a_display_that_fails_is_dropped_without_a_word(shown, caplog):
    view = LiveView(OUTPUT)
    shown.append(RuntimeError("no such comm"))
    for _ in range(3):
        view.update()
    view.close()
    assert len(shown) == 2
    assert not caplog.records


class Model:
    """Takes three seconds to save."""

    def __init__(self, clock):
        self._clock = clock

    def save(self, path):
        self._clock.now_s += 3
        return f"saved to {path}"

    def save_weights(self, path):
        raise OSError("the disk is full")


def noting(events, step=lambda: 7):
    """An output that adds events to a list."""
    output = RunOutput(None)
    output.start(None, step=step)
    output.write_record = lambda kind, event, step: events.append(event)
    return output


def test_a_save_is_noted_and_does_what_it_did(monkeypatch, caplog):
    events, model = [], Model(StoppedClock.of(monkeypatch, run_output))
    output = noting(events)
    before = dict(vars(model))
    output.watch_saves(model)
    assert model.save("here") == "saved to here"
    with pytest.raises(OSError, match="disk is full"):
        model.save_weights("here")
    output.close()
    assert vars(model) == before
    assert events == [RunEvent("checkpoint", StoppedClock.UNIX_S, 3.0, 7)]
    # A failure to note is not the model's.
    output = noting(events, lambda: 1 / 0)
    output.watch_saves(model)
    assert model.save("here") == "saved to here"
    output.close()
    assert "Noting an event failed" in caplog.text


def test_parts_and_epochs_are_noted_if_they_can_be_seen(monkeypatch):
    events, clock = [], StoppedClock.of(monkeypatch, run_output)
    output = noting(events)
    output.part_ended("validation", -2.0, -1.0)
    output.part_ended("validation", -1.0, -1.0 + SHORTEST_S / 2)
    output.part_ended("steps", -1.0, 0.0)
    output.event("stood still", -9.0, -4.0)
    output.epoch_began()
    clock.now_s += 0.25
    output.epoch_ended(3)
    output.epoch_ended(3)  # by an exception, after which the call ends too
    noted = [(event.kind, event.number) for event in events]
    assert noted == [("validation", None), ("stood still", None), ("epoch", 3)]
    assert [event.duration_s for event in events] == [1, 5, 0.25]
    assert [event.began_s - StoppedClock.UNIX_S for event in events] == [-2, -9, 0]
