"""Base class of the writers to other services: what they log, and how often."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from keras_gpukit.records import names
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports.run_words import headline_of
from keras_gpukit.reports.text import markdown
from keras_gpukit.saved_runs.folding.run_fold import RunFold
from keras_gpukit.saved_runs.writing.writer_thread import Record, Writer

POINT_EVERY_S = 10.0
"""Minimum seconds between two points of a figure. Our choice: 360 points an hour, where each may be
a request to a server."""


class Exporter(Writer):
    """Makes a point of all windows of steps since the last one, and passes on the summary.

    Attributes:
        began_s: Time of the first record; None before that.
    """

    def __init__(self) -> None:
        self.began_s: float | None = None
        self._since_point = RunFold()
        self._point_s = -math.inf

    def log_point(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the figures of the steps since the last point: speed, input and memory only."""
        raise NotImplementedError

    def log_end(self, summary: RunSummary, time_s: float, step: int) -> None:
        """Logs the summary of the run, with its findings."""
        raise NotImplementedError

    def write_records(self, records: Sequence[Record], /) -> None:
        """Logs a point if one is due, and the summary if it is among the records."""
        for time_s, step, kind, record in records:
            self.began_s = self.began_s or time_s
            if kind == "memory" or (kind == "steps" and record.phase == "fit"):
                self._since_point.add(kind, record, time_s, step)
            elif kind == "summary":
                self._end_point(time_s, step or 0)
                self.log_end(record, time_s, step or 0)
        last_s, last_step = records[-1][:2]
        if last_s - self._point_s >= POINT_EVERY_S:
            self._end_point(last_s, last_step or 0)

    def _end_point(self, time_s: float, step: int) -> None:
        if self._since_point.steps.readings:
            summary, self._since_point = self._since_point.summary(), RunFold()
            self._point_s = time_s
            self.log_point(summary, time_s, step)


def figures_of(summary: RunSummary, prefix: str = "gpukit") -> dict[str, float]:
    """Returns input stall, step time, examples per second and peak memory, as far as known.

    Each has the name of its TensorBoard tag, after the prefix.
    """
    stall, step_time_s = summary.input_stall_fraction, summary.step_time_s
    figures = {
        names.INPUT_STALL: None if stall is None else 100 * stall,
        names.STEP_TIME: None if step_time_s is None else 1e3 * step_time_s,
        names.EXAMPLE_RATE: summary.examples_per_s,
    }
    for memory in summary.allocators:
        figures[names.memory_tag(memory.device, "peak_bytes")] = memory.peak_bytes
    return {f"{prefix}/{tag}": value for tag, value in figures.items() if value is not None}


def figures_of_run(summary: RunSummary) -> dict[str, float]:
    """Returns the figures of a whole run, and what each finding's cause costs, in seconds."""
    figures = figures_of(summary, "gpukit/run")
    for finding in summary.verdict.findings:
        if finding.saving is not None:
            saving = f"gpukit/finding/{finding.code}/saving"
            figures.setdefault(f"{saving}_low_s", finding.saving.low_s)
            if finding.saving.high_s is not None:
                figures.setdefault(f"{saving}_high_s", finding.saving.high_s)
    return figures


def texts_of(summary: RunSummary) -> dict[str, str]:
    """Returns the verdict in a line, and the codes of the findings, the most important first."""
    codes = ", ".join(finding.code for finding in summary.verdict.findings) or "none"
    return {"verdict": headline_of(summary).text, "findings": codes}


def files_of(summary: RunSummary) -> dict[str, str]:
    """Returns the run as files by name: for people, and for programs."""
    as_json = msgspec.json.encode(summary).decode()
    return {"verdict.md": markdown(summary), "summary.json": as_json}
