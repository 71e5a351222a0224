"""Contents of a report: runs read back from their log folders; and results of `bench`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records import Displayed
from keras_gpukit.records.environment import Environment, Worker, is_chief
from keras_gpukit.records.event import Hang, RunEvent
from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.names import SCHEMA
from keras_gpukit.records.profile import CaptureRecord, ProfileRecord
from keras_gpukit.records.run import Ceilings, RunSummary
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.records.steps import Phase, Progress
from keras_gpukit.records.tuning import Rate

State = Literal["completed", "interrupted", "running", "unfinished"]


@dataclass(frozen=True)
class Band:
    """One figure over the points of a time series. A point without a reading has None.

    Attributes:
        weight: Total weight of the readings in each point's mean: number of steps, seconds, or
            number of readings.
    """

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    weight: tuple[float, ...]

    @property
    def overall(self) -> float | None:
        """Mean of all readings; None without any."""
        total = sum(self.weight)
        if not total:
            return None
        parts = zip(self.mean, self.weight, strict=True)
        return sum(mean * weight for mean, weight in parts if mean is not None) / total

    @property
    def lowest(self) -> float | None:
        """Lowest of all readings; None without any."""
        return min((value for value in self.low if value is not None), default=None)

    @property
    def highest(self) -> float | None:
        """Highest of all readings; None without any."""
        return max((value for value in self.high if value is not None), default=None)


@dataclass(frozen=True)
class TimeSeries:
    """Readings of one kind over a run. If there are many, neighbours are merged into one point.

    Attributes:
        figures: Figures by name; the name contains the unit.
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
        name: Name of the capture as in TensorBoard's Profile tab, with the file name of its host.
        capture: When and why it was made; None if something other than a `Profiler` made it.
        verdict: Verdict by the profile alone; None if the verdict is that of a run.
    """

    name: str
    capture: CaptureRecord | None = None
    profile: ProfileRecord | None = None
    unread_because: str | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class RunReport:
    """One run, read back.

    Attributes:
        name: Log folder of the run, relative to the log directory, with its worker or process if
            several wrote to the folder, and a number from the second run of that process on.
        state: "completed"; "interrupted" by an exception; "running" if the last line is recent and
            the process may still run; "unfinished" otherwise, as when the process was killed or no
            `Monitor` watched the run.
        summary: Summary of the run. If the run is not over or ended without a summary, this is made
            from its lines so far, judged by the same rules.
        steps: Figures of step windows: `step_time_s`, `wait_s`, `stall_fraction`, `examples_per_s`,
            `buffered_batches`, `between_s`. A window is already a mean over about a second.
        host: Figures of the host: the fields of `HostSample`.
        gpus: Figures by GPU index: `utilization_percent`, `memory_used_bytes`,
            `memory_total_bytes`, `power_watts`, `temperature_celsius`, `sm_clock_mhz`,
            `sm_active_percent`, `tensor_active_percent`, `memory_bandwidth_percent`, and
            `throttled`, 0 or 1. The index is text, since JSON requires that of keys.
        events: Epochs, validations, saves and the like, each kind in order.
        folder: Log folder of the run, relative to the report's folder, such as "sweep/lr-0.1"; ""
            if both are the same.
        has_time_series: False if only the summary was kept, since the run is one of many.
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
    hang: Hang | None = None
    folder: str = ""
    has_time_series: bool = True
    notes: tuple[str, ...] = ()

    @property
    def is_chief(self) -> bool:
        """Whether the process that wrote the run reports for its whole cluster."""
        return is_chief(self.worker)


@dataclass(frozen=True)
class Report(Displayed):
    """All runs under a folder, and the profiles that belong to none of them.

    Attributes:
        runs: Runs, the newest first.
        schema: Version of the layout. It increases when a field changes its meaning or is removed.
    """

    log_dir: str
    made_s: float
    version: str
    runs: tuple[RunReport, ...] = ()
    captures: tuple[CaptureReport, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA
    script: ScriptRecord | None = None

    @property
    def newest_profile(self) -> CaptureReport | None:
        """The newest of `captures` that was read, if possible with steps; None without any."""
        read = [report for report in reversed(self.captures) if report.profile is not None]
        return max(
            read, key=lambda report: bool(report.profile and report.profile.steps), default=None
        )


DeviceKind = Literal["GPU", "CPU"]


@dataclass(frozen=True)
class BenchmarkRow:
    """One model trained in one setting; without a rate and a reason if there was no time for it.

    Attributes:
        precision: "float32", "TF32", or the type of Keras' mixed policy.
        batch: Examples in a batch. A CPU gets smaller batches than a GPU.
        rate: Examples per second.
    """

    device: DeviceKind
    model: str
    precision: str
    jit: bool
    batch: int
    rate: Rate | None = None
    failed_because: str | None = None


@dataclass(frozen=True)
class DeviceBenchmark:
    """Measurements of one device.

    Attributes:
        cores: Number of cores that the process could use.
        date: When it was measured, in ISO 8601.
        name: Product name of the GPU or processor; None if the device was not used.
        rows: Rows, the most important first.
        failed_because: Why the device, or its ceilings, could not be measured.
    """

    kind: DeviceKind
    cores: int
    date: str
    name: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    rows: tuple[BenchmarkRow, ...] = ()
    failed_because: str | None = None


@dataclass(frozen=True)
class MachineBenchmark:
    """Measurements of this machine.

    Attributes:
        seconds: The time budget.
        interrupted: Whether Ctrl-C ended it.
        schema: Version of the layout.
    """

    devices: tuple[DeviceBenchmark, ...]
    seconds: float
    interrupted: bool = False
    schema: int = SCHEMA
