"""Where a run is written: a TensorBoard event file and `run.jsonl`, from one background thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from keras_gpukit.errors import give_up
from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.records.names import FOLDER, RUN_FILE
from keras_gpukit.writers.event_file import EventFile
from keras_gpukit.writers.json_lines import JsonLines

FLUSH_EVERY_S = 1.0
# A network disk that hangs must not keep `fit` from returning.
CLOSE_WITHIN_S = 10.0


class _File(Protocol):
    def write(self, batch: Any, /) -> None: ...
    def close(self) -> None: ...


class _Feed:
    """A file, opened when first needed, and what waits to be written to it."""

    def __init__(self, open_file: Callable[[], _File]) -> None:
        self._open_file = open_file
        self._file: _File | None = None
        self._waiting: deque[Any] = deque()

    def add(self, item: Any) -> None:
        self._waiting.append(item)

    def open(self) -> _File:
        if self._file is None:
            self._file = self._open_file()
        return self._file

    def write(self) -> None:
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not batch:
            return
        self.open().write(batch)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class RunLog:
    """Writes what is handed to it about once a second; never raises.

    Should the disk take no more, that is said once, and what was written stays readable.

    Args:
        log_dir: Files go to `<log_dir>/gpukit`.
    """

    def __init__(self, log_dir: Path) -> None:
        self.folder = log_dir / FOLDER
        self.cpu_s = self.opening_cpu_s = 0.0
        """Processor time that writing took, in all and to begin with."""
        self._events = _Feed(lambda: EventFile(self.folder))
        self._records = _Feed(lambda: JsonLines(self.folder / RUN_FILE))
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-writer", daemon=True)
        now_s = time.time()
        self._records.add((now_s, None, "run", {"schema": SCHEMA, "time_s": now_s}))
        self._thread.start()

    def values(
        self, step: int, values: Mapping[str, float | str | None], time_s: float | None = None
    ) -> None:
        """Hands numbers or Markdown texts, by tag, to TensorBoard; None is left out.

        Args:
            step: Global step.
            values: By tag.
            time_s: When they were read, in seconds since the Unix epoch; now unless given.
        """
        known = {tag: value for tag, value in values.items() if value is not None}
        if known and self._thread.is_alive():
            self._events.add((time.time() if time_s is None else time_s, step, known))

    def record(self, kind: str, record: Any, step: int | None = None) -> None:
        """Hands a record to `run.jsonl`.

        Args:
            kind: What it is.
            record: The record.
            step: Global step, where it belongs to one.
        """
        if self._thread.is_alive():
            self._records.add((time.time(), step, kind, record))

    def close(self) -> None:
        """Writes what is left and closes the files; waits for a slow disk, but not for ever."""
        self._closing.set()
        self._thread.join(CLOSE_WITHIN_S)
        if self._thread.is_alive():
            self._give_up(TimeoutError(f"not done after {CLOSE_WITHIN_S:.0f} s"))

    def _run(self) -> None:
        try:
            with closing(self._records), closing(self._events):
                # Loading what event files need takes a moment, which must not fall into the
                # interpreter's shutdown.
                self._events.open()
                self.opening_cpu_s = self.cpu_s = time.thread_time()
                while not self._closing.wait(FLUSH_EVERY_S):
                    self._flush()
                self._flush()
        except Exception as error:
            self._give_up(error)

    def _flush(self) -> None:
        self._records.write()
        self._events.write()
        self.cpu_s = time.thread_time()

    def _give_up(self, error: Exception) -> None:
        give_up(f"Writing to {self.folder}", error, "What comes after is not written.")
