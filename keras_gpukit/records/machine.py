"""What the machine said while a run went on: device memory, GPUs and the host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.memory import MemoryPrediction


@dataclass(frozen=True)
class DeviceMemory:
    """TensorFlow's own allocator on one device.

    Attributes:
        device: "GPU:0".
        current_bytes: In use by tensors at the last reading.
        peak_bytes: The most in use at one time during the run.
        limit_bytes: The most TensorFlow may take on this device.
        first_step_peak_bytes: The most in use until the first step ended.
        later_max_bytes: The most that was read during later steps.
        later_readings: How many readings that is the most of.
    """

    device: str
    current_bytes: int
    peak_bytes: int
    limit_bytes: int | None = None
    first_step_peak_bytes: int | None = None
    later_max_bytes: int | None = None
    later_readings: int = 0


@dataclass(frozen=True)
class MemoryRecord:
    """Allocator readings of every device that has them.

    Attributes:
        devices: One entry a device.
        unknown_because: Why `devices` is empty, where it is.
        weights_bytes: The model's variables; under a strategy, those of one replica.
        slots_bytes: The optimizer's variables, likewise.
        prediction: What steps were predicted to need, on one device.
        not_predicted_because: Why that is None.
        epochs: What was in use after epochs, of this process too; at most 129 of them.
        fits: The same after this fit and those before it that the same callback watched, or the
            same `keras-gpukit run`; at most 33, and empty for the first one.
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
        """The device with the highest peak; None without any."""
        return max(self.devices, key=lambda each: each.peak_bytes, default=None)

    def steps_bytes(self, device: DeviceMemory) -> int | None:
        """What the steps took at the peak: activations, gradients, workspace and batches."""
        if self.weights_bytes is None or self.slots_bytes is None:
            return None
        return max(device.peak_bytes - self.weights_bytes - self.slots_bytes, 0)


@dataclass(frozen=True)
class GPUSample:
    """One reading of one GPU through NVML. What the card or driver does not tell is None.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        utilization_percent: Share of the last sampling period in which a kernel ran.
        memory_used_bytes: In use by all processes.
        memory_process_bytes: In use by this process.
        memory_others_bytes: In use by other processes.
        memory_total_bytes: Physical memory.
        power_watts: Draw.
        power_limit_watts: Enforced limit.
        temperature_celsius: Of the chip.
        sm_clock_mhz: Clock of the multiprocessors.
        throttle_reasons: Names of the reasons that hold the clock down; empty when none does.
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
        cpu_percent: Of all cores together, 0 to 100.
        process_cpu_percent: Of this process, in the same measure.
        memory_bytes: Resident memory of this process.
        memory_available_bytes: What the machine could still give.
        memory_total_bytes: Physical memory.
        disk_read_bytes_per_s: All disks together, since the reading before.
        memory_limit_bytes: What this process's container or job may use; None without a limit.
        memory_limit_used_bytes: What it uses of that, without caches that it gives back.
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
    """One GPU over a whole run: means, except where the name says otherwise.

    Attributes:
        index: Position among the GPUs that TensorFlow lists.
        utilization_percent: Mean.
        memory_used_max_bytes: Highest reading, of all processes.
        memory_process_max_bytes: Highest reading, this process'.
        memory_others_max_bytes: Highest reading, other processes'.
        memory_total_bytes: Physical memory.
        power_watts: Mean.
        power_limit_watts: Last reading.
        temperature_max_celsius: Highest reading.
        sm_clock_mhz: Mean.
        throttled_fraction: Share of readings with a throttle reason, 0 to 1.
        throttle_fractions: The same by reason; a reason never seen is left out.
        lost_because: Why NVML could not read it, or stopped to during the run.
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
    """How busy GPUs were on average, of those that say so; None where none does."""
    busy = [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]
    return sum(busy) / len(busy) if busy else None


@dataclass(frozen=True)
class ProcessUse:
    """How much a process used the host's processors.

    Attributes:
        name: Of its program.
        pid: Its number.
        cpu_percent: Of all cores together, 0 to 100.
    """

    name: str
    pid: int
    cpu_percent: float


@dataclass(frozen=True)
class HostUtilization:
    """The host over a whole run: means, except where the name says otherwise.

    Attributes:
        cpu_percent: Mean over all cores together, 0 to 100.
        process_cpu_percent: Mean of this process, in the same measure.
        memory_max_bytes: Highest resident memory of this process.
        memory_available_min_bytes: Least the machine could still give.
        memory_total_bytes: Physical memory.
        disk_read_bytes_per_s: Mean.
        children_cpu_percent: What this process' own children used; None where that was not looked
            at, as other processes used little.
        job_cpu_percent: What other processes of the same job used on this host, such as its other
            workers; None likewise.
        others: Processes of others that used the most, of those that are visible to this one.
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
    """GPUs and host over a whole run.

    Attributes:
        samples: Readings taken.
        interval_s: Time between two readings.
        gpus: One entry a GPU that TensorFlow uses; empty without any.
        host: The host; None of a run that was over within a tenth of a second.
        gpus_unknown_because: Why `gpus` is empty although there are GPUs.
        processes_unknown_because: Why this process's memory on the GPUs is not known apart from
            that of others.
    """

    samples: int
    interval_s: float
    gpus: tuple[GPUUtilization, ...] = ()
    host: HostUtilization | None = None
    gpus_unknown_because: str | None = None
    processes_unknown_because: str | None = None
