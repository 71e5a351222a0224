"""What the processes print, as lines, and as one screen."""

from __future__ import annotations

import io
import os
import select
import time

import pytest
from helpers.screens import displayed

from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.lines import Lines, Tail, without_progress
from keras_gpukit.distributed.launching.screen import Screen
from keras_gpukit.distributed.launching.streams import Stream

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
        assert lines.end() == [b"rest"]
        assert lines.end() == []


def test_a_bar_without_an_end_takes_no_memory():
    lines = Lines()
    for step in range(20_000):
        assert lines.feed(f"\r{step}/20000 is the step".encode()) == []
    assert lines.end() == [b"19999/20000 is the step"]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("Epoch 1/3", ""),
        (BAR.format(7), ""),
        (BAR.format(7) + "printed by a callback", "printed by a callback"),
        ("    17/Unknown \x1b[1m3s\x1b[0m 2ms/step - loss: nan", ""),
        ("10/10 - 1s - 108ms/step - accuracy: 0.5 - val_loss: 2.5000e+03", ""),
        ("\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m"),
        ("Epoch 1: val_loss improved", "Epoch 1: val_loss improved"),
        ("10/10 tests passed", "10/10 tests passed"),
        ("", ""),
    ],
)
def test_keras_progress_is_told_from_other_output(line, left):
    assert without_progress(line.encode()).decode() == left


@pytest.mark.tensorflow
def test_what_keras_prints_is_recognized(capsys):
    import keras

    for verbose in (1, 2):
        for target in (3, None):
            bar = keras.utils.Progbar(target, verbose=verbose, interval=0)
            for step in (1, 2, 3):
                bar.update(step, [("loss", 0.25), ("tiny", 1e-9)], finalize=step == 3)
    lines = Lines()
    printed = [*lines.feed(capsys.readouterr().out.encode()), *lines.end()]
    assert len(printed) == 3
    assert not any(without_progress(line) for line in printed)


@pytest.fixture
def terminal():
    """A screen in a pseudo-terminal, and a function that returns what is displayed in it."""
    outer, inner = os.openpty()
    written = io.BytesIO()

    def show() -> list[str]:
        while select.select([outer], [], [], 0.1)[0]:
            written.write(os.read(outer, 1 << 16))
        return displayed(written.getvalue().decode())

    with open(inner, "w", closefd=True) as stream:
        yield Screen(stream, {"NO_COLOR": "1"}), show
    os.close(outer)


def test_what_tensorflow_logs_as_processes_are_stopped_does_not_hide_a_traceback(terminal):
    screen, _ = terminal
    words = (b"Traceback (most recent call last):", b"RuntimeError: disk full")
    for line in words:
        screen.write_line(line, "worker 1")
    screen.write_line(
        b"W0000 00:00:1795597207.071420   29417 preemption_notifier.cc:90] SIGTERM caught",
        "worker 0",
    )
    assert screen.ends_with(words, "worker 1")
    screen.write_line(b"E0000 00:00:1795597207.071420   29417 a.cc:9] lost", "worker 0")
    assert not screen.ends_with(words, "worker 1")


def test_lines_of_others_stand_above_the_line_that_is_being_drawn(terminal):
    screen, show = terminal
    screen.draw(b"Epoch 1/2\n\r1/3 loss", "worker 0")
    screen.write_line(b"hello", "worker 1")
    assert show() == ["[worker 0] Epoch 1/2", "[worker 1] hello", "[worker 0] 1/3 loss"]
    screen.draw(b"\b\b\b\b\b\b\b\b\r2/3 los", "worker 0")
    screen.draw(b"s\r", "worker 0")
    screen.write_line(b"again", "worker 1")
    screen.draw(b"3/3 \x1b[1mloss\x1b[0m\n", "worker 0")
    screen.write_line(b"end", "worker 1")
    assert show() == [
        "[worker 0] Epoch 1/2",
        "[worker 1] hello",
        "[worker 1] again",
        "[worker 0] 3/3 loss",
        "[worker 1] end",
    ]


def test_several_lines_that_are_drawn_again_keep_their_prefix(terminal):
    """As libraries draw that show several bars: the cursor goes up, and lines are erased."""
    screen, show = terminal
    screen.draw(b"first\nsecond", "chief")
    screen.draw(b"\r\x1b[2K\x1b[1A\x1b[2Kone\ntwo\n\n", "chief")
    assert show() == ["[chief] one", "[chief] two", "[chief]"]


def test_an_unfinished_line_is_ended_with_its_process(terminal):
    screen, show = terminal
    screen.draw(b"\r1/3", "worker 0")
    screen.end_line()
    screen.write_line(b"keras-gpukit launch: stopped")
    assert show() == ["[worker 0] 1/3", "keras-gpukit launch: stopped"]


def test_without_a_terminal_a_bar_is_a_line_at_times(tmp_path, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with (tmp_path / "output").open("w") as output:
        task = Task("worker", 0, is_chief=True)
        stream = Stream(task, 0, Screen(output, {}), Tail(), None, False)
        for step in range(1, 101):
            now_s += 1
            os.write(stream.inner, f"\r{step}/100 of the epoch".encode() + b"\n" * (step == 100))
            stream.read()
        os.close(stream.inner)
        stream.close()
    assert (tmp_path / "output").read_text().splitlines() == [
        f"[worker 0] {step}/100 of the epoch" for step in (30, 60, 90, 100)
    ]


def tail_of(text: str) -> Tail:
    tail = Tail()
    for at_s, line in enumerate(text.encode().splitlines()):
        tail.add(line, float(at_s), is_error=True)
    return tail


TRACEBACK = "Traceback (most recent call last):\n  File x, line 1\n"


def test_the_traceback_is_found_with_what_led_to_it():
    traceback = tail_of(
        f"starting\n{TRACEBACK}OSError: an old one, which was logged\nstill running\n"
        f"{TRACEBACK}KeyError: 'a'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"{TRACEBACK}ValueError: boom\nin two lines\n"
        "W0000 00:00:1795552837.367649    1222 server.cc:31] Shutting down\n"
        "2026-11-24 20:00:00.000000: I tensorflow/core/x.cc:1] Bye\n\n"
    ).traceback()
    assert traceback.at_s == 5
    assert traceback.exception == b"ValueError: boom"
    assert traceback.lines[2] == b"KeyError: 'a'"
    assert traceback.lines[-2:] == (b"ValueError: boom", b"in two lines")


def test_without_a_traceback_there_are_the_last_lines():
    tail = tail_of("\n".join(str(number) for number in range(1000)))
    tail.add(b"I0000 00:00:1795552837.367649    1222 port.cc:153] On.", 1000.0, is_error=True)
    tail.add(b"F0000 00:00:1795552837.367649    1222 x.cc:1] Check failed", 1000.0, is_error=True)
    assert tail.traceback() is None
    assert tail.last(2) == (b"999", b"F0000 00:00:1795552837.367649    1222 x.cc:1] Check failed")


def test_standard_output_does_not_interrupt_a_traceback():
    tail = tail_of(f"{TRACEBACK}ValueError: boom")
    tail.add(b"1/3 of a bar", 9.0, is_error=False)
    assert tail.traceback().lines[-1] == b"ValueError: boom"
    assert tail.last(1) == (b"1/3 of a bar",)
