"""NVIDIA GPUs and their driver through NVML.

Nothing here has run on a GPU yet: it is tested against a stand-in for the NVML library.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Driver, DriverGPU
from keras_gpukit.records.machine import GPUSample

T = TypeVar("T")

# NVML's reasons for a lowered clock. Idling lowers it too and is no complaint, so it is left out.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
THROTTLE_REASONS = {
    0x002: "applications clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}


def read_driver(nvml: Any = None) -> Driver:
    """Asks NVML for the driver and its GPUs; never raises.

    Args:
        nvml: The `pynvml` module, or a stand-in.
    """
    module = os.path.exists("/proc/driver/nvidia/version") if sys.platform == "linux" else None
    try:
        nvml = nvml or import_module("pynvml")
        nvml.nvmlInit()
        try:
            cuda = nvml.nvmlSystemGetCudaDriverVersion()
            return Driver(
                version=_text(nvml.nvmlSystemGetDriverVersion()),
                cuda_version=(cuda // 1000, cuda % 1000 // 10),
                gpus=tuple(_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
                kernel_module=module,
            )
        finally:
            nvml.nvmlShutdown()
    except Exception as error:
        return Driver(error=type(error).__name__.removeprefix("NVMLError_"), kernel_module=module)


class NVMLSensor:
    """Reads GPUs.

    Args:
        gpus: The GPUs; one whose UUID is not known cannot be read and is left out.
        nvml: The `pynvml` module, or a stand-in.

    Raises:
        LookupError: If no GPU's UUID is known.
        Exception: NVML's own error when there is no driver.
    """

    def __init__(self, gpus: Sequence[GPUInfo], nvml: Any = None) -> None:
        if not any(gpu.uuid for gpu in gpus):
            raise LookupError("it is unknown which of the machine's GPUs TensorFlow uses")
        self._nvml = nvml or import_module("pynvml")
        self._nvml.nvmlInit()
        self._handles = {
            gpu.index: self._nvml.nvmlDeviceGetHandleByUUID(gpu.uuid) for gpu in gpus if gpu.uuid
        }
        self._pid = os.getpid()
        # One thread may close while another reads.
        self._lock = threading.Lock()

    def read(self) -> tuple[GPUSample, ...]:
        """Reads each GPU once; nothing any more once closed.

        Raises:
            Exception: NVML's own error when a GPU or the driver is gone.
        """
        with self._lock:
            return tuple(self._read(index, handle) for index, handle in self._handles.items())

    def holders(self, index: int) -> dict[int, int] | None:
        """Returns what each process holds of a GPU, in bytes by its number; None if not visible.

        In most containers the numbers are those of the machine, where this process has another.

        Args:
            index: Position among the GPUs that TensorFlow lists.

        Raises:
            Exception: NVML's own error when the GPU or the driver is gone.
        """
        with self._lock:
            handle = self._handles.get(index)
            if handle is None:
                return None
            processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if processes is None or any(each.usedGpuMemory is None for each in processes):
            return None
        return {each.pid: each.usedGpuMemory for each in processes}

    def close(self) -> None:
        """Lets NVML go."""
        with self._lock:
            self._handles = {}
            self._nvml.nvmlShutdown()

    def _read(self, index: int, handle: Any) -> GPUSample:
        nvml = self._nvml
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        power_limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        mine, others = self._memory_by_process(handle)
        reasons = self._ask(self._throttle_mask, handle)
        return GPUSample(
            index=index,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            memory_used_bytes=None if memory is None else memory.used,
            memory_process_bytes=mine,
            memory_others_bytes=others,
            memory_total_bytes=None if memory is None else memory.total,
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if power_limit is None else power_limit / 1000,
            temperature_celsius=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            throttle_reasons=None
            if reasons is None
            else tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        )

    def _throttle_mask(self, handle: Any) -> int:
        nvml = self._nvml
        mask: int
        try:
            mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        except nvml.NVMLError_FunctionNotFound:
            # Drivers before 535 know the question by its old name only.
            mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        return mask

    def _memory_by_process(self, handle: Any) -> tuple[int | None, int | None]:
        """This process' memory and that of all others.

        Unknown where the driver does not report it (Windows) or reports process numbers of another
        namespace than ours (most containers).
        """
        processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if processes is None:
            return None, None
        used = {process.pid: process.usedGpuMemory for process in processes}
        if self._pid not in used or None in used.values():
            return None, None
        return used[self._pid], sum(used.values()) - used[self._pid]

    def _ask(self, question: Callable[..., T], *args: Any) -> T | None:
        """The answer, or None where this card or driver has none or keeps it to itself."""
        nvml = self._nvml
        try:
            return question(*args)
        except (
            nvml.NVMLError_NotSupported,
            nvml.NVMLError_FunctionNotFound,
            nvml.NVMLError_NoPermission,
        ):
            return None


def _describe(nvml: Any, index: int) -> DriverGPU:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(question: str) -> Any:
        # Not every GPU answers everything: one that shares the host's memory has none of its own.
        try:
            return getattr(nvml, question)(handle)
        except nvml.NVMLError:
            return None

    memory = ask("nvmlDeviceGetMemoryInfo")
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    bus = ask("nvmlDeviceGetPciInfo")
    return DriverGPU(
        index=index,
        name=_text(ask("nvmlDeviceGetName")),
        uuid=_text(ask("nvmlDeviceGetUUID")),
        memory_bytes=None if memory is None else memory.total,
        compute_capability=None if capability is None else tuple(capability),
        pci_bus_id=None if bus is None else _text(bus.busId),
    )


def _text(value: str | bytes | None) -> str | None:
    # Older bindings give bytes.
    return value.decode() if isinstance(value, bytes) else value
