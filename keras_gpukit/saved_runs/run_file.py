"""Reads the runs in a `run.jsonl` file, continuing where the last read ended."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from keras_gpukit.records.comparison import MOST_COMPARED
from keras_gpukit.records.names import SCHEMA
from keras_gpukit.records.report import RunReport
from keras_gpukit.saved_runs.folding import SERIES_POINTS
from keras_gpukit.saved_runs.folding.downsampling import MOST_POINTS
from keras_gpukit.saved_runs.run_lines import RunLine, RunLines

MOST_DETAILED = 4
"""Number of newest runs that are kept in full; older runs keep only their summary."""
MOST_LISTED = 500
LONGEST_BYTES = 4 * 2**20
"""Longest valid line; the summary of a large model has a hundredth of it."""
_HEAD_BYTES = 64
"""Bytes that identify a record file: they contain the time of its first line."""
_READINGS = tuple(
    b'{"kind":"%s"' % kind
    for kind in (
        *(b"steps", b"host", b"gpu", b"memory", b"event", b"progress", b"overhead", b"profile"),
        *(b"input", b"throughput", b"utilization"),
    )
)
"""Starts of the lines that a run's summary covers: nearly all of a file."""

Detail = Literal["summary", "means", "full"]

_decode = msgspec.json.Decoder(RunLine).decode


class RunFile:
    """A record file, which may still grow.

    If the file is one of many and its runs have summaries, lines of readings are skipped, which
    takes a fiftieth of the time. For a run without a summary, the readings are aggregated instead.
    """

    def __init__(self, path: Path, name: str, folder: str = "") -> None:
        self._path = path
        self._name = name
        self._folder = folder
        self._reported: tuple[RunReport, ...] = ()
        self._reported_to = -1
        self._restart("summary")

    def runs(self, now_s: float, *, in_full: bool = True) -> tuple[RunReport, ...]:
        """Reads the lines added since the last call, and returns all runs, the oldest first.

        With `in_full`, the newest ones have their time series.
        """
        if in_full != (self._detail == "full"):
            self._restart("full" if in_full else "summary")
        self._read()
        lacks_summaries = self._skipped_too_much or not (self._current and self._current.is_over)
        if self._detail == "summary" and lacks_summaries:
            self._restart("means")
            self._read()
        if self._current and not self._current.is_over and self._current.process_has_ended:
            self._read()  # the last lines, which the process wrote as it ended
        if self._offset != self._reported_to or not (self._current and self._current.is_over):
            running = [self._current.report(now_s)] if self._current else []
            self._reported, self._reported_to = (*self._ended, *running), self._offset
        return self._reported

    def _restart(self, detail: Detail) -> None:
        self._detail: Detail = detail
        self._skipped_too_much = False
        self._head = b""
        self._offset = self._lines = self._begun = 0
        self._reported_to = -1
        self._ended: deque[RunReport] = deque(maxlen=MOST_LISTED)
        self._current: RunLines | None = None

    def _read(self) -> None:
        with self._path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if not head.startswith(self._head) or os.fstat(file.fileno()).st_size < self._offset:
                self._restart(self._detail)  # another record replaced the file
            self._head = head
            file.seek(self._offset)
            for line, length in _whole_lines(file):
                self._offset += length
                self._lines += 1
                if self._detail == "summary" and line is not None and line.startswith(_READINGS):
                    self._skipped_too_much |= self._current is None
                else:
                    self._take(line)

    def _take(self, data: bytes | None) -> None:
        # Whatever a line contains, at most that line is lost.
        try:
            if data is None:
                raise ValueError("too long")
            line = _decode(data)
            if line.kind == "run":
                self._begin_run(line)
            self._run.take(line)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            self._run.unreadable(self._lines, str(error) or type(error).__name__)

    @property
    def _run(self) -> RunLines:
        return self._current or self._start("It has lost its beginning.")

    def _begin_run(self, line: RunLine) -> None:
        schema = msgspec.json.decode(line.record, type=_Head).schema
        newer = None
        if schema > SCHEMA:
            newer = (
                f"A newer keras_gpukit wrote it, in layout {schema}; this one knows {SCHEMA}, and "
                "may miss or misread what is newer. Read it with that version."
            )
        self._start(newer)

    def _start(self, note: str | None) -> RunLines:
        if self._current is not None:
            self._skipped_too_much |= not self._current.is_over
            self._ended.append(self._current.report(None))
            for most in (MOST_DETAILED, MOST_COMPARED):
                if len(self._ended) > most:
                    self._ended[-1 - most] = without_time_series(self._ended[-1 - most], most)
        self._begun += 1
        name = self._name if self._begun == 1 else f"{self._name} #{self._begun}"
        points = MOST_POINTS if self._detail == "full" else SERIES_POINTS
        self._current = RunLines(name, note, self._folder, points)
        return self._current


class _Head(msgspec.Struct):
    schema: int


def without_time_series(run: RunReport, newer: int) -> RunReport:
    """Returns a run without its time series and events, as one of many runs.

    If fewer than `MOST_COMPARED` are newer, the summary keeps the series of steps.
    """
    series = run.summary.series if newer < MOST_COMPARED else ()
    kept = tuple(figure for figure in series if figure.tag.startswith(("step/", "input/")))
    return replace(
        run,
        summary=replace(run.summary, series=kept),
        steps=None,
        host=None,
        gpus={},
        memory={},
        validation=None,
        events=(),
        has_time_series=False,
    )


def _whole_lines(file: BinaryIO) -> Iterator[tuple[bytes | None, int]]:
    """Yields each complete line, or None for one over `LONGEST_BYTES`, and its length in bytes."""
    while line := file.readline(LONGEST_BYTES):
        if line.endswith(b"\n"):
            yield line, len(line)
            continue
        length = len(line)
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_BYTES)
            length += len(line)
        if line:
            yield None, length
