"""Readings of the machine during a run: device memory, GPUs and the host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.memory import MemoryPrediction

SAMPLE_EVERY_S = 1.0
"""Seconds between two readings of the machine."""


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of TensorFlow's own allocator on one device.

    Attributes:
        device: Name of the device, such as "GPU:0".
        current_bytes: Memory in use by tensors at the last reading.
        peak_bytes: Peak of the memory in use during the run.
        limit_bytes: Most memory that TensorFlow may take on the device; None if unknown.
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


@dataclass(frozen=True)
class MemoryRecord:
    """Memory of every device whose allocator can be read, and of the model on it.

    Attributes:
        devices: One entry per device.
        unknown_because: Why `devices` is empty; None if it is not.
        weights_bytes: Size of the variables of the model, and of other models that its step uses;
            under a strategy, those of one replica.
        slots_bytes: Size of the variables of every optimizer that the step updates; under a
            strategy, those of one replica, and only of optimizers that are the model's attributes.
        prediction: Predicted memory of training steps on one device.
        not_predicted_because: Why `prediction` is None; None if it is not.
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
        return max(self.devices, key=lambda each: each.needed_bytes, default=None)

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
        memory_used_bytes: Memory in use by all processes.
        memory_process_bytes: Memory in use by this process.
        memory_others_bytes: Memory in use by other processes.
        memory_total_bytes: Physical memory.
        power_watts: Power draw.
        power_limit_watts: Enforced power limit.
        temperature_celsius: Temperature of the chip.
        sm_clock_mhz: Clock of the streaming multiprocessors.
        throttle_reasons: Names of the reasons that lower the clock; empty if there are none.
    """

    index: int
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_process_bytes: int | None = None
    memory_others_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None


@dataclass(frozen=True)
class HostSample:
    """One reading of the host through psutil.

    Attributes:
        cpu_percent: Utilization of all cores together, 0 to 100.
        process_cpu_percent: Share of all cores that this process uses, 0 to 100.
        memory_bytes: Resident memory of this process.
        memory_available_bytes: Memory that the machine can still provide.
        memory_total_bytes: Physical memory.
        disk_read_bytes_per_s: Read rate of all disks together, since the previous reading.
        memory_limit_bytes: Memory limit of this process's container or job; None without a limit.
        memory_limit_used_bytes: Memory in use under that limit, without caches that can be
            reclaimed.
    """

    cpu_percent: float | None = None
    process_cpu_percent: float | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_read_bytes_per_s: float | None = None
    memory_limit_bytes: int | None = None
    memory_limit_used_bytes: int | None = None


@dataclass(frozen=True)
class GPUUtilization:
    """One GPU over a whole run: means, unless the name says otherwise.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        utilization_percent: Mean share of time in which a kernel ran, 0 to 100.
        memory_used_max_bytes: Highest reading of the memory in use by all processes.
        memory_process_max_bytes: Highest reading of the memory in use by this process.
        memory_others_max_bytes: Highest reading of the memory in use by other processes.
        memory_total_bytes: Physical memory.
        power_watts: Mean power draw.
        power_limit_watts: Last reading of the enforced power limit.
        temperature_max_celsius: Highest temperature of the chip.
        sm_clock_mhz: Mean clock of the streaming multiprocessors.
        throttled_fraction: Share of readings with a throttle reason, 0 to 1.
        throttle_fractions: Share of readings with each throttle reason, 0 to 1. Reasons that never
            occurred are left out.
        lost_because: Why NVML could not read the GPU, or stopped during the run; None if it did
            neither.
    """

    index: int
    utilization_percent: float | None = None
    memory_used_max_bytes: int | None = None
    memory_process_max_bytes: int | None = None
    memory_others_max_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_max_celsius: float | None = None
    sm_clock_mhz: float | None = None
    throttled_fraction: float | None = None
    throttle_fractions: dict[str, float] | None = None
    lost_because: str | None = None


def mean_busy_percent(gpus: Iterable[GPUUtilization]) -> float | None:
    """Returns the mean utilization of the GPUs that report it; None if none does."""
    busy = [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]
    return sum(busy) / len(busy) if busy else None


@dataclass(frozen=True)
class ProcessUse:
    """Processor use of one process.

    Attributes:
        name: Name of its program.
        pid: Process ID.
        cpu_percent: Share of all cores that it used, 0 to 100.
    """

    name: str
    pid: int
    cpu_percent: float


@dataclass(frozen=True)
class HostUtilization:
    """The host over a whole run: means, unless the name says otherwise.

    Attributes:
        cpu_percent: Mean utilization of all cores together, 0 to 100.
        process_cpu_percent: Mean share of all cores that this process used, 0 to 100.
        memory_max_bytes: Highest resident memory of this process.
        memory_available_min_bytes: Lowest memory that the machine could still provide, or that the
            limit of a container or job left, if that is less.
        memory_total_bytes: Physical memory.
        disk_read_bytes_per_s: Mean read rate of all disks together.
        children_cpu_percent: Share of all cores that child processes of this process used, 0 to
            100; None if it was not measured because other processes used little.
        job_cpu_percent: Share of all cores that other processes of the same job on this host used,
            such as its other workers, 0 to 100; None if it was not measured.
        others: Processes outside this job that used the most, among those visible to this process.
    """

    cpu_percent: float | None = None
    process_cpu_percent: float | None = None
    memory_max_bytes: int | None = None
    memory_available_min_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_read_bytes_per_s: float | None = None
    children_cpu_percent: float | None = None
    job_cpu_percent: float | None = None
    others: tuple[ProcessUse, ...] = ()


@dataclass(frozen=True)
class UtilizationRecord:
    """Utilization of GPUs and host over a whole run.

    Attributes:
        samples: Number of readings.
        interval_s: Time between two readings, in seconds.
        gpus: One entry per GPU that TensorFlow uses; empty without any.
        host: The host; None for a run that ended within 0.1 s.
        gpus_unknown_because: Why `gpus` is empty although there are GPUs; None otherwise.
        processes_unknown_because: Why this process's memory on the GPUs cannot be separated from
            that of other processes; None if it can.
    """

    samples: int
    interval_s: float
    gpus: tuple[GPUUtilization, ...] = ()
    host: HostUtilization | None = None
    gpus_unknown_because: str | None = None
    processes_unknown_because: str | None = None
