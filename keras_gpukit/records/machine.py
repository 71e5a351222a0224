"""Readings of the machine during a run: device memory, memory between epochs, GPUs and host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from keras_gpukit.records.memory import MemoryPrediction

SAMPLE_EVERY_S = 1.0
"""Seconds between two readings of the machine."""
ThrottleReason = Literal[
    "applications clocks setting",
    "software power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
    "display clock setting",
]


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of TensorFlow's own allocator on one device.

    Attributes:
        first_step_peak_bytes: Peak of the memory in use until the first step ended; None before
            that.
        later_peak_bytes: Peak of the memory in use since the first step ended; None without a later
            step, or if TensorFlow's peak counter must not be reset.
    """

    device: str
    current_bytes: int
    peak_bytes: int
    limit_bytes: int | None = None
    first_step_peak_bytes: int | None = None
    later_peak_bytes: int | None = None

    @property
    def needed_bytes(self) -> int:
        """Peak of later steps if it is known, else that of the run.

        A first step's peak is no need of training: cuDNN and XLA try algorithms in it, and make do
        with less memory where less is free.
        """
        return self.peak_bytes if self.later_peak_bytes is None else self.later_peak_bytes


HOST = "host"
"""Location of NumPy arrays. Tensors are on a device, such as "GPU:0"."""


@dataclass(frozen=True)
class Kept:
    """A list, dictionary or the like of tensors that a callback, the model or the script keeps.

    Attributes:
        name: Owner and attribute, such as "Saver.outputs". For a global variable its name, such as
            "losses", or "buffer.items" for an attribute of one.
        where: Location of the tensors: "GPU:0", "CPU:0", or "host" for NumPy arrays.
        module: Script file, such as "train.py", or module, such as "project.data", of the global
            variable; None if a callback or the model keeps the collection.
    """

    name: str
    where: str
    size_bytes: int
    module: str | None = None
    length: int | None = None

    @property
    def label(self) -> str:
        """Name with the module, if there is one."""
        return self.name if self.module is None else f"{self.name} of {self.module}"


@dataclass(frozen=True)
class EpochMemory:
    """Memory in use after an epoch, once all callbacks have returned, or after a fit.

    Attributes:
        epoch: Number of epochs that have ended, from 1. After a fit: number of fits that have
            ended.
        left_bytes: Host memory still available, within the container's limit; None if it was not
            read, as when memory had not grown.
        kept: Collections of tensors that callbacks, the model and the script's modules keep, those
            that grew most first. Empty if they were not read, as when memory had not grown.
    """

    epoch: int
    step: int
    process_bytes: int | None = None
    left_bytes: int | None = None
    current_bytes: dict[str, int] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    tracings: int = 0
    models: int = 0
    models_bytes: int = 0


@dataclass(frozen=True)
class MemoryRecord:
    """Memory of every device whose allocator can be read, and of the model on it.

    Attributes:
        weights_bytes: Size of the variables of the model, and of other models that its step uses;
            under a strategy, those of one replica.
        slots_bytes: Size of the variables of every optimizer that the step updates; under a
            strategy, those of one replica, and only of optimizers that are the model's attributes.
        epochs: Memory in use after epochs, including that of this process; at most 129 readings.
        fits: Memory in use after this fit and earlier ones with the same callback or in the same
            `keras-gpukit run`; at most 33 readings, empty for the first fit.
    """

    devices: tuple[DeviceMemory, ...] = ()
    unknown_because: str | None = None
    weights_bytes: int | None = None
    slots_bytes: int | None = None
    prediction: MemoryPrediction | None = None
    not_predicted_because: str | None = None
    epochs: tuple[EpochMemory, ...] = ()
    fits: tuple[EpochMemory, ...] = ()

    @property
    def fullest(self) -> DeviceMemory | None:
        """Device on which steps need most; None without any."""
        return max(self.devices, key=lambda device: device.needed_bytes, default=None)

    def steps_bytes(self, device: DeviceMemory) -> int | None:
        """Returns the peak bytes of the steps: activations, gradients, workspace and batches."""
        if self.weights_bytes is None or self.slots_bytes is None:
            return None
        return max(device.needed_bytes - self.weights_bytes - self.slots_bytes, 0)


@dataclass(frozen=True)
class GPUSample:
    """One reading of one GPU through NVML. Fields that the card or driver does not report are None.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        utilization_percent: Share of the last sampling period in which a kernel ran.
        sm_active_percent: Share of the multiprocessors that were busy since the last reading, as
            NVML reports from Hopper on.
        tensor_active_percent: Share of the time in which these used tensor cores.
        memory_bandwidth_percent: Share of the GPU memory's bandwidth that was used.
    """

    index: int
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_process_bytes: int | None = None
    memory_others_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    sm_active_percent: float | None = None
    tensor_active_percent: float | None = None
    memory_bandwidth_percent: float | None = None
    throttle_reasons: tuple[ThrottleReason, ...] | None = None


@dataclass(frozen=True)
class HostSample:
    """One reading of the host through psutil.

    Attributes:
        process_cpu_percent: Share of all cores that this process uses.
        memory_limit_bytes: Memory limit of this process's container or job; None without a limit.
        memory_limit_used_bytes: Memory in use under that limit, without caches that can be
            reclaimed.
        user_cores: Mean number of cores that code of this process kept busy, the kernel's work left
            out. This and the figures below are None outside steps and on Windows.
        kernel_cores: Mean number of cores that the kernel kept busy on behalf of this process.
        page_faults_per_s: Page faults of this process that read no disk ("minor"), per second.
    """

    cpu_percent: float | None = None
    process_cpu_percent: float | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_read_bytes_per_s: float | None = None
    memory_limit_bytes: int | None = None
    memory_limit_used_bytes: int | None = None
    user_cores: float | None = None
    kernel_cores: float | None = None
    page_faults_per_s: float | None = None


@dataclass(frozen=True)
class GPUUtilization:
    """One GPU over a whole run: means, unless the name says otherwise.

    Attributes:
        throttle_fractions: Share of readings with each throttle reason. Reasons that never occurred
            are left out.
        lost_because: Why NVML could not read the GPU, or stopped during the run.
    """

    index: int
    utilization_percent: float | None = None
    memory_others_max_bytes: int | None = None
    memory_total_bytes: int | None = None
    sm_active_percent: float | None = None
    tensor_active_percent: float | None = None
    throttle_fractions: dict[ThrottleReason, float] | None = None
    lost_because: str | None = None


def mean_busy_percent(gpus: Iterable[GPUUtilization]) -> float | None:
    """Returns the mean utilization of the GPUs that report it; None if none does."""
    busy = [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]
    return sum(busy) / len(busy) if busy else None


@dataclass(frozen=True)
class ProcessUse:
    """Processor use of one process."""

    name: str
    pid: int
    cpu_percent: float


@dataclass(frozen=True)
class HostUtilization:
    """The host over a whole run: means, unless the name says otherwise.

    Attributes:
        memory_available_min_bytes: Lowest memory that the machine could still provide, or that the
            limit of a container or job left, if that is less.
        children_cpu_percent: Share of all cores that child processes of this process used; None if
            it was not measured because other processes used little.
        job_cpu_percent: Share of all cores that other processes of the same job on this host used,
            such as its other workers.
        user_cores: Mean number of cores that code of this process kept busy in steps, the kernel's
            work left out.
        kernel_cores: Mean number of cores that the kernel kept busy on behalf of this process in
            steps.
        page_faults_per_s: Page faults of this process that read no disk ("minor"), per second of
            steps.
    """

    cpu_percent: float | None = None
    process_cpu_percent: float | None = None
    memory_max_bytes: int | None = None
    memory_available_min_bytes: int | None = None
    children_cpu_percent: float | None = None
    job_cpu_percent: float | None = None
    others: tuple[ProcessUse, ...] = ()
    user_cores: float | None = None
    kernel_cores: float | None = None
    page_faults_per_s: float | None = None

    @property
    def kernel_fraction(self) -> float | None:
        """The kernel's share of this process's processor time in steps, 0 to 1; None if unknown."""
        if self.user_cores is None or not self.kernel_cores:
            return self.kernel_cores
        return self.kernel_cores / (self.user_cores + self.kernel_cores)

    @property
    def others_cpu_percent(self) -> float | None:
        """Share of all cores that processes outside this one and its job used; None if unknown."""
        if self.cpu_percent is None or self.process_cpu_percent is None:
            return None
        known = self.process_cpu_percent, self.children_cpu_percent, self.job_cpu_percent
        return max(self.cpu_percent - sum(percent or 0.0 for percent in known), 0.0)


@dataclass(frozen=True)
class UtilizationRecord:
    """Utilization of GPUs and host over a whole run.

    Attributes:
        processes_unknown_because: Why this process's memory on the GPUs cannot be separated from
            that of other processes.
    """

    samples: int
    gpus: tuple[GPUUtilization, ...] = ()
    host: HostUtilization | None = None
    gpus_unknown_because: str | None = None
    processes_unknown_because: str | None = None
