"""What a report is made of: runs read back from their log folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.capture import CaptureRecord
from keras_gpukit.records.environment import Environment, Worker, is_chief
from keras_gpukit.records.event import RunEvent
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import Phase, Progress

State = Literal["completed", "interrupted", "running", "unfinished"]


@dataclass(frozen=True)
class Band:
    """One figure over the points of a series. A point without a reading of it has None.

    Attributes:
        mean: Of the readings in each point.
        low: The lowest of them.
        high: The highest.
        weight: What each point's mean was weighted with, in all: its steps, its seconds, or the
            number of its readings.
    """

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    weight: tuple[float, ...]

    @property
    def overall(self) -> float | None:
        """Mean of all readings."""
        total = sum(self.weight)
        if not total:
            return None
        parts = zip(self.mean, self.weight, strict=True)
        return sum(mean * weight for mean, weight in parts if mean is not None) / total

    @property
    def lowest(self) -> float | None:
        """The lowest of all readings."""
        return min((value for value in self.low if value is not None), default=None)

    @property
    def highest(self) -> float | None:
        """The highest of all readings."""
        return max((value for value in self.high if value is not None), default=None)


@dataclass(frozen=True)
class TimeSeries:
    """Readings of one kind over a run; where there are many, neighbours make one point.

    Attributes:
        time_s: When each point ended, in seconds since the Unix epoch.
        step: Global step at that time; None where it was not told.
        readings: In all.
        readings_per_point: At most.
        figures: By name; the unit is in the name.
    """

    time_s: tuple[float, ...]
    step: tuple[int | None, ...]
    readings: int
    readings_per_point: int
    figures: dict[str, Band]


@dataclass(frozen=True)
class CaptureReport:
    """One captured profile.

    Attributes:
        name: Of the capture, as in TensorBoard's Profile tab, with its host's file.
        capture: When and why it was made; None where something else than a `Profiler` made it.
        profile: What it says; None where it was not read.
        unread_because: Why not.
    """

    name: str
    capture: CaptureRecord | None = None
    profile: ProfileRecord | None = None
    unread_because: str | None = None


@dataclass(frozen=True)
class RunReport:
    """One run, read back.

    Attributes:
        name: Its log folder, from the log directory; with its worker or process where several wrote
            to it, and a number from the second run of that process on.
        state: "completed"; "interrupted" by an exception; "running" where the last line is fresh;
            "unfinished" where it ended without a word, as when its process is known to have ended,
            or no `Monitor` watched it.
        phase: What was run; None before its first steps.
        began_s: In seconds since the Unix epoch.
        ended_s: When its last line was written.
        summary: What it came to. Of a run that is not over, or ended without a word, that is what
            its lines tell so far, judged by the same rules.
        steps: Figures of step windows: `step_time_s`, `wait_s`, `stall_fraction`,
            `examples_per_s`, `buffered_batches`. Each second's windows are means already.
        host: Figures of the host: fields of `HostSample`.
        gpus: By the GPU's index, as text since JSON wants it, fields of `GPUSample`; and
            `throttled`, 0 or 1.
        memory: By device, fields of `DeviceMemory`.
        captures: Profiles, the oldest first.
        validation: Figures of the step windows of validations within `fit`, as those of `steps`.
        events: Epochs, validations, saves and the like, each kind in its order.
        worker: Which process of a cluster wrote it; None outside one.
        progress: What it was doing last; None where that was not noted.
        folder: Its log folder, from the report's, as "sweep/lr-0.1"; "" where it is the same.
        has_time_series: False where only the summary was kept, the run being one of many.
        notes: What could not be read, in words.
    """

    name: str
    state: State
    phase: Phase | None = None
    began_s: float | None = None
    ended_s: float | None = None
    summary: RunSummary = field(default_factory=lambda: RunSummary(Environment({})))
    steps: TimeSeries | None = None
    host: TimeSeries | None = None
    gpus: dict[str, TimeSeries] = field(default_factory=dict)
    memory: dict[str, TimeSeries] = field(default_factory=dict)
    captures: tuple[CaptureReport, ...] = ()
    validation: TimeSeries | None = None
    events: tuple[RunEvent, ...] = ()
    worker: Worker | None = None
    progress: Progress | None = None
    folder: str = ""
    has_time_series: bool = True
    notes: tuple[str, ...] = ()

    @property
    def is_chief(self) -> bool:
        """Whether the process that wrote it speaks for all of its cluster."""
        return is_chief(self.worker)


@dataclass(frozen=True)
class Report:
    """Every run under a folder.

    Attributes:
        log_dir: The folder.
        made_s: When it was read, in seconds since the Unix epoch.
        version: Of keras_gpukit, which read it.
        runs: The newest first.
        captures: Profiles that belong to none of the runs.
        notes: What was left out or could not be read, in words.
        schema: Version of this layout.
    """

    log_dir: str
    made_s: float
    version: str
    runs: tuple[RunReport, ...] = ()
    captures: tuple[CaptureReport, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = 1
