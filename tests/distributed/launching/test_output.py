"""What the processes print, as lines, and as one screen."""

import os
import time

import pytest
from helpers.screens import displayed

from keras_gpukit.distributed.launching.failures import Tail
from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.output import Lines, Screen, Stream, without_progress

BAR = (
    "\x1b[1m {0}/10\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━━━\x1b[0m \x1b[1m0s\x1b[0m 5ms/step - "
    "loss: 0.1000 - top_k: 1.2000e-04"
)


def test_lines_are_cut_wherever_the_reads_end():
    text = "one\ntwo\r\n" + "".join(f"\b\b\b\r{state}" for state in ("1/2", "2/2")) + "\n\nrest"
    for size in (1, 2, 3, 100):
        lines, data, found = Lines(), text.encode(), []
        for start in range(0, len(data), size):
            found += lines.feed(data[start : start + size])
        assert found == [b"one", b"two", b"2/2", b""]
        assert lines.unfinished == b"rest"
    for step in range(20_000):  # a bar without an end takes no memory
        assert lines.feed(f"\r{step}/20000 is the step".encode()) == []
    assert lines.unfinished == b"19999/20000 is the step"


def test_keras_progress_is_told_from_other_output():
    for line in (
        *("Epoch 1/3", BAR.format(7), ""),
        "    17/Unknown \x1b[1m3s\x1b[0m 2ms/step - loss: nan",
        "10/10 - 1s - 108ms/step - accuracy: 0.5 - val_loss: 2.5000e+03",
    ):
        assert without_progress(line.encode()) == b""
    assert without_progress(BAR.format(7).encode() + b"printed") == b"printed"
    for line in (b"\x1b[1mbold\x1b[0m", b"Epoch 1: val_loss improved", b"10/10 tests passed"):
        assert without_progress(line) == line


@pytest.mark.tensorflow
def test_what_keras_prints_is_recognized(capsys):
    import keras

    for verbose in (1, 2):
        for target in (3, None):
            bar = keras.utils.Progbar(target, verbose=verbose, interval=0)
            for step in (1, 2, 3):
                bar.update(step, [("loss", 0.25), ("tiny", 1e-9)], finalize=step == 3)
    lines = Lines()
    printed = lines.feed(capsys.readouterr().out.encode())
    assert len(printed) == 3
    assert not any(without_progress(line) for line in printed)


def test_lines_of_others_stand_above_the_bar(tmp_path):
    with (tmp_path / "output").open("w") as output:
        screen = Screen(output, {})
        screen.draw(b"1/3 loss", "worker 0")
        screen.write_line(b"hello", "worker 1")
        screen.draw(b"2/3 \x1b[1mloss", "worker 0")
        screen.write_line(b"again", "worker 1")
        shown = ["[worker 1] hello", "[worker 1] again"]
        drawn = (tmp_path / "output").read_bytes().decode()
        assert displayed(drawn) == [*shown, "[worker 0] 2/3 loss"]
        screen.draw(b"")
        screen.write_line(b"3/3 loss", "worker 0")
        drawn = (tmp_path / "output").read_bytes().decode()
        assert displayed(drawn) == [*shown, "[worker 0] 3/3 loss"]
        # What TensorFlow logs as processes are stopped does not count as the last line.
        screen.write_line(b"RuntimeError: disk full", "worker 1")
        log = b"0000 00:00:1795597207.071420   29417 preemption_notifier.cc:90] SIGTERM caught"
        screen.write_line(b"W" + log, "worker 0")
        assert screen.last == "worker 1"
        screen.write_line(b"E" + log, "worker 0")
        assert screen.last == "worker 0"


def test_without_a_terminal_a_bar_is_a_line_at_times(tmp_path, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with (tmp_path / "output").open("w") as output:
        task = Task("worker", 0, is_chief=True)
        stream = Stream(task, 0, Screen(output, {}), Tail(), None, is_error=False)
        for step in range(1, 101):
            now_s += 1
            os.write(stream.inner, f"\r{step}/100 of the epoch".encode() + b"\n" * (step == 100))
            stream.read()
        os.close(stream.inner)
        stream.close()
    assert (tmp_path / "output").read_text().splitlines() == [
        f"[worker 0] {step}/100 of the epoch" for step in (30, 60, 90, 100)
    ]
