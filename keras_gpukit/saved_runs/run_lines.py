"""Builds the report of one run from its lines, which are added one by one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import msgspec

from keras_gpukit.records.capture import CaptureRecord
from keras_gpukit.records.codec import LARGEST, bounded, checked_record, quick_decoder
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.event import RunEvent
from keras_gpukit.records.hang import Hang
from keras_gpukit.records.host_buffers import HostBuffers
from keras_gpukit.records.learning import Learning
from keras_gpukit.records.machine import DeviceMemory, GPUSample, HostSample, MemoryRecord
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.records.names import RecordKind
from keras_gpukit.records.placement import PlacementRecord
from keras_gpukit.records.report import CaptureReport, RunReport, State
from keras_gpukit.records.run import Ending, RunHeader, RunSummary
from keras_gpukit.records.steps import InputRecord, Phase, Progress, StepWindow
from keras_gpukit.saved_runs.device_series import DeviceSeries
from keras_gpukit.saved_runs.downsampling import MOST_POINTS, Downsampler
from keras_gpukit.saved_runs.partial_summary import partial_summary
from keras_gpukit.saved_runs.run_events import RunEvents
from keras_gpukit.saved_runs.writing.process_identity import has_ended
from keras_gpukit.sensors.series import EpochMemoryCollector

FRESH_S = 30.0
"""A run without a new line for this long has ended; lines come about once a second. A run whose
process has ended is over without this wait."""
LATEST_S = 1e11
"""Latest valid time, in seconds since the Unix epoch: the year 5138."""
MOST_CAPTURES = 200
_STEPS = (
    *("step_time_s", "wait_s", "stall_fraction"),
    *("examples_per_s", "buffered_batches", "between_s"),
)
_HOST = tuple(HostSample.__dataclass_fields__)
_GPU = (
    *("utilization_percent", "memory_used_bytes", "memory_total_bytes"),
    *("power_watts", "temperature_celsius", "sm_clock_mhz"),
)
_MEMORY = ("current_bytes", "peak_bytes", "limit_bytes")
_KEPT: dict[RecordKind, type[Any]] = {
    "run": RunHeader,
    "hang": Hang,
    "environment": Environment,
    "placement": PlacementRecord,
    "input": InputRecord,
    "out_of_memory": OutOfMemory,
    "learning": Learning,
    "host_buffers": HostBuffers,
    "memory_by_cause": MemoryRecord,
    "summary": RunSummary,
}


class Line(msgspec.Struct, gc=False):
    """A line of `run.jsonl`, with its record still encoded."""

    kind: str
    record: msgspec.Raw
    time_s: float | None = None
    step: int | None = None


class RunLines:
    """Collects the lines of a run in fixed memory.

    Args:
        name: Name of the run.
        note: Note on a problem that is known from the start, such as a lost beginning.
        folder: Log folder of the run, relative to the report's folder.
        most_points: Maximum number of points per time series; even.
    """

    def __init__(
        self,
        name: str,
        note: str | None = None,
        *,
        folder: str = "",
        most_points: int = MOST_POINTS,
    ) -> None:
        self._name = name
        self._note = note
        self._folder = folder
        self._phase: Phase | None = None
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._progress: Progress | None = None
        self._part_since_s = 0.0  # when the part of the latest progress record was first recorded
        self._step = 0
        # The latest record of each kind that is kept.
        self._latest: dict[RecordKind, Any] = dict.fromkeys(_KEPT)
        self._last_host: tuple[float | None, ...] | None = None
        self._captures: list[CaptureReport] = []
        self._steps = Downsampler(_STEPS, most_points)
        self._validation = Downsampler(_STEPS, most_points)
        self._events = RunEvents()
        self._host = Downsampler(_HOST, most_points)
        self._gpus = DeviceSeries((*_GPU, "throttled"), most_points)
        self._memory = DeviceSeries(_MEMORY, most_points)
        self._latest_memory: dict[str, DeviceMemory] = {}
        self._epochs = EpochMemoryCollector()
        self._unreadable = 0
        self._first_fault = ""
        self._takers: dict[RecordKind, Callable[[Line, float], None]] = {
            "steps": self._take_steps,
            "host": self._take_host,
            "gpu": self._take_gpu,
            "memory": self._take_memory,
            "epoch": self._take_epoch,
            "capture": self._take_capture,
            "event": self._take_event,
            "progress": self._take_progress,
        }

    def take(self, line: Line) -> None:
        """Adds a line. Only the time and step of a line of unknown kind are used.

        Raises:
            Exception: If the line has no valid time, or the record does not match its kind.
        """
        time_s = line.time_s
        if time_s is None or not 0 < time_s < LATEST_S:
            raise ValueError("it does not say when it was written")
        kind = cast(RecordKind, line.kind)
        if kind in _KEPT:
            self._latest[kind] = record = checked_record(line.record, _KEPT[kind])
            if isinstance(record, RunSummary) and record.throughput is not None:
                self._set_phase(record.throughput.phase)
        elif taker := self._takers.get(kind):
            taker(line, time_s)
        if self._began_s is None:
            self._began_s = time_s
        self._ended_s = time_s
        self._step = max(self._step, line.step or 0)

    def unreadable(self, number: int, fault: str) -> None:
        """Counts a line that could not be read.

        Args:
            number: Number of the line in its file, from 1.
            fault: Description of the error.
        """
        self._unreadable += 1
        self._first_fault = self._first_fault or f"line {number:,}: {fault}"

    @property
    def is_over(self) -> bool:
        """Whether the run has a summary that states how it ended."""
        return self._ending is not None

    @property
    def _ending(self) -> Ending | None:
        summary: RunSummary | None = self._latest["summary"]
        return None if summary is None else summary.ending

    def report(self, now_s: float | None) -> RunReport:
        """Returns the run from the lines added so far.

        Args:
            now_s: Current time, in seconds since the Unix epoch; None if another run followed.
        """
        header: RunHeader | None = self._latest["run"]
        run = RunReport(
            name=self._name,
            state=self._state(now_s),
            phase=self._phase,
            began_s=self._began_s,
            ended_s=self._ended_s,
            steps=self._steps.series(),
            host=self._host.series(),
            gpus=self._gpus.series(),
            memory=self._memory.series(),
            captures=tuple(self._captures),
            validation=self._validation.series(),
            events=self._events.all(),
            worker=None if header is None else header.worker,
            progress=self._progress_so_far(),
            hang=self._latest["hang"],
            folder=self._folder,
            notes=self._notes(),
        )
        was_killed = run.state == "unfinished" and self.process_has_ended is not False
        summary = self._latest["summary"] or partial_summary(
            run,
            environment=self._latest["environment"],
            operations=self._latest["placement"],
            allocators=tuple(self._latest_memory.values()),
            epochs=self._epochs.record(),
            memory_by_cause=self._latest["memory_by_cause"],
            input_so_far=self._latest["input"],
            out_of_memory=self._latest["out_of_memory"],
            learning=self._latest["learning"],
            host_buffers=self._latest["host_buffers"],
            host_at_end=self._host_at_end() if run.state == "unfinished" else None,
            killed_in=run.progress if was_killed else None,
            first_step_s=self._first_step_s(),
            hangs=self._hangs(),
        )
        return replace(run, summary=summary)

    def _first_step_s(self) -> float | None:
        if self._progress is None or self._progress.part != "first step" or self._ended_s is None:
            return None
        return max(self._ended_s - self._part_since_s, 0.0)

    def _hangs(self) -> tuple[Hang, ...] | None:
        hang: Hang | None = self._latest["hang"]
        if hang is None or hang.lasted_s is not None:
            return None if hang is None else (hang,)
        return (replace(hang, lasted_s=max((self._ended_s or 0.0) - hang.began_s, 0.0)),)

    def _host_at_end(self) -> HostSample | None:
        values = self._last_host
        return None if values is None else HostSample(*values)  # type: ignore[arg-type]

    def _state(self, now_s: float | None) -> State:
        if self._ending is not None:
            return self._ending
        fresh = now_s is not None and now_s - (self._ended_s or 0.0) < FRESH_S
        return "running" if fresh and not self.process_has_ended else "unfinished"

    @property
    def process_has_ended(self) -> bool | None:
        """Whether the process that wrote the lines has ended; None if unknown."""
        header: RunHeader | None = self._latest["run"]
        return None if header is None else has_ended(header.process)

    def _notes(self) -> tuple[str, ...]:
        notes = [self._note] if self._note else []
        if self._unreadable:
            lines = "1 line" if self._unreadable == 1 else f"{self._unreadable:,} lines"
            notes.append(f"{lines} could not be read; the first is {self._first_fault}.")
        return tuple(notes)

    def _set_phase(self, phase: Phase) -> None:
        """Sets the phase of the run, which its first window may have got wrong: a validation's."""
        if self._phase not in (None, phase):
            self._steps, self._validation = self._validation, self._steps
        self._phase = phase

    def _progress_so_far(self) -> Progress | None:
        """Returns the latest progress record with the latest step, which other lines also have."""
        latest = self._progress
        return latest and replace(latest, step=max(latest.step, self._step))

    def _take_progress(self, line: Line, time_s: float) -> None:
        progress = checked_record(line.record, Progress)
        if self._progress is None or self._progress.part != progress.part:
            self._part_since_s = time_s
        self._progress = progress
        self._set_phase(progress.phase)

    def _take_capture(self, line: Line, time_s: float) -> None:
        if len(self._captures) == MOST_CAPTURES:
            raise ValueError(f"a run with more than {MOST_CAPTURES} captures")
        capture = checked_record(line.record, CaptureRecord)
        self._captures.append(CaptureReport(capture.run, capture))

    def _take_steps(self, line: Line, time_s: float) -> None:
        window = _decode_window(line.record)
        steps, duration_s = window.steps, window.duration_s
        if not (0 < steps < LARGEST and 0 < duration_s < LARGEST):
            raise ValueError("a window without steps or without time")
        if not 0 < window.time_s < LATEST_S:
            raise ValueError("a window that does not say when it ended")
        if self._phase is None:
            self._phase = window.phase
        # Windows of another phase than the run's are those of a validation within `fit`.
        readings = self._steps if window.phase == self._phase else self._validation
        wait_s, examples, between_s = window.input_wait_s, window.examples, window.between_s
        readings.add(
            window.time_s,  # not the line's: windows of short epochs are written later, together
            window.step,
            bounded(
                duration_s / steps,
                None if wait_s is None else wait_s / steps,
                None if wait_s is None else wait_s / duration_s,
                None if examples is None else examples / duration_s,
                window.buffered_batches,
                None if between_s is None else between_s / steps,
            ),
            (steps, steps, duration_s, duration_s, 1.0, steps),
        )

    def _take_event(self, line: Line, time_s: float) -> None:
        event = checked_record(line.record, RunEvent)
        if not (0 < event.began_s < LATEST_S and event.duration_s >= 0 and event.count == 1):
            raise ValueError("an event at no time")
        self._events.add(event)

    def _take_host(self, line: Line, time_s: float) -> None:
        self._last_host = values = bounded(*_host_values(_decode_host(line.record)))
        self._host.add(time_s, line.step, values)

    def _take_gpu(self, line: Line, time_s: float) -> None:
        sample = _decode_gpu(line.record)
        reasons = sample.throttle_reasons
        throttled = None if reasons is None else float(bool(reasons))
        values = (*bounded(*_gpu_values(sample)), throttled)
        self._gpus.add(str(sample.index), time_s, line.step, values)

    def _take_epoch(self, line: Line, time_s: float) -> None:
        self._epochs.add(checked_record(line.record, EpochMemory))

    def _take_memory(self, line: Line, time_s: float) -> None:
        reading = checked_record(line.record, DeviceMemory)
        self._memory.add(reading.device, time_s, line.step, bounded(*_memory_values(reading)))
        self._latest_memory[reading.device] = reading


# For a run of a million windows, these take most of the time.
_host_values, _gpu_values = operator.attrgetter(*_HOST), operator.attrgetter(*_GPU)
_memory_values = operator.attrgetter(*_MEMORY)
_decode_window = quick_decoder(StepWindow)
_decode_host = quick_decoder(HostSample)
_decode_gpu = quick_decoder(GPUSample)
