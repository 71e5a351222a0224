"""Writers of a run's records, and the background thread that passes the records to them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from keras_gpukit.errors import Guard
from keras_gpukit.records.names import RecordKind

FLUSH_EVERY_S = 1.0
# A network disk that hangs must not keep `fit` from returning.
CLOSE_WITHIN_S = 10.0


class Record(NamedTuple):
    """One record of a run: a dataclass of `keras_gpukit.records`, or plain data."""

    time_s: float
    step: int | None
    kind: RecordKind
    record: Any


class Writer:
    """Base class of writers.

    A `WriterThread` opens, calls and closes them. Training goes on whatever they raise.
    """

    def write_records(self, records: Sequence[Record], /) -> None:
        """Writes records in the given order."""
        raise NotImplementedError

    def close(self) -> None:
        """Writes the rest; called once, even after a failure."""
        raise NotImplementedError


class WriterThread:
    """Passes the records it gets to writers, about once a second; never raises.

    Writers are opened on the thread. If one fails, that is logged once, with `part` as the subject,
    and it is closed; the others continue.

    Attributes:
        cpu_s: Processor time of the thread.
        opening_cpu_s: Part of it that opened the writers.
    """

    def __init__(
        self,
        part: str,
        writers: Iterable[Callable[[], Writer]] = (),
        close_within_s: float | None = None,
    ) -> None:
        self.cpu_s = self.opening_cpu_s = 0.0
        self._part = part
        self._writers = writers
        self._close_within_s = close_within_s
        self._records: deque[Record] = deque()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpukit-writer", daemon=True)

    def start(self) -> None:
        """Opens the writers, on the thread."""
        self._thread.start()

    def write_record(
        self, kind: RecordKind, record: Any, step: int | None = None, time_s: float | None = None
    ) -> None:
        """Passes a record to the writers, made now if no time is given."""
        if self._thread.is_alive():
            made_s = time.time() if time_s is None else time_s
            self._records.append(Record(made_s, step, kind, record))

    @property
    def is_late(self) -> bool:
        """Whether it was closed, and still writes."""
        return self._closing.is_set() and self._thread.is_alive()

    def close(self, *, wait: bool = True) -> None:
        """Writes the rest and closes the writers, and by default waits for that."""
        self._closing.set()
        if not wait:
            return
        within_s = self._close_within_s or CLOSE_WITHIN_S
        self._thread.join(within_s)
        with self._guard():
            if self._thread.is_alive():
                raise TimeoutError(f"not done after {within_s:.0f} s")

    def _run(self) -> None:
        self._run_writers(self._writers)

    def _run_writers(self, open_writers: Iterable[Callable[[], Writer]]) -> None:
        writers: list[Writer] = []
        # All writers are opened before there is anything to write: the imports for event files take
        # a moment, and must not happen while the interpreter shuts down.
        for open_writer in open_writers:
            with self._guard():
                writers.append(open_writer())
        self.opening_cpu_s = self.cpu_s = time.thread_time()
        while writers and not self._closing.wait(FLUSH_EVERY_S):
            writers = self._flush(writers)
        for writer in self._flush(writers):
            with self._guard():
                writer.close()

    def _flush(self, writers: list[Writer]) -> list[Writer]:
        """Passes on what is waiting, closes writers that fail, and returns the others."""
        waiting = self._records
        records = [waiting.popleft() for _ in range(len(waiting))]
        able: list[Writer] = []
        for writer in writers:
            with self._guard(), ExitStack() as on_failure:
                on_failure.callback(writer.close)
                if records:
                    writer.write_records(records)
                on_failure.pop_all()
                able.append(writer)
        self.cpu_s = time.thread_time()
        return able

    def _guard(self) -> Guard:
        return Guard(self._part, "Nothing more is written in this run.")
