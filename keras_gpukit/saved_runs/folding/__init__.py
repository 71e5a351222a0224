"""Folds a run's records into its summary, live or read back; reads no machine and no clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.event import EventKind, Hang, RunEvent, Series
from keras_gpukit.records.machine import (
    DeviceMemory,
    GPUSample,
    GPUUtilization,
    HostUtilization,
    MemoryRecord,
    ThrottleReason,
    UtilizationRecord,
)
from keras_gpukit.records.names import RecordKind
from keras_gpukit.records.profile import CaptureRecord, ProfilerRecord
from keras_gpukit.records.run import RunEnd, RunSummary
from keras_gpukit.records.steps import InputRecord, Phase, Progress, StepWindow, ThroughputRecord
from keras_gpukit.saved_runs.folding import tags
from keras_gpukit.saved_runs.folding.downsampling import (
    MOST_EVENTS,
    MOST_POINTS,
    Downsampler,
    EpochReadings,
    Joined,
    merged_events,
)

SERIES_POINTS = 128
"""Maximum number of points in a series of a summary; even."""
MOST_CAPTURES = 200
MOST_HANGS = 20


class RunFold:
    """State of a run by its records, in fixed memory.

    Records of a kind that says how something is so far replace the one before; readings are summed
    up. The same records give the same summary, wherever they come from.

    Attributes:
        captures: Captures by name and path; once one's profile was compared, that record.
        validation: Figures of the windows of validations within the run.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most_points = most_points
        self.phase: Phase | None = None
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.latest: dict[RecordKind, Any] = {}
        self.captures: dict[tuple[str, str | None], CaptureRecord] = {}
        self.steps = Downsampler(tags.OF_STEPS, most_points)
        self.validation = Downsampler(tags.OF_STEPS, most_points)
        self._have_ranges: set[Phase] = set()
        self.host = Downsampler(tags.OF_HOST, most_points)
        self.gpus: dict[str, Downsampler] = {}
        self.memory: dict[str, Downsampler] = {}
        self._overhead = Downsampler(tuple(tags.OVERHEAD), most_points)
        self._throttling: dict[str, Counter[ThrottleReason]] = {}
        self._allocators: dict[str, DeviceMemory] = {}
        self._no_allocator: str | None = None
        self._epochs = EpochReadings()
        self._events: dict[EventKind, Joined[RunEvent]] = {}
        self._hangs: list[Hang] = []
        self._step = 0
        self._part_since_s = 0.0
        # The latest record on each phase's steps, and the number of windows before it.
        self._on_steps: dict[tuple[str, Phase], tuple[Any, int]] = {}

    def add_record(self, kind: RecordKind, record: Any, time_s: float, step: int | None) -> None:
        """Adds a record; of kinds other than those of `RecordKind`, only the time."""
        if self.began_s is None:
            self.began_s = time_s
        self.ended_s = time_s
        self._step = max(self._step, step or 0)
        if kind == "steps":
            self._add_window(record)
        elif kind == "host":
            self.host.add_reading(time_s, step, tags.host_values(record))
        elif kind == "gpu":
            self._add_gpu(record, time_s, step)
        elif kind == "memory":
            stream = self._stream(self.memory, record.device, tags.OF_MEMORY)
            stream.add_reading(time_s, step, tags.memory_values(record))
            self._allocators[record.device] = record
        elif kind == "overhead":
            if record.steps:
                self._overhead.add_reading(time_s, step, (record.step_s,), (record.steps,))
        elif kind == "epoch":
            self._epochs.add(record)
        elif kind == "event":
            empty: Joined[RunEvent] = Joined(MOST_EVENTS, merged_events)
            self._events.setdefault(record.kind, empty).add(record)
        elif kind == "capture":
            key = record.run, record.path
            if key in self.captures or len(self.captures) < MOST_CAPTURES:
                self.captures[key] = record
        elif kind in ("throughput", "input"):
            windows = self._windows(record.phase).readings
            self._on_steps[kind, record.phase] = record, windows
        else:
            self._add_latest(kind, record, time_s)
        self.latest[kind] = record

    def _add_latest(self, kind: RecordKind, record: Any, time_s: float) -> None:
        if kind in ("run", "progress"):
            self.phase = self.phase or record.phase
        if kind == "progress":
            before: Progress | None = self.latest.get("progress")
            if before is None or before.part != record.part:
                self._part_since_s = time_s
        elif kind == "hang" and record.lasted_s is not None and len(self._hangs) < MOST_HANGS:
            self._hangs.append(record)
        elif kind == "memory_by_cause":
            self._no_allocator = record.unknown_because or self._no_allocator
        elif kind == "summary" and record.throughput is not None:
            self.phase = record.throughput.phase

    def _windows(self, phase: Phase) -> Downsampler:
        """Returns the figures of the run's windows, or of those of its validations."""
        return self.steps if self.phase in (None, phase) else self.validation

    def _stream(
        self, streams: dict[str, Downsampler], device: str, figures: tuple[str, ...]
    ) -> Downsampler:
        if device not in streams:
            streams[device] = Downsampler(figures, self._most_points)
        return streams[device]

    def _add_window(self, window: StepWindow) -> None:
        self.phase = self.phase or window.phase
        steps, duration_s, most_wait_s = window.steps, window.duration_s, window.most_wait_s
        if most_wait_s is None:
            most_wait_s = window.input_wait_s
        else:
            self._have_ranges.add(window.phase)
        most_stall_fraction = None if most_wait_s is None else most_wait_s / duration_s
        self._windows(window.phase).add_reading(
            window.time_s,  # not the record's: windows of short epochs are written later, together
            window.step,
            (*tags.step_figures(window), most_stall_fraction),
            (steps, steps, duration_s, duration_s, 1.0, steps, duration_s),
        )

    def _add_gpu(self, sample: GPUSample, time_s: float, step: int | None) -> None:
        index, reasons = str(sample.index), sample.throttle_reasons
        stream = self._stream(self.gpus, index, tags.OF_GPU)
        stream.add_reading(time_s, step, tags.gpu_values(sample))
        if reasons:
            self._throttling.setdefault(index, Counter()).update(reasons)

    def events(self) -> tuple[RunEvent, ...]:
        """Returns the events grouped by kind, in order within each kind."""
        return tuple(event for events in self._events.values() for event in events.items)

    def progress(self) -> Progress | None:
        """Returns the latest progress with the latest step, which other records also have."""
        latest: Progress | None = self.latest.get("progress")
        return latest and replace(latest, step=max(latest.step, self._step))

    def summary(self) -> RunSummary:
        """Returns the summary of the run so far, without a verdict and a comparison to a profile.

        `host_at_end` and `killed_in` are left to the reader of the run's file.
        """
        latest = self.latest.get
        end, overhead = latest("end") or RunEnd(), latest("overhead")
        throughput = self.throughput()
        steps = throughput.steps if throughput else 0
        within: Phase | None = "evaluate" if self.phase == "fit" else None
        return RunSummary(
            environment=latest("environment") or Environment({}),
            throughput=throughput,
            input=self.input(),
            memory=self.memory_record(),
            operations=latest("placement"),
            flops=latest("flops"),
            utilization=self.utilization(),
            captures=self._captures(),
            profile=latest("profile"),
            validation=self.throughput(within) if within else None,
            validation_input=self.input(within) if within else None,
            overhead_s=overhead.total_s / steps if overhead and steps else None,
            startup_s=overhead.startup_s if overhead else None,
            **vars(end),
            series=self._series(),
            workers=latest("workers"),
            out_of_memory=latest("out_of_memory"),
            learning=latest("learning"),
            host_buffers=latest("host_buffers"),
            stacks=latest("stacks"),
            first_step_s=self._first_step_s(),
            hangs=self._all_hangs(),
        )

    def throughput(self, phase: Phase | None = None) -> ThroughputRecord | None:
        """Returns step times and rates of the run, or of a phase within it; None without any."""
        phase = phase or self.phase
        if phase is None:
            return None
        noted, is_whole = self._noted("throughput", phase)
        if is_whole:
            return noted  # type: ignore[no-any-return]
        known = noted or ThroughputRecord(phase, 0, 0, None, None)
        record: ThroughputRecord = self.measured(known)
        wall_s = (self.ended_s or 0.0) - (self.began_s or 0.0)
        return replace(
            record,
            steps=known.steps - known.measured_steps + record.measured_steps,
            wall_s=wall_s if phase == self.phase else None,
            executions=None,
        )

    def input(self, phase: Phase | None = None) -> InputRecord | None:
        """Returns the latest record of the input, with the figures of all windows so far."""
        phase = phase or self.phase
        if phase is None:
            return None
        noted, is_whole = self._noted("input", phase)
        if is_whole:
            return noted  # type: ignore[no-any-return]
        known: InputRecord | None = noted
        if known is None:
            environment = self.latest.get("environment")
            # With several steps per execution, the wait may include what hides behind compute.
            hides = environment is not None and (environment.steps_per_execution or 1) > 1
            known = InputRecord(phase, confidence="upper bound" if hides else None)
        because = known.unknown_because or "it was not measured"
        record: InputRecord = self.measured(replace(known, unknown_because=because))
        return record

    def measured(self, record: Any) -> Any:
        """Adds the means over all windows of a phase so far to a record on its steps or input."""
        figures = self._windows(record.phase).overall()
        if isinstance(record, ThroughputRecord):
            steps = figures["step_time_s"]
            return replace(
                record,
                measured_steps=round(steps.weight),
                step_time_s=steps.mean,
                examples_per_s=figures["examples_per_s"].mean,
            )
        waits = figures["wait_s"]
        return replace(
            record,
            measured_steps=round(waits.weight),
            wait_s=waits.mean,
            stall_fraction=figures["stall_fraction"].mean,
            most_stall_fraction=(
                figures["most_stall_fraction"].mean if record.phase in self._have_ranges else None
            ),
            buffered_batches=figures["buffered_batches"].mean if waits.weight else None,
            unknown_because=None if waits.weight else record.unknown_because,
        )

    def _noted(self, kind: RecordKind, phase: Phase) -> tuple[Any, bool]:
        """Returns the latest record on a phase's steps, and whether no window followed it."""
        record, at = self._on_steps.get((kind, phase), (None, 0))
        return record, self._windows(phase).readings == at

    def memory_record(self) -> MemoryRecord | None:
        """Returns the memory of devices and of the model; None if neither was read."""
        by_cause, epochs = self.latest.get("memory_by_cause"), self._epochs.readings()
        devices = tuple(self._allocators.values())
        if not (by_cause or epochs or devices):
            return None
        return replace(
            by_cause or MemoryRecord(),
            devices=devices,
            unknown_because=None if devices else self._no_allocator,
            epochs=epochs,
        )

    def utilization(self) -> UtilizationRecord | None:
        """Returns the utilization of GPUs and host; None if neither was read."""
        noted: UtilizationRecord | None = self.latest.get("utilization")
        if noted is None and not self.host.readings and not self.gpus:
            return None
        noted = noted or UtilizationRecord(0)
        listed = {str(gpu.index): gpu for gpu in noted.gpus}
        indices = sorted(self.gpus.keys() | listed.keys(), key=int) if self.gpus else ()
        return replace(
            noted,
            samples=self.host.readings,
            gpus=tuple(
                self._gpu(index, listed.get(index) or GPUUtilization(int(index)))
                for index in indices
            ),
            host=self._host(noted.host or HostUtilization()),
        )

    def _host(self, noted: HostUtilization) -> HostUtilization | None:
        if not self.host.readings:
            return None
        figures = self.host.overall()
        left_bytes = figures["memory_available_bytes"].lowest
        limit_bytes = figures["memory_limit_bytes"].highest
        used_bytes = figures["memory_limit_used_bytes"].highest
        if None not in (left_bytes, limit_bytes, used_bytes):
            left_bytes = min(left_bytes, max(limit_bytes - used_bytes, 0))
        return replace(
            noted,
            cpu_percent=figures["cpu_percent"].mean,
            process_cpu_percent=figures["process_cpu_percent"].mean,
            memory_max_bytes=figures["memory_bytes"].highest,
            memory_available_min_bytes=left_bytes,
            user_cores=figures["user_cores"].mean,
            kernel_cores=figures["kernel_cores"].mean,
            page_faults_per_s=figures["page_faults_per_s"].mean,
        )

    def _gpu(self, index: str, noted: GPUUtilization) -> GPUUtilization:
        if index not in self.gpus:
            return noted
        figures = self.gpus[index].overall()
        throttled = figures["throttled"]
        reasons = sorted(self._throttling.get(index, Counter()).items())
        return replace(
            noted,
            utilization_percent=figures["utilization_percent"].mean,
            memory_others_max_bytes=figures["memory_others_bytes"].highest,
            memory_total_bytes=figures["memory_total_bytes"].highest,
            sm_active_percent=figures["sm_active_percent"].mean,
            tensor_active_percent=figures["tensor_active_percent"].mean,
            throttle_fractions=(
                {reason: count / throttled.weight for reason, count in reasons}
                if throttled.weight
                else None
            ),
        )

    def _captures(self) -> ProfilerRecord | None:
        # Without the record of a run's end, only the automatic ones of `Monitor`'s captures can be
        # distinguished from those of a `Profiler`.
        steady = tuple(capture for capture in self.captures.values() if capture.trigger == "steady")
        noted: ProfilerRecord | None = self.latest.get("profiler")
        return noted or (ProfilerRecord(steady) if steady else None)

    def _first_step_s(self) -> float | None:
        progress: Progress | None = self.latest.get("progress")
        if progress is None or progress.part != "first step" or self.ended_s is None:
            return None
        return max(self.ended_s - self._part_since_s, 0.0)

    def _all_hangs(self) -> tuple[Hang, ...] | None:
        hang: Hang | None = self.latest.get("hang")
        if hang is None:
            return () if "environment" in self.latest else None  # only `Monitor` writes both
        if hang.lasted_s is not None:
            return tuple(self._hangs)
        lasted_s = max((self.ended_s or 0.0) - hang.began_s, 0.0)
        return (*self._hangs, replace(hang, lasted_s=lasted_s))

    def _series(self) -> tuple[Series, ...]:
        options = SERIES_POINTS, self.began_s or 0.0
        streams = (
            (self.steps, tags.STEPS),
            (self.host, tags.HOST),
            *((points, tags.of_gpu(index)) for index, points in self.gpus.items()),
            *((points, tags.of_memory(device)) for device, points in self.memory.items()),
            (self._overhead, tags.OVERHEAD),
        )
        found = (
            # The weight of a figure of steps is their number, also where its mean is over time.
            stream.short_series(figures, *options, 0 if stream is self.steps else None)
            for stream, figures in streams
        )
        return tuple(sorted(chain.from_iterable(found), key=lambda series: series.tag))
