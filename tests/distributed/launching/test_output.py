"""What the processes print, as lines and as one screen, and which of several that fail is named."""

import os
import signal
import time

import pytest
from helpers.screens import displayed

from keras_gpukit.distributed.launching.failures import Ending, Tail, describe, first_failure
from keras_gpukit.distributed.launching.job import Task
from keras_gpukit.distributed.launching.output import Lines, Screen, Stream, without_progress
from keras_gpukit.distributed.launching.workers import Arrivals

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
            stream.read_available()
        os.close(stream.inner)
        stream.close()
    assert (tmp_path / "output").read_text().splitlines() == [
        f"[worker 0] {step}/100 of the epoch" for step in (30, 60, 90, 100)
    ]


WORKERS = [Task("worker", index) for index in range(3)]
LOST = "keras_gpukit.errors.WorkerError: Lost contact with worker 1 at 127.0.0.1:4000: it ended"
UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: worker:1 is gone"


TRACEBACK = "Traceback (most recent call last):\n  File x, line 1\n"


def tail_of(text: str, at_s: float | None = None) -> Tail:
    tail = Tail()
    for number, line in enumerate(text.encode().splitlines()):
        tail.add_line(line, number if at_s is None else at_s, is_error=True)
    return tail


def ending(index: int, code: int | None, at_s: float, exception: str = "", **kwargs) -> Ending:
    text = f"{TRACEBACK}{exception}" if exception else ""
    tail = tail_of(text, kwargs.get("raised_s", at_s))
    return Ending(WORKERS[index], code, at_s, tail, kwargs.get("missing_s"))


@pytest.mark.parametrize(
    "endings",
    [
        # The last one is the cause.
        [ending(0, 1, 2.0, "ValueError: later"), ending(1, 1, 1.0, "ValueError: first")],
        [ending(0, 1, 1.0, UNAVAILABLE), ending(1, -9, 1.1)],
        [ending(0, 1, 1.0, LOST), ending(1, 1, 1.1, "ValueError: boom")],
        [ending(0, 1, 1.0, UNAVAILABLE), ending(1, 1, 2.0, "ValueError: boom")],
        [ending(0, 1, 1.0, UNAVAILABLE), ending(1, None, 3.0, "ValueError: hangs")],
        [ending(0, 1, 2.0, "ValueError: b"), ending(1, 1, 3.0, "ValueError: a", raised_s=1.0)],
        [ending(0, 1, 1.0, UNAVAILABLE), ending(1, 1, 0.5, UNAVAILABLE)],
    ],
)
def test_the_one_that_failed_first_by_itself_is_named(endings):
    assert first_failure(endings) is endings[-1]
    assert first_failure(endings[::-1]) is endings[-1]


@pytest.mark.parametrize(
    ("failure", "exit_code", "words"),
    [
        (ending(1, 3, 1.0), 3, "worker 1 ended with exit code 3."),
        (ending(1, -signal.SIGKILL, 1.0), 137, "was killed by SIGKILL, as by the kernel when"),
        (ending(1, -signal.SIGSEGV, 1.0), 139, "was killed by SIGSEGV."),
        (ending(1, -40, 1.0), 168, "was killed by signal 40."),
        (ending(1, None, 1.0, "ValueError: x"), 1, "raised an exception and did not end."),
        (ending(1, None, 1.0, missing_s=30.0), 124, "within 30 s: it is running, and no server"),
        (ending(1, 0, 1.0, missing_s=30.0), 124, "within 30 s: it has ended with exit code 0"),
    ],
)
def test_how_it_failed_is_said(failure, exit_code, words):
    assert failure.exit_code == exit_code
    assert words in describe(failure)


def test_what_followed_is_said_after_the_one_that_failed():
    text = describe(ending(1, -9, 1.0), [ending(0, 1, 1.1, UNAVAILABLE), ending(2, 1, 1.2)])
    assert text.startswith("worker 1 was killed by SIGKILL")
    assert f"worker 0 failed after it ({UNAVAILABLE}). worker 2 failed after it." in text


def test_who_does_not_come_is_known_after_the_timeout():
    listening: set[int] = set()
    arrivals = Arrivals(dict(zip(WORKERS, (1, 2, 3), strict=True)), 10.0, listening.__contains__)
    assert arrivals.overdue(1000.0) == ()  # while none has come, it is no cluster
    listening |= {1}
    assert arrivals.overdue(2000.0) == ()
    listening |= {3}
    assert arrivals.overdue(2009.0) == ()
    assert arrivals.overdue(2010.0) == (WORKERS[1],)
    listening |= {2}
    assert arrivals.overdue(2012.0) == ()


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
    tail = tail_of(f"{TRACEBACK}ValueError: boom")
    tail.add_line(b"1/3 of a bar", 9.0, is_error=False)  # standard output does not interrupt it
    assert tail.traceback().lines[-1] == b"ValueError: boom"
    assert tail.last(1) == (b"1/3 of a bar",)


def test_without_a_traceback_as_of_a_killed_process_there_are_the_last_lines():
    killed = ending(1, -9, 1.0, "ValueError: caught and logged long before")
    assert killed.traceback is None
    assert killed.last_words[-1] == b"ValueError: caught and logged long before"
    tail = tail_of("\n".join(str(number) for number in range(1000)))
    tail.add_line(b"I0000 00:00:1795552837.367649    1222 port.cc:153] On.", 1000.0, is_error=True)
    tail.add_line(
        b"F0000 00:00:1795552837.367649    1222 x.cc:1] Check failed", 1000.0, is_error=True
    )
    assert tail.traceback() is None
    assert tail.last(2) == (b"999", b"F0000 00:00:1795552837.367649    1222 x.cc:1] Check failed")
