"""Where a run is written: a TensorBoard event file and `run.jsonl`, from one background thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from keras_gpukit.errors import give_up
from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.writers.event_file import EventFile
from keras_gpukit.writers.json_lines import JsonLines

FOLDER = "gpukit"
FLUSH_EVERY_S = 1.0


class _File(Protocol):
    def write(self, batch: Any, /) -> None: ...
    def close(self) -> None: ...


class _Feed:
    """A file and what waits to be written to it; given up with one warning when it fails."""

    def __init__(self, path: Path, open_file: Callable[[], _File]) -> None:
        self._path = path
        self._open_file = open_file
        self._file: _File | None = None
        self._failed = False
        self._waiting: deque[Any] = deque()

    def add(self, item: Any) -> None:
        if not self._failed:
            self._waiting.append(item)

    def write(self) -> None:
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if self._failed or not batch:
            return
        try:
            if self._file is None:
                self._file = self._open_file()
            self._file.write(batch)
        except Exception as error:
            self._failed = True
            give_up(f"Writing to {self._path}", error, "What comes after is not written.")

    def close(self) -> None:
        self.write()
        if self._file is not None:
            self._file.close()


class RunLog:
    """Writes what is handed to it about once a second; never blocks and never raises.

    Args:
        log_dir: Files go to `<log_dir>/gpukit`.
    """

    def __init__(self, log_dir: Path) -> None:
        self.folder = log_dir / FOLDER
        self.cpu_s = 0.0
        """Processor time that writing took."""
        self._events = _Feed(self.folder, lambda: EventFile(self.folder))
        records = self.folder / "run.jsonl"
        self._records = _Feed(records, lambda: JsonLines(records))
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-writer", daemon=True)
        self._records.add(("run", {"schema": SCHEMA, "time_s": time.time()}))
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
        if known:
            self._events.add((time.time() if time_s is None else time_s, step, known))

    def record(self, kind: str, record: Any) -> None:
        """Hands a record to `run.jsonl`."""
        self._records.add((kind, record))

    def close(self) -> None:
        """Writes what is left and closes the files."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(FLUSH_EVERY_S):
            self._events.write()
            self._records.write()
            self.cpu_s = time.thread_time()
        self._events.close()
        self._records.close()
        self.cpu_s = time.thread_time()
