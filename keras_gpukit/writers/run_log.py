"""A run's log: every writer fed from one background thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from keras_gpukit.errors import Guard
from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import FOLDER, RecordKind, is_first
from keras_gpukit.records.run import RunHeader
from keras_gpukit.writers.event_file import EventFile
from keras_gpukit.writers.json_lines import JsonLines
from keras_gpukit.writers.own_name import own_name
from keras_gpukit.writers.process_identity import own_identity
from keras_gpukit.writers.writer import Record, Values, Writer

T = TypeVar("T")
OpenWriter = Callable[[Path, str], Writer]
"""Makes a writer from a run's folder, and a name there that is this process's own."""
WRITERS: tuple[OpenWriter, ...] = (
    # TensorBoard takes the event files of one folder for one run, and would mix their points.
    lambda folder, name: EventFile(folder if is_first(name) else folder / name),
    lambda folder, name: JsonLines(folder / f"{name}.jsonl"),
)
FLUSH_EVERY_S = 1.0
# A network disk that hangs must not keep `fit` from returning.
CLOSE_WITHIN_S = 10.0


class RunLog:
    """Writes what is handed to it about once a second; never raises.

    A writer that fails is reported once and left out; what it wrote stays readable.

    Args:
        log_dir: Files go to `<log_dir>/gpukit`.
        worker: Which process of a cluster this is; None outside one.
        writers: What to write with.
    """

    def __init__(
        self,
        log_dir: Path,
        worker: Worker | None = None,
        writers: Sequence[OpenWriter] = WRITERS,
    ) -> None:
        self.folder = log_dir / FOLDER
        self.cpu_s = self.opening_cpu_s = 0.0
        """Processor time that writing took: in all, and to open the files."""
        self._worker = worker
        self._open_writers = writers
        self._values: deque[Values] = deque()
        self._records: deque[Record] = deque()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-writer", daemon=True)
        now_s = time.time()
        header = RunHeader(SCHEMA, now_s, worker, own_identity())
        self._records.append(Record(now_s, None, "run", header))
        self._thread.start()

    def values(
        self, step: int, values: Mapping[str, float | str | None], time_s: float | None = None
    ) -> None:
        """Hands numbers or Markdown texts, by tag, to the writers; None is left out.

        Args:
            step: Global step.
            values: By tag.
            time_s: When they were read, in seconds since the Unix epoch; now unless given.
        """
        known = {tag: value for tag, value in values.items() if value is not None}
        if known and self._thread.is_alive():
            self._values.append(Values(time.time() if time_s is None else time_s, step, known))

    def record(self, kind: RecordKind, record: Any, step: int | None = None) -> None:
        """Hands a record to the writers.

        Args:
            kind: What it is.
            record: The record.
            step: Global step, where it belongs to one.
        """
        if self._thread.is_alive():
            self._records.append(Record(time.time(), step, kind, record))

    def close(self) -> None:
        """Writes what is left and closes the files; waits for a slow disk, but not for ever."""
        self._closing.set()
        self._thread.join(CLOSE_WITHIN_S)
        with self._guard():
            if self._thread.is_alive():
                raise TimeoutError(f"not done after {CLOSE_WITHIN_S:.0f} s")

    def _run(self) -> None:
        with self._guard():
            self.folder.mkdir(parents=True, exist_ok=True)
            with own_name(self.folder, self._worker) as name:
                self._run_writers(name)

    def _run_writers(self, name: str) -> None:
        writers: list[Writer] = []
        # Loading what event files need takes a moment, which must not fall into the
        # interpreter's shutdown: all are opened before there is anything to write.
        for open_writer in self._open_writers:
            with self._guard():
                writers.append(open_writer(self.folder, name))
        self.opening_cpu_s = self.cpu_s = time.thread_time()
        while writers and not self._closing.wait(FLUSH_EVERY_S):
            writers = self._flush(writers)
        for writer in self._flush(writers):
            with self._guard():
                writer.close()

    def _flush(self, writers: list[Writer]) -> list[Writer]:
        """Hands over what waits, and returns the writers that took it; others are closed."""
        records, values = _taken(self._records), _taken(self._values)
        able: list[Writer] = []
        for writer in writers:
            with self._guard(), ExitStack() as on_failure:
                on_failure.callback(writer.close)
                if records:
                    writer.write_records(records)
                if values:
                    writer.write_values(values)
                on_failure.pop_all()
                able.append(writer)
        self.cpu_s = time.thread_time()
        return able

    def _guard(self) -> Guard:
        return Guard(f"Writing to {self.folder}", "What comes after is not written.")


def _taken(waiting: deque[T]) -> list[T]:
    return [waiting.popleft() for _ in range(len(waiting))]
