"""Builds the report of one run from its lines, which are added one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec

from keras_gpukit.records.cluster import WorkerComparison
from keras_gpukit.records.codec import LARGEST, check_numbers, checked_record
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.event import Hang, Learning, RunEvent
from keras_gpukit.records.machine import (
    DeviceMemory,
    EpochMemory,
    GPUSample,
    HostSample,
    MemoryRecord,
    UtilizationRecord,
)
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.names import RecordKind
from keras_gpukit.records.pipeline import HostBuffers
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.profile import CaptureRecord, ProfileRecord, ProfilerRecord
from keras_gpukit.records.report import CaptureReport, RunReport, State, TimeSeries
from keras_gpukit.records.run import Ending, Overhead, RunEnd, RunHeader, RunSummary, StepFlops
from keras_gpukit.records.script import StackTimes
from keras_gpukit.records.steps import InputRecord, Progress, StepWindow, ThroughputRecord
from keras_gpukit.rules import judge_run
from keras_gpukit.saved_runs.folding import RunFold
from keras_gpukit.saved_runs.folding.downsampling import Downsampler
from keras_gpukit.saved_runs.folding.tags import (
    SHOWN_OF_GPU,
    SHOWN_OF_STEPS,
    gpu_values,
    host_values,
    step_figures,
)
from keras_gpukit.saved_runs.writing.run_log import has_ended

FRESH_S = 30.0
"""A run without a new line for this long has ended; lines come about once a second. A run whose
process has ended is over without this wait."""
LATEST_S = 1e11
"""Latest valid time, in seconds since the Unix epoch: the year 5138."""
MOST_DEVICES = 64
"""Maximum number of devices of one kind in a run; a damaged file may name any number."""
_KINDS: dict[RecordKind, type[Any]] = {
    "run": RunHeader,
    "memory": DeviceMemory,
    "epoch": EpochMemory,
    "capture": CaptureRecord,
    "event": RunEvent,
    "progress": Progress,
    "hang": Hang,
    "environment": Environment,
    "placement": PlacementRecord,
    "flops": StepFlops,
    "throughput": ThroughputRecord,
    "input": InputRecord,
    "out_of_memory": OutOfMemory,
    "learning": Learning,
    "stacks": StackTimes,
    "host_buffers": HostBuffers,
    "memory_by_cause": MemoryRecord,
    "utilization": UtilizationRecord,
    "profiler": ProfilerRecord,
    "profile": ProfileRecord,
    "overhead": Overhead,
    "workers": WorkerComparison,
    "end": RunEnd,
    "summary": RunSummary,
}
# Nearly all of a file. They are decoded at once; of the others, each number is checked before.
_READINGS = {
    "steps": msgspec.json.Decoder(StepWindow).decode,
    "host": msgspec.json.Decoder(HostSample).decode,
    "gpu": msgspec.json.Decoder(GPUSample).decode,
}


class RunLine(msgspec.Struct, gc=False):
    """A line of `run.jsonl`, with its record still encoded."""

    kind: str
    record: msgspec.Raw
    time_s: float | None = None
    step: int | None = None


class RunLines:
    """Collects the lines of a run in fixed memory.

    A note says what is known to be wrong from the start, such as a lost beginning.
    """

    def __init__(self, name: str, note: str | None, folder: str, most_points: int) -> None:
        self._name = name
        self._note = note
        self._folder = folder
        self._fold = RunFold(most_points)
        self._unreadable = 0
        self._first_fault = ""

    def take(self, line: RunLine) -> None:
        """Adds a line, of unknown kind only its time and step; raises an error if it is wrong."""
        time_s, kind, fold = line.time_s, cast(RecordKind, line.kind), self._fold
        if time_s is None or not 0 < time_s < LATEST_S:
            raise ValueError("it does not say when it was written")
        record: Any = None
        if kind in _READINGS:
            record = _READINGS[kind](line.record)
        elif kind in _KINDS:
            record = checked_record(line.record, _KINDS[kind])
        if kind == "steps":
            _check_window(record)
        elif kind == "host":
            check_numbers(host_values(record))
        elif kind == "gpu":
            check_numbers(gpu_values(record))
            _check_device(fold.gpus, str(record.index))
        elif kind == "memory":
            _check_device(fold.memory, record.device)
        elif kind == "event":
            _check_event(record)
        elif kind == "profile" and record.steps < 1:
            raise ValueError("it is a profile without steps")
        fold.add_record(kind, record, time_s, line.step)

    def unreadable(self, number: int, fault: str) -> None:
        """Counts a line, by its number in the file from 1, that could not be read."""
        self._unreadable += 1
        self._first_fault = self._first_fault or f"line {number:,}: {fault}"

    @property
    def is_over(self) -> bool:
        """Whether the run has a summary that states how it ended."""
        return self._summary is not None and self._summary.ending is not None

    @property
    def _summary(self) -> RunSummary | None:
        return self._fold.latest.get("summary")

    def report(self, now_s: float | None) -> RunReport:
        """Returns the run from the lines so far; without the current time if another followed."""
        fold = self._fold
        header: RunHeader | None = fold.latest.get("run")
        state = self._state(now_s)
        return RunReport(
            name=self._name,
            state=state,
            phase=fold.phase,
            began_s=fold.began_s,
            ended_s=fold.ended_s,
            summary=self._summary or self._summary_so_far(state),
            steps=fold.steps.series(SHOWN_OF_STEPS),
            host=fold.host.series(),
            gpus=_series_of(fold.gpus, SHOWN_OF_GPU),
            memory=_series_of(fold.memory),
            captures=tuple(CaptureReport(record.run, record) for record in fold.captures.values()),
            validation=fold.validation.series(SHOWN_OF_STEPS),
            events=fold.events(),
            worker=None if header is None else header.worker,
            progress=fold.progress(),
            hang=fold.latest.get("hang"),
            folder=self._folder,
            notes=self._notes(),
        )

    def _summary_so_far(self, state: State) -> RunSummary:
        """Returns the summary of a run that has written none, with a verdict if it is known."""
        fold = self._fold
        unfinished = state == "unfinished"
        was_killed = unfinished and self.process_has_ended is not False
        summary = replace(
            fold.summary(),
            host_at_end=fold.latest.get("host") if unfinished else None,
            killed_in=fold.progress() if was_killed else None,
        )
        return judge_run(summary)

    def _state(self, now_s: float | None) -> State:
        ending: Ending | None = None if self._summary is None else self._summary.ending
        if ending is not None:
            return ending
        fresh = now_s is not None and now_s - (self._fold.ended_s or 0.0) < FRESH_S
        return "running" if fresh and not self.process_has_ended else "unfinished"

    @property
    def process_has_ended(self) -> bool | None:
        """Whether the process that wrote the lines has ended; None if unknown."""
        header: RunHeader | None = self._fold.latest.get("run")
        return None if header is None else has_ended(header.process)

    def _notes(self) -> tuple[str, ...]:
        notes = [self._note] if self._note else []
        if self._unreadable:
            lines = "1 line" if self._unreadable == 1 else f"{self._unreadable:,} lines"
            notes.append(f"{lines} could not be read; the first is {self._first_fault}.")
        return tuple(notes)


def _series_of(
    devices: dict[str, Downsampler], figures: int | None = None
) -> dict[str, TimeSeries]:
    of_each = {device: points.series(figures) for device, points in devices.items()}
    return {device: series for device, series in of_each.items() if series is not None}


def _check_window(window: StepWindow) -> None:
    if not (0 < window.steps < LARGEST and 0 < window.duration_s < LARGEST):
        raise ValueError("a window without steps or without time")
    if not 0 < window.time_s < LATEST_S:
        raise ValueError("a window that does not say when it ended")
    check_numbers((*step_figures(window), window.most_wait_s))


def _check_device(known: dict[str, Downsampler], device: str) -> None:
    if device not in known and len(known) == MOST_DEVICES:
        raise ValueError(f"more than {MOST_DEVICES} devices")


def _check_event(event: RunEvent) -> None:
    if not (0 < event.began_s < LATEST_S and event.duration_s >= 0 and event.count == 1):
        raise ValueError("an event at no time")
