"""Interrupts a monitored `fit` at many lines of this package, and checks that the next is as new.

    python benchmarks/interrupts.py --json benchmarks/results/interrupts.json

Each trial raises `KeyboardInterrupt` at one executed line of the package on the training thread,
as Ctrl-C does, and then runs the same model and callbacks again. Prints what was left behind: a
thread, a wrapped step function, a session, a wrong number of steps, or a warning. The exit status
is 1 if there was any.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from harness import argument_parser
from results_file import save

import keras_gpukit as gpukit
from keras_gpukit.monitoring import session

PACKAGE = str(Path(gpukit.__file__).parent)
BATCHES = 6
FITS_BEFORE = 6
Stack = tuple[tuple[str, str, int], ...]


class InterruptAt:
    """Counts executed lines of the package on this thread, and raises at one, counted from 0."""

    def __init__(self, line: int | None) -> None:
        self.line = line
        self.count = 0
        self.stacks: list[Stack] = []
        self.place = ""

    def __enter__(self) -> InterruptAt:
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._on_line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.line is None:
                self.stacks.append(tuple(_stack(frame)))
            if self.count - 1 == self.line:
                self.place = f"{frame.f_code.co_filename[len(PACKAGE) + 1 :]}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._on_line


def _stack(frame: FrameType | None) -> Iterator[tuple[str, str, int]]:
    """Yields file, function and line of the package's frames, the innermost first."""
    while frame is not None and (path := frame.f_code.co_filename).startswith(PACKAGE):
        yield Path(path).name, frame.f_code.co_name, frame.f_lineno
        frame = frame.f_back


class Warnings(logging.Handler):
    """Keeps what the package logs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one message."""
        self.messages.append(record.getMessage())


class Trials:
    """A model that is fitted again and again, with a validation."""

    def __init__(self, log_dir: Path) -> None:
        self.model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        self.model.compile("sgd", "mse")
        self.monitor = gpukit.Monitor(log_dir, verbose=0)
        self.data = (np.zeros((BATCHES, 4), "float32"), np.zeros((BATCHES, 1), "float32"))
        self.warnings = Warnings()
        logging.getLogger("keras_gpukit").addHandler(self.warnings)
        # What is done once in a process, or while it takes more memory, is no part of the trials.
        self._stacks = min((self._traced() for _ in range(FITS_BEFORE)), key=len)
        self.lines = len(self._stacks)

    def _traced(self) -> list[Stack]:
        """Where the lines of a fit are."""
        with InterruptAt(None) as tracer:
            self.fit()
        return tracer.stacks

    def lines_in(self, file: str, functions: tuple[str, ...]) -> list[int]:
        """Returns the executed lines of some functions of a file, once for each way to them."""
        ways = {stack: line for line, stack in reversed(list(enumerate(self._stacks)))}
        return sorted(
            line
            for ((name, function, _), *_), line in ways.items()
            if name == file and function in functions
        )

    def fit(self) -> None:
        """One short run."""
        data = {"x": self.data[0], "y": self.data[1], "validation_data": self.data}
        self.model.fit(**data, batch_size=1, verbose=0, callbacks=[self.monitor])

    def left_behind(self, line: int) -> Iterator[str]:
        """Interrupts a run at a line, runs again, and yields what was not as new."""
        self.warnings.messages.clear()
        tracer = InterruptAt(line)
        try:
            with tracer:
                self.fit()
        except KeyboardInterrupt:
            pass
        self.fit()
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("gpukit")]
        if left:
            yield f"{tracer.place}: threads {left}"
        if session._open:
            yield f"{tracer.place}: sessions {len(session._open)}"
            session.end_all()
        for name in ("train_function", "test_function"):
            if hasattr(getattr(self.model, name), "__wrapped__"):
                yield f"{tracer.place}: {name} is wrapped"
        summary = self.monitor.summary
        if summary is None or summary.throughput is None or summary.throughput.steps != BATCHES:
            yield f"{tracer.place}: steps {summary and summary.throughput}"
        elif summary.ending != "completed":
            yield f"{tracer.place}: ending {summary.ending}"
        for message in self.warnings.messages:
            yield f"{tracer.place}: {message}"


def main() -> int:
    """Runs the trials."""
    parser = argument_parser(__doc__)
    parser.add_argument("--every", type=int, default=13, help="one trial at so many lines")
    parser.add_argument("--first", type=int, default=0, help="the first line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as log_dir:
        trials = Trials(Path(log_dir))
        lines = range(arguments.first, trials.lines, arguments.every)
        bad: dict[int, list[str]] = {}
        for line in lines:
            if left := list(trials.left_behind(line)):
                bad[line] = left
                print(f"line {line} of {trials.lines}: {'; '.join(left)}", flush=True)
    print(f"{len(bad)} of {len(lines)} interrupts left something behind")
    save(arguments.json, __file__, lines=trials.lines, interrupts=len(lines), left_behind=bad)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
